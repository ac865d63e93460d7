"""Parts of a finished run that reports of all formats use, such as findings, totals of owners, and figures.

Figures are data that is small enough to draw: histograms, and how much data of each bookie is present,
missing or surplus. Totals are sums over the ledgers of a tenant, a namespace or a topic, or over the
ledgers without an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from auditor.model.finding import Finding, StatusLookup
from auditor.model.history import ChangesSince
from auditor.model.report import Report
from auditor.model.simulation import FailureMatrix, NearLoss
from auditor.model.space import DiskTotal, SpaceGauges, SpaceTotal
from auditor.model.states import BookieRead

OwnerLevel = Literal["tenant", "namespace", "topic"]
OWNER_LEVELS: tuple[str, ...] = get_args(OwnerLevel)
NOBODY = ""
"""Name of the owner of ledgers without a known owner, in totals."""
NO_OWNER_LABEL = "(no known owner)"
"""Label, in reports, of ledgers without a known owner; real names of owners have no brackets."""


@dataclass(slots=True)
class OwnerTotal:
    """Total of one owner of ledgers: a tenant, a namespace or a topic.

    ``bytes`` and ``entries`` count one copy of each closed ledger. ``dangling`` counts references to ledgers
    that no longer exist. ``unowned`` counts leaked ledgers, which have no owner now, but whose custom
    metadata names this owner as the last one. ``leaked_bytes`` and ``leaked_entries`` are the bytes and
    entries of these leaked ledgers. ``findings`` counts the findings about the owner's ledgers, by severity.
    """

    name: str
    ledgers: int = 0
    bytes: int = 0
    dangling: int = 0
    unowned: int = 0
    leaked_bytes: int = 0
    entries: int = 0
    leaked_entries: int = 0
    findings: dict[str, int] = field(default_factory=dict)

    def add(self, addend: OwnerTotal) -> None:
        """Add another total to this one.

        >>> total = OwnerTotal("shop", 2, 700, findings={"error": 1})
        >>> total.add(OwnerTotal("", 1, 50, unowned=3, findings={"error": 2, "note": 1}))
        >>> total.ledgers, total.bytes, total.unowned, total.findings
        (3, 750, 3, {'error': 3, 'note': 1})
        """
        self.ledgers += addend.ledgers
        self.bytes += addend.bytes
        self.dangling += addend.dangling
        self.unowned += addend.unowned
        self.leaked_bytes += addend.leaked_bytes
        self.entries += addend.entries
        self.leaked_entries += addend.leaked_entries
        for severity, count in addend.findings.items():
            self.findings[severity] = self.findings.get(severity, 0) + count


@dataclass(frozen=True, slots=True)
class Leak:
    """A leaked ledger (a ledger without an owner), from one finding of the check `ledger-unowned`.

    ``owner`` is the last known owner in words, and ``claim`` is this owner's path. ``made`` is the creation
    time in ms, or None if it is not known. ``bytes`` and ``entries`` count one copy of each entry. They are
    None if the ledger is not closed. ``why`` is the reason why the ledger counts as leaked. ``doubt`` is
    evidence that it is not leaked. It is None if there is no such evidence.
    """

    ledger_id: int
    confidence: str
    owner: str
    claim: str
    made: int | None
    bytes: int | None
    entries: int | None
    state: str | None
    why: str
    doubt: str | None


@dataclass(frozen=True, slots=True)
class LeakTotals:
    """Totals over all leaks (ledgers without an owner) of a run.

    The ``confirmed`` fields count only leaks that two runs confirm.
    """

    ledgers: int = 0
    confirmed: int = 0
    bytes: int = 0
    confirmed_bytes: int = 0
    entries: int = 0


class ReportSource(Protocol):
    """Interface of a finished run for reports.

    `auditor.runs.reader.RunReader` and `auditor.notebook.run.Run` implement it.
    """

    path: str
    report: Report

    @property
    def findings(self) -> Iterable[Finding]:
        """Iterate over all findings in the order of reports.

        They are read lazily, and are not kept in memory.
        """

    def statuses(self) -> StatusLookup:
        """Return a function that looks up the change status of a finding in the report.

        The change status says how the finding changed since the previous run.
        """

    def statuses_in_order(self) -> StatusLookup:
        """Return a function that looks up the change status of any finding.

        The returned function must be called for the findings in the order of `findings`.
        """

    def last_complete(self) -> int | None:
        """Return the time in ms when the newest complete run of this cluster finished.

        Returns None if no complete run is known.
        """

    def changes_since_complete(self) -> ChangesSince:
        """Return the changes since the newest complete run that is older than this run."""

    def space_gauges(self) -> SpaceGauges:
        """Return the disk usage of bookies. The result is empty if entry logs were not read."""

    def namespaces(self) -> Sequence[OwnerTotal] | None:
        """Return the totals of all namespaces, those with the worst findings first.

        Returns None if no owners were read.
        """

    def near_losses(self) -> Sequence[NearLoss]:
        """Return, for each level such as bookie or rack, the data that a single failure would lose.

        The result is empty if the run has too many ledgers to compute this.
        """

    def html_page(self) -> Iterable[str]:
        """Yield the HTML page of the run in parts."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram."""

    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram. Its bars are in the order in which they are drawn.

    ``unit`` is the unit of the counts. ``note`` is a remark for the reader.

    >>> Histogram("Ledgers by size", "ledgers", (Bar("1 KiB", 3), Bar("1 MiB", 4))).total
    7
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]
    note: str = ""

    @property
    def total(self) -> int:
        """Sum of the counts of all bars."""
        return sum(bar.count for bar in self.bars)


@dataclass(frozen=True, slots=True)
class BookieFigure:
    """Figures about one bookie.

    ``replicas`` counts the ledgers with an entry that the bookie certainly should have. Of these replicas,
    ``missing`` lack an entry, and ``unknown`` have an unknown state. The others are complete.
    ``missing_entries`` counts the entries that the bookie lacks. ``surplus`` counts ledgers with entries
    that the bookie should not have. Such entries are after the end of the ledger, or in segments without
    this bookie, or striping places them on a different bookie. ``orphans`` counts ledgers on its disks
    that the metadata does not list.
    """

    bookie_id: str
    read: str = BookieRead.READ  # read, partial or unread
    reason: str | None = None
    registered: str | None = None  # writable, readonly or both
    replicas: int = 0
    missing: int = 0
    missing_entries: int = 0
    unknown: int = 0
    surplus: int = 0
    surplus_entries: int = 0
    orphans: int = 0

    @property
    def whole_replicas(self) -> int:
        """Number of replicas that certainly have all their entries.

        >>> BookieFigure("bk-a:3181", replicas=10, missing=1, unknown=2).whole_replicas
        7
        """
        return max(self.replicas - self.missing - self.unknown, 0)

    @property
    def unexpected_ledgers(self) -> int:
        """Number of ledgers with entries that the bookie should not have."""
        return self.surplus + self.orphans

    @property
    def availability(self) -> float | None:
        """Share of the bookie's replicas that are certainly complete, from 0 to 1.

        None if the bookie should not have any replica.

        >>> BookieFigure("bk-a:3181", replicas=10, missing=1, unknown=2).availability
        0.7
        """
        return self.whole_replicas / self.replicas if self.replicas else None


@dataclass(frozen=True, slots=True)
class OwnerFigures:
    """Figures about the owners of ledgers: tenants, namespaces and topics.

    ``levels`` has a limited number of owners for each level, those with the worst findings first. ``totals``
    is the number of all owners at each level. ``leaks`` are the most important leaks (ledgers without an
    owner), as many as fit on a page. ``leaked`` is the total over all leaks. Ages are relative to
    ``scan_time``, which is in ms.
    """

    levels: Mapping[str, tuple[OwnerTotal, ...]]
    totals: Mapping[str, int]
    leaks: tuple[Leak, ...]
    leaked: LeakTotals
    scan_time: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures about a run, from `auditor.runs.figures`. Their size is limited for clusters of any size.

    ``bookies`` are the bookies with the worst figures. ``bookies_total`` is the number of all bookies.
    ``space`` describes the entry logs of each bookie, and ``disks`` describes the other files on its disks.
    Both are empty if entry logs were not read. ``owners`` is about owners of ledgers, such as topics. It is
    None if no owners were read. ``failures`` is None if the caller did not ask for it.
    """

    bookies: tuple[BookieFigure, ...] = ()
    bookies_total: int = 0
    histograms: tuple[Histogram, ...] = field(default=())
    space: tuple[SpaceTotal, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    owners: OwnerFigures | None = None
    failures: FailureMatrix | None = None
