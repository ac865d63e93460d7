"""One bookie, ledger, topic or run as an audit saw it: the data of ``bkaudit explain`` before formatting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from auditor.model.finding import Finding, Severity, Standing
from auditor.model.ledger_metadata import Segment
from auditor.model.report import Report
from auditor.model.source_scope import SourceScope
from auditor.model.states import WitnessAnswer


@dataclass(frozen=True, slots=True)
class CookieView:
    """Cookie of the bookie's id in the metadata store; ``damage`` is why it is unreadable, or None."""

    layout: int | None = None
    bookie_host: str | None = None
    journal_dirs: str | None = None
    ledger_dirs: tuple[str, ...] = ()
    index_dirs: tuple[str, ...] = ()
    instance_id: str | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class RegistrationView:
    """A registration: writable or readonly, and its endpoints as (name, host, port, protocol).

    ``ephemeral`` is None if the store does not say whether the registration ends with a session.
    """

    mode: str
    endpoints: tuple[tuple[str, str, int, str], ...] = ()
    damage: str | None = None
    ephemeral: bool | None = None


@dataclass(frozen=True, slots=True)
class AliasView:
    """Another id of the bookie; ``edges`` are the evidence as (rule, evidence, against).

    ``same`` is True if it is the same bookie, False if it only looks like it.
    """

    bookie_id: str
    same: bool
    registered: bool
    edges: tuple[tuple[str, str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateView:
    """An id that may own a directory: numbers of ledgers that name it, and that match entry for entry."""

    bookie_id: str
    named: int
    exact: int


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """A directory of the bookie, or one found in its place.

    ``contents`` are the ids that explain ``ledgers`` ledgers of the directory, the best first.
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
    contents: tuple[CandidateView, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalView:
    """A journal directory: the mark from which it was read, and why not all records after it were read.

    ``files`` counts the files from the mark on. ``files_below`` counts those before it, which prove nothing.
    ``path`` is the damaged file, if there is one, and None if no directory could be named.
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
    """Findings of one check that name the bookie: their number, and the first few sentences.

    ``standings`` are those of ``messages``, if the run kept any. ``first`` is the first finding among them
    that is about a ledger, for example commands.
    """

    id: str
    severity: Severity
    count: int
    unsure: int  # of these, not confirmed
    messages: tuple[str, ...]
    standings: tuple[Standing | None, ...] = ()
    first: Finding | None = None


@dataclass(frozen=True, slots=True)
class BookieView:
    """A bookie of one run.

    These are numbers of ledgers: ``ledgers`` name it. ``depending`` have entries or their open end on it. Of
    ``replicas`` it should hold judged entries. ``held`` are on its disks, and ``orphans`` of those are not in
    the metadata. ``held`` is None if nothing of its index was read.
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
    held: int | None
    orphans: int
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
    """Entries of the ledger that one bookie should have, and those that it has.

    ``expected`` and ``held`` are BP-34 groups of 24 bytes each (`auditor.codecs.availability.groups`).
    ``known`` is False if an entry outside ``held`` may exist all the same. ``state`` is the reason, or the
    state of the index: ok, absent (no index), cut, unreadable, limbo, not-indexed, unread.
    """

    bookie_id: str
    member: bool
    expected: bytes
    held: bytes
    known: bool
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One answer that a bookie gave to plain reads of ``count`` entries.

    ``entries`` are BP-34 groups of 24 bytes each; ``reason`` is why the answer is unknown, or None.
    """

    bookie_id: str
    answer: WitnessAnswer
    entries: bytes
    count: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LogEntriesView:
    """Entries of a ledger in one entry log of a bookie whose index lacks them.

    ``entries`` are BP-34 groups of 24 bytes each, ``count`` is their number. Both are None if the log was not
    read for them, and ``reason`` says why. ``lost_count`` counts entries that are in no index any more.
    ``size`` is the bytes of these entries, or of the whole ledger in the log if the entries are not known.
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
    """A ledger of one run; ``status`` is that of the table ledgers, or gone if only bookies know the ledger.

    ``state`` and all numbers are None if the metadata could not be read. ``judged_class`` and
    ``potential_class`` are those of the table verdicts. ``attached`` is the custom metadata of the
    application as key and value; a value that is not text is in hexadecimal. ``answers`` are the answers of
    bookies to reads of entries, empty if none was asked. ``queue`` says whether the ledger waits for
    replication, since when, and who holds it. ``in_logs`` are entry logs with entries that the index of their
    bookie lacks, empty in a run without ``--entry-logs``.

    ``down`` are members with entries, or with the open end, that are certainly not registered. ``reach`` is
    that of the table reachability, and ``unreached`` its number of entries; None and 0 if it has no row.
    ``availability_unknown`` is True if the run does not know which bookies were registered.
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
    attached: tuple[tuple[str, str], ...] = ()
    replicas: tuple[ReplicaView, ...] = field(default=())
    answers: tuple[AnswerView, ...] = ()
    queue: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    reach: str | None = None
    unreached: int = 0
    availability_unknown: bool = False
    in_logs: tuple[LogEntriesView, ...] = ()


class Backlog(StrEnum):
    """Position of a ledger relative to the positions up to which subscriptions acknowledged everything."""

    READ = "passed by all"
    """Every subscription is past the ledger, so that no subscription needs it."""
    NEEDED = "in a backlog"
    """Some subscription has yet to read the ledger, or a part of it."""
    NOBODY = "no subscription"
    """No subscription has a position; a reader without one may begin anywhere."""
    UNKNOWN = "not known"
    """A position is only in a cursor's own ledger, or could not be read."""


@dataclass(frozen=True, slots=True)
class TopicLedger:
    """One ledger of a topic's list; ``standing`` and ``fault`` are those of the table ownership.

    ``klass`` is its replication class (verdicts), None if it is not listed. Times and sizes are None if they
    are not known. ``reach`` is that of the table reachability; None if it has no row.
    """

    ledger_id: int
    standing: str
    fault: str | None
    klass: str | None
    state: str | None
    entries: int | None
    size: int | None
    offload: str | None
    borrowed: bool
    backlog: Backlog
    reach: str | None = None


@dataclass(frozen=True, slots=True)
class TopicCursor:
    """One subscription.

    ``position`` is the (ledger, entry) up to which all is acknowledged by the znode, or None. ``ledger_id``
    is the cursor's own ledger, which has newer positions; None if there is none. ``unread`` is why its value
    could not be read, or None.
    """

    name: str
    position: tuple[int, int] | None
    ledger_id: int | None
    standing: str | None
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class OtherReference:
    """A ledger that a topic needs for its schema, a bucket or compaction, not for messages or cursors."""

    kind: str
    ledger_id: int | None
    detail: str | None
    standing: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic of one run.

    ``unread`` is why its list could not be read, ``unlisted`` why its subscriptions could not be listed.
    """

    name: str
    path: str
    ledgers: Sequence[TopicLedger]
    cursors: Sequence[TopicCursor]
    others: Sequence[OtherReference]
    unread: str | None = None
    unlisted: str | None = None


def backlog_of(ledger_id: int, cursors: Sequence[TopicCursor]) -> Backlog:
    """Return where a ledger lies relative to the positions of all cursors.

    A position in the znode is a lower bound, because a cursor never goes back by itself. A ledger before it
    is passed. A ledger after it may be passed by the newer position in the cursor's own ledger.

    >>> done = TopicCursor("a", (9, 3), None, None)
    >>> backlog_of(8, [done]), backlog_of(9, [done]), backlog_of(8, [])
    (<Backlog.READ: 'passed by all'>, <Backlog.NEEDED: 'in a backlog'>, <Backlog.NOBODY: 'no subscription'>)
    """
    if not cursors:
        return Backlog.NOBODY
    behind = [cursor for cursor in cursors if cursor.position is None or cursor.position[0] <= ledger_id]
    if not behind:
        return Backlog.READ
    sure = [cursor for cursor in behind if cursor.ledger_id is None and cursor.position is not None]
    return Backlog.NEEDED if sure else Backlog.UNKNOWN


@dataclass(frozen=True, slots=True)
class UnreadBookie:
    """A bookie that was not read completely; it should hold judged entries of ``replicas`` ledgers."""

    bookie_id: str
    read: str  # partial or unread
    reason: str | None
    replicas: int


@dataclass(frozen=True)
class RunView:
    """Data of a run for ``bkaudit explain run``.

    ``unread`` are bookies that were not read completely, a bounded number, the most needed first.
    ``directories`` is the number of bookies' directories that were found; 0 if bookies were only asked.
    ``fail_on`` and ``fail_on_suspect`` are the options behind the exit code; None if the run does not have
    them. ``standings`` are those of the report's findings, by fingerprint. ``storages`` is the index storage
    of each bookie, if it is known. ``sources`` are those of the table sources.
    """

    path: str
    report: Report
    directories: int
    unread: tuple[UnreadBookie, ...] = ()
    fail_on: Severity | Literal["new"] | None = None
    fail_on_suspect: bool = False
    standings: Mapping[str, Standing] = field(default_factory=dict)
    storages: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceScope, ...] = ()
