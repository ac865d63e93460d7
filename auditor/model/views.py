"""Data that ``bkaudit explain`` formats: one bookie, ledger, topic or run as an audit saw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from auditor.model.finding import ChangeStatus, Finding, Severity
from auditor.model.ledger_metadata import Segment
from auditor.model.report import Report
from auditor.model.source_scope import SourceScope
from auditor.model.states import WitnessAnswer


@dataclass(frozen=True, slots=True)
class CookieView:
    """Cookie of a bookie in the store. ``damage`` says why it is unreadable. None if it is readable."""

    layout: int | None = None
    bookie_host: str | None = None
    journal_dirs: str | None = None
    ledger_dirs: tuple[str, ...] = ()
    index_dirs: tuple[str, ...] = ()
    instance_id: str | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class RegistrationView:
    """A registration of a bookie. ``mode`` is writable or readonly.

    Each of the ``endpoints`` is a (name, host, port, protocol) tuple. ``ephemeral`` is None if the store
    does not say whether the registration ends with a session.
    """

    mode: str
    endpoints: tuple[tuple[str, str, int, str], ...] = ()
    damage: str | None = None
    ephemeral: bool | None = None


@dataclass(frozen=True, slots=True)
class AliasView:
    """Another id that may belong to the bookie, with the evidence of each rule for and against this.

    ``is_same_bookie`` is True if both ids belong to the same bookie. It is False if there are only hints.
    """

    bookie_id: str
    is_same_bookie: bool
    registered: bool
    rule_evidence: tuple[tuple[str, str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateView:
    """A bookie id that may own a directory, judging by the ledgers in the directory.

    ``naming_ledgers`` counts the ledgers in the directory whose metadata names the id. ``matching_ledgers``
    counts the ledgers whose entries in the directory are exactly the entries that the id should have.
    """

    bookie_id: str
    naming_ledgers: int
    matching_ledgers: int


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """A directory that has data of the bookie, or that the bookie should use according to its path.

    ``ledgers`` counts the ledgers in the directory that the run could judge. ``owner_candidates`` are the
    bookie ids that these ledgers suggest as its owner, the most likely first.
    """

    path: str
    role: str
    place: str | None
    owner: str | None
    cookie_bookie_id: str | None
    instance_id: str | None
    layout: int | None
    index_time: int | None  # ms
    damage: str | None = None
    ledgers: int = 0
    owner_candidates: tuple[CandidateView, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalView:
    """A journal directory, the mark (last checkpoint) where reading began, and why its end was not read.

    ``reason`` is None if the journal was read to its end. ``files`` counts the journal files from the mark
    on. ``files_below`` counts the files before the mark, which a restart would not read. ``path`` is the
    damaged file if there is one, and the directory otherwise. ``path`` is None if no directory is known.
    """

    path: str | None
    reason: str | None
    mark_file: str | None
    mark_offset: int | None
    files: int
    files_below: int
    entries: int


@dataclass(frozen=True, slots=True)
class ProblemView:
    """The findings of one check about a bookie: their number, and the messages of the first few.

    ``statuses`` has one element for each of the ``messages``. It is empty if the run stored no statuses.
    ``first_ledger_finding`` is the first of these findings that is about a ledger. It is an example for
    commands.
    """

    id: str
    severity: Severity
    count: int
    unconfirmed_count: int  # of these, not confirmed
    messages: tuple[str, ...]
    statuses: tuple[ChangeStatus | None, ...] = ()
    first_ledger_finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class BookieView:
    """A bookie as one run saw it.

    These fields are numbers of ledgers:

        ledgers           ledgers that name the bookie
        depending         ledgers with entries, or an unclosed last segment, on the bookie
        replicas          ledgers with an entry that the bookie certainly should have
        held_ledgers      ledgers on the bookie's disks; None if no part of its index was read
        orphan_ledgers    ledgers on the bookie's disks that the metadata does not list
    """

    bookie_id: str
    read: str  # read, partial or unread
    reason: str | None
    index_time: int | None  # ms
    suspect: bool
    foreign_instance: bool
    marked: bool
    ledgers: int
    depending: int
    replicas: int
    held_ledgers: int | None
    orphan_ledgers: int
    cookie: CookieView | None = None
    registrations: tuple[RegistrationView, ...] = ()
    directories: tuple[DirectoryView, ...] = ()
    problems: tuple[ProblemView, ...] = ()
    index_time_basis: str | None = None  # a `TimeBasis`; None: no time, or an older run
    aliases: tuple[AliasView, ...] = ()
    tail: str | None = None
    journals: tuple[JournalView, ...] = ()
    storage: str | None = None  # idx, rocksdb; None where nothing says


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """The entries of a ledger that one bookie should have, and the entries that it has.

    ``expected_entries`` and ``held_entries`` are BP-34 sequence groups (ranges of entry ids) of 24 bytes each
    (`auditor.codecs.availability.groups`). ``known`` is False if the bookie may have more entries. ``state``
    or ``reason`` then says why. ``state`` is the state of the index: ok, absent (no index), cut, unreadable,
    limbo (the bookie does not know the entries yet), not-indexed, unread.
    """

    bookie_id: str
    is_member: bool
    expected_entries: bytes
    held_entries: bytes
    known: bool
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerView:
    """Entries for which a bookie gave the same kind of answer when it was asked for them.

    ``count`` is the number of entries. ``entries`` has their ids as BP-34 sequence groups (ranges of ids) of
    24 bytes each. ``reason`` says why an answer is unknown. It is None for other answers.
    """

    bookie_id: str
    answer: WitnessAnswer
    entries: bytes
    count: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LogEntriesView:
    """Entries of a ledger that are in an entry log of a bookie but not in the bookie's index.

    ``entries`` has their ids as BP-34 sequence groups (ranges of ids) of 24 bytes each. ``count`` is their
    number. Both are None if the entries of the log were not read. ``reason`` then says why. ``lost_count`` is
    the number of these entries that no bookie's index has. ``size`` is the number of bytes of ``entries`` in
    the log. If ``entries`` is None, ``size`` is the number of bytes of the whole ledger in this log.
    """

    bookie_id: str
    log_id: int
    path: str
    size: int
    entries: bytes | None = None
    count: int | None = None
    lost_count: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerView:
    """A ledger as one run saw it.

    ``status`` is the column of the table ledgers, or "gone" if only bookies have the ledger. ``state`` and
    all numbers are None if the metadata could not be read. ``judged_class`` and ``potential_class`` are
    columns of the table verdicts. ``custom_metadata`` contains (key, value) pairs. Values that are not text
    are in hexadecimal. ``answers`` are the answers of bookies to requests for entries. They are empty if no
    bookie was asked. ``mark_texts`` say whether and since when the ledger waits for replication, and which
    worker has locked it. ``log_entries`` are entries in entry logs that are not in their bookie's index. They
    are empty in a run without ``--entry-logs``.

    ``down_members`` are bookies with entries, or in an unclosed last segment, that are certainly not
    registered. ``reachability`` and ``unreached`` (a number of entries) come from the table reachability.
    They are None and 0 if the ledger has no row there. ``availability_unknown`` is True if the run does not
    know which bookies were registered.
    """

    ledger_id: int
    scope_id: int = 0
    status: str = "gone"
    path: str | None = None
    version: int | None = None
    state: str | None = None
    ensemble_size: int | None = None
    write_quorum: int | None = None
    ack_quorum: int | None = None
    last_entry_id: int | None = None
    length: int | None = None
    digest_type: str | None = None
    ctime: int | None = None
    mtime: int | None = None
    segments: tuple[Segment, ...] = ()
    damage: str | None = None
    rules: tuple[str, ...] = ()
    judged_class: str | None = None
    potential_class: str | None = None
    doubts: tuple[str, ...] = ()
    custom_metadata: tuple[tuple[str, str], ...] = ()
    replicas: tuple[ReplicaView, ...] = field(default=())
    answers: tuple[AnswerView, ...] = ()
    mark_texts: tuple[str, ...] = ()
    down_members: tuple[str, ...] = ()
    reachability: str | None = None
    unreached: int = 0
    availability_unknown: bool = False
    log_entries: tuple[LogEntriesView, ...] = ()


class Backlog(StrEnum):
    """Whether subscriptions of a topic still need a ledger, according to their acknowledged positions."""

    PASSED_BY_ALL = "passed by all"
    """Every subscription has passed the ledger, so none needs it."""
    IN_BACKLOG = "in a backlog"
    """Some subscription has yet to read the ledger, or a part of it."""
    NO_SUBSCRIPTION = "no subscription"
    """No subscription has a position; a reader without one may begin anywhere."""
    POSITION_UNKNOWN = "not known"
    """A position is only in a cursor's own ledger, or could not be read."""


@dataclass(frozen=True, slots=True)
class TopicLedger:
    """One ledger in a topic's list of ledgers.

    ``ownership_status`` is the column ``standing`` (such as owned) of the table ownership.
    ``replication_class`` is the ledger's class in the table verdicts, or None if the metadata does not list
    the ledger. Numbers are None if they are not known. ``reachability`` comes from the table reachability. It
    is None if the ledger has no row there.
    """

    ledger_id: int
    ownership_status: str
    fault: str | None
    replication_class: str | None
    state: str | None
    entries: int | None
    size: int | None
    offload: str | None
    is_borrowed: bool
    backlog: Backlog
    reachability: str | None = None


@dataclass(frozen=True, slots=True)
class TopicCursor:
    """One subscription of a topic.

    ``position`` is the (ledger, entry) in the znode, up to which everything is acknowledged. It is None if
    the znode contains no position. ``ledger_id`` is the cursor's own ledger, which contains newer
    positions. It is None if there is no such ledger. ``unread_reason`` says why the value of the znode
    could not be read, or is None.
    """

    name: str
    position: tuple[int, int] | None
    ledger_id: int | None
    ownership_status: str | None
    unread_reason: str | None = None


@dataclass(frozen=True, slots=True)
class OtherReference:
    """A ledger that a topic uses for its schema, a bucket or compaction, and not for messages or cursors."""

    kind: str
    ledger_id: int | None
    detail: str | None
    ownership_status: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as one run saw it.

    ``unread_reason`` says why the topic's list of ledgers could not be read. ``unlisted_reason`` says why
    its subscriptions could not be listed. They are None if there was no such problem.
    """

    name: str
    path: str
    ledgers: Sequence[TopicLedger]
    cursors: Sequence[TopicCursor]
    other_references: Sequence[OtherReference]
    unread_reason: str | None = None
    unlisted_reason: str | None = None


def backlog_of(ledger_id: int, cursors: Sequence[TopicCursor]) -> Backlog:
    """Return whether a topic's subscriptions still need a ledger, by the positions of their cursors.

    The position in the znode is a lower bound, because a cursor never goes back by itself. No ledger before
    it is needed. A newer position, in the cursor's own ledger, may be after more ledgers.

    >>> done = TopicCursor("a", (9, 3), None, None)
    >>> [backlog_of(8, [done]).value, backlog_of(9, [done]).value, backlog_of(8, []).value]
    ['passed by all', 'in a backlog', 'no subscription']
    """
    if not cursors:
        return Backlog.NO_SUBSCRIPTION
    lagging_cursors = [
        cursor for cursor in cursors if cursor.position is None or cursor.position[0] <= ledger_id
    ]
    if not lagging_cursors:
        return Backlog.PASSED_BY_ALL
    certain_cursors = [
        cursor for cursor in lagging_cursors if cursor.ledger_id is None and cursor.position is not None
    ]
    return Backlog.IN_BACKLOG if certain_cursors else Backlog.POSITION_UNKNOWN


@dataclass(frozen=True, slots=True)
class UnreadBookie:
    """A bookie that was not read completely. It certainly should have entries of ``replicas`` ledgers."""

    bookie_id: str
    read: str  # partial or unread
    reason: str | None
    replicas: int


@dataclass(frozen=True)
class RunView:
    """Data about a run for ``bkaudit explain run``.

    ``unread_bookies`` are bookies that were not read completely, those with the most replicas first. Their
    number is limited. ``directories`` is the number of bookies' directories that were found. It is 0 if no
    directories were given. ``fail_on`` and ``fail_on_suspect`` are the options that determine the exit
    code. ``fail_on`` is None if the run did not store them. ``statuses`` maps fingerprints of findings in
    the report to their statuses. ``storages`` maps bookies to their index storage, if it is known.
    ``sources`` are the rows of the table sources.
    """

    path: str
    report: Report
    directories: int
    unread_bookies: tuple[UnreadBookie, ...] = ()
    fail_on: Severity | Literal["new"] | None = None
    fail_on_suspect: bool = False
    statuses: Mapping[str, ChangeStatus] = field(default_factory=dict)
    storages: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceScope, ...] = ()
