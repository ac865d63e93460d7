"""Parts of a finished run for a report of any format: report, findings, owners' totals, leaks, histograms.

Figures are data small enough to draw: histograms, and the present, missing and surplus data of each bookie.
Totals add up the ledgers of a tenant, a namespace or a topic, and the ledgers without an owner.
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

Level = Literal["tenant", "namespace", "topic"]
LEVELS: tuple[str, ...] = get_args(Level)
NOBODY = ""
"""Name of the owner of ledgers without a known owner, in totals."""
NO_OWNER_LABEL = "(no known owner)"
"""Label, in reports, of ledgers without a known owner; real names of owners have no brackets."""


@dataclass(slots=True)
class OwnerTotal:
    """Total of one tenant, namespace or topic; ``bytes`` and ``entries`` count one copy of closed ledgers.

    ``dangling`` counts references to ledgers that are gone. ``unowned`` counts leaked ledgers whose custom
    metadata names this owner as the last; ``leaked_bytes`` and ``leaked_entries`` are of these ledgers.
    ``findings`` counts the findings about its ledgers, by severity.
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
    """One finding `ledger-unowned`; ``owner`` is the last known owner in words, and ``claim`` its path.

    ``made`` is the creation time in ms, None if it is not known. ``bytes`` and ``entries`` are those of one
    copy, None if the ledger is not closed. ``why`` is the reason for calling it a leak. ``doubt`` is the
    evidence against that, or None.
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
    """Totals over all leaks of a run; the ``confirmed`` fields only count leaks that two runs agree on."""

    ledgers: int = 0
    confirmed: int = 0
    bytes: int = 0
    confirmed_bytes: int = 0
    entries: int = 0


class ReportSource(Protocol):
    """Interface of a finished run, for `auditor.runs.reader.RunReader` and `auditor.notebook.run.Run`."""

    path: str
    report: Report

    @property
    def findings(self) -> Iterable[Finding]:
        """Return every finding, in the order of reports, read lazily and never kept in memory."""

    def statuses(self) -> StatusLookup:
        """Return a lookup of the change status (change since the run before) of a finding in the report."""

    def statuses_in_order(self) -> StatusLookup:
        """Return a lookup of the change status of a finding. Look findings up in the order of `findings`."""

    def last_complete(self) -> int | None:
        """Return when the newest complete run of this cluster finished, in ms; None if none is known."""

    def changes_since_complete(self) -> ChangesSince:
        """Return the changes since the newest complete run before this one."""

    def space_gauges(self) -> SpaceGauges:
        """Return the figures of bookies' disks; empty if entry logs were not read."""

    def namespaces(self) -> Sequence[OwnerTotal] | None:
        """Return the total of every namespace, ordered by its worst findings; None if no owners were read."""

    def near_losses(self) -> Sequence[NearLoss]:
        """Return by level the data that one failure would lose; empty if the run has too many ledgers."""

    def html_page(self) -> Iterable[str]:
        """Yield the parts of the run's HTML page."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram."""

    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars in the order in which they are drawn; ``unit`` is the unit of their counts, ``note`` a remark.

    >>> Histogram("Ledgers by size", "ledgers", (Bar("1 KiB", 3), Bar("1 MiB", 4))).total
    7
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]
    note: str = ""

    @property
    def total(self) -> int:
        """Sum of all bars."""
        return sum(bar.count for bar in self.bars)


@dataclass(frozen=True, slots=True)
class BookieFigure:
    """Figures of one bookie; a replica is a ledger with an entry that the bookie certainly should have.

    Of the ``replicas``, ``missing`` lack an entry, and ``unknown`` have an unknown state; the others are
    whole. ``missing_entries`` counts the entries that the bookie lacks. ``surplus`` ledgers have entries that
    the bookie should not hold: past the end, striped to another bookie, or of segments without this bookie.
    ``orphans`` are ledgers on its disks that the metadata does not list.
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
        """Number of replicas that have every entry.

        >>> BookieFigure("bk-a:3181", replicas=10, missing=1, unknown=2).whole_replicas
        7
        """
        return max(self.replicas - self.missing - self.unknown, 0)

    @property
    def unexpected_ledgers(self) -> int:
        """Number of ledgers with entries that the bookie should not hold."""
        return self.surplus + self.orphans

    @property
    def availability(self) -> float | None:
        """Share of the bookie's replicas that is certainly whole, 0 to 1; None if it should have no replica.

        >>> BookieFigure("bk-a:3181", replicas=10, missing=1, unknown=2).availability
        0.7
        """
        return self.whole_replicas / self.replicas if self.replicas else None


@dataclass(frozen=True, slots=True)
class OwnerFigures:
    """Owners of ledgers: for each level a bounded number, those with the worst findings first.

    ``levels`` has these owners by level, ``totals`` the number of all owners by level. ``leaks`` are the most
    important leaks, as many as a page has room for; ``leaked`` is the total of all leaks. Ages count from
    ``scan_time``, in ms.
    """

    levels: Mapping[str, tuple[OwnerTotal, ...]]
    totals: Mapping[str, int]
    leaks: tuple[Leak, ...]
    leaked: LeakTotals
    scan_time: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures that `auditor.runs.figures` makes of a run; all are bounded, whatever the cluster's size.

    ``bookies`` are the worst of all ``bookies_total``. ``space`` is the use of each bookie's entry logs, and
    ``disks`` the other files on its disks; both are empty if entry logs were not read. ``owners`` is None if
    no owners were read. ``failures`` is None if the caller asked for no failures.
    """

    bookies: tuple[BookieFigure, ...] = ()
    bookies_total: int = 0
    histograms: tuple[Histogram, ...] = field(default=())
    space: tuple[SpaceTotal, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    owners: OwnerFigures | None = None
    failures: FailureMatrix | None = None
