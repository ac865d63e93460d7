"""One bookie, ledger, topic or run as an audit saw it: what ``bkaudit explain`` tells, before it is words."""

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
    """The cookie that the metadata store keeps under the bookie's id; ``damage`` where it is unreadable."""

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

    ``ephemeral`` is None where the store does not say whether it ends with a session.
    """

    mode: str
    endpoints: tuple[tuple[str, str, int, str], ...] = ()
    damage: str | None = None
    ephemeral: bool | None = None


@dataclass(frozen=True, slots=True)
class AliasView:
    """Another id that is ``same`` bookie, or only looks like it; ``edges`` are (rule, evidence, against)."""

    bookie_id: str
    same: bool
    registered: bool
    edges: tuple[tuple[str, str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateView:
    """An id, and how much of a directory it explains: ledgers that name it, and match entry for entry."""

    bookie_id: str
    named: int
    exact: int


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """A directory of the bookie, or in its place; ``contents`` are of ``ledgers`` ledgers, the best first."""

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
    """A journal directory: the mark it was read from, and why not all of what follows it was read.

    ``files`` are those from the mark on, ``files_below`` those before it, which prove nothing. ``path`` is
    None where no directory could be named, and the file at fault where one is damaged.
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
    """The findings of one check that name the bookie: ``count`` of them, and the first few sentences.

    ``standings`` are those of ``messages``, where the run kept any; ``first`` is the first of them that is
    about a ledger: commands are for that one.
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
    """A bookie of one run. Numbers of ledgers: ``ledgers`` name it, on ``depending`` of them it has entries
    or the open end, of ``replicas`` it should hold judged entries; ``held`` are on its disks, ``orphans`` of
    those not in the metadata. ``held`` is None where nothing of its index was read.
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
    """What one bookie should have of the ledger, and has.

    ``expected`` and ``held`` are BP-34 groups of 24 bytes each (`auditor.codecs.availability.groups`).
    ``known`` is False where an entry that is not in ``held`` may be there all the same; ``state`` says why,
    or how it was found: ok, absent (no index), cut, unreadable, limbo, not-indexed, unread.
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
    """One answer that a bookie gave for ``count`` entries when it was asked for them by plain reads.

    ``entries`` are BP-34 groups of 24 bytes each; ``reason`` is why the answer is unknown.
    """

    bookie_id: str
    answer: WitnessAnswer
    entries: bytes
    count: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LogEntriesView:
    """Entries of a ledger in one entry log of a bookie whose index lacks them.

    ``entries`` are BP-34 groups of 24 bytes each, ``count`` of them; both are None where the log was not read
    for them, and ``reason`` says why. ``lost_count`` are those that no index has any more. ``size`` is in
    bytes: of these entries, or of the whole ledger in the log where they are not known.
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
    """A ledger of one run. ``status`` is that of the table ledgers, or gone where only bookies know it.

    ``state`` and all numbers are None where the metadata could not be read. ``judged_class`` and
    ``potential_class`` are those of the table verdicts. ``attached`` is the metadata's custom part, whatever
    the application put there: key and value, one that is not text in hexadecimal. ``answers`` are what
    bookies said when they were asked for entries; none where nobody was. ``queue`` says whether it waits for
    replication, since when, and who holds it. ``in_logs`` are entry logs with entries that the index of their
    bookie lacks; none in a run without ``--entry-logs``.

    ``down`` are members with entries, or with the open end, that are surely not registered. ``reach`` is that
    of the table reachability, and ``unreached`` how many entries it is about; None and 0 if it has no row.
    ``availability_unknown``: the run does not know which bookies were registered.
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
    """Where a ledger lies before the positions up to which subscriptions have acknowledged all."""

    READ = "passed by all"
    """Every subscription is past it: what is lost there is lost to nobody."""
    NEEDED = "in a backlog"
    """Some subscription has yet to read it, or some of it."""
    NOBODY = "no subscription"
    """None has a position; a reader without one may begin anywhere."""
    UNKNOWN = "not known"
    """A position is only in a cursor's own ledger, or could not be read."""


@dataclass(frozen=True, slots=True)
class TopicLedger:
    """One ledger of a topic's list; ``standing`` and ``fault`` are those of the table ownership.

    ``klass`` is its replication class (verdicts), None where it is not listed. Times and sizes are None where
    nothing says them. ``reach`` is that of the table reachability; None if it has no row.
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
    """One subscription: ``position`` is (ledger, entry) up to which all is acknowledged, by its znode.

    ``ledger_id`` is the cursor's own ledger, which has newer positions than the znode; None where it has
    none. ``unread`` is why its value could not be read.
    """

    name: str
    position: tuple[int, int] | None
    ledger_id: int | None
    standing: str | None
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class OtherReference:
    """A ledger that a topic needs besides its messages and cursors: schema, bucket, compacted."""

    kind: str
    ledger_id: int | None
    detail: str | None
    standing: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class TopicView:
    """All that a run knows of one topic.

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
    """Where a ledger lies before the positions of all cursors.

    A position in the znode is a lower bound: a cursor never goes back by itself. So what it has passed there
    is passed; what it has not may be passed in its own ledger.

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
    """A bookie that was not read to the end; ``replicas`` of ledgers should hold judged entries there."""

    bookie_id: str
    read: str  # partial or unread
    reason: str | None
    replicas: int


@dataclass(frozen=True)
class RunView:
    """``unread`` are bookies that were not read completely, a bounded number of them, the most needed first.

    ``directories`` of bookies were found, 0 where bookies were only asked. ``fail_on`` and
    ``fail_on_suspect`` are the options that the exit code came from; None where the run does not say.
    ``standings`` are those of the report's findings, by fingerprint; ``storages`` says how the index of each
    bookie is kept, where that is known. ``sources`` are those of the table sources.
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
