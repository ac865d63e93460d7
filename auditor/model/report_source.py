"""What a report form may ask of a finished run: its report and findings, owners' totals, leaks, histograms.

Figures are small enough to draw: histograms, and what each bookie has, lacks and has too much. Totals say
what the ledgers of a tenant, a namespace or a topic add up to, and what belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from auditor.model.finding import Finding, Standings
from auditor.model.history import ChangesSince
from auditor.model.report import Report
from auditor.model.simulation import FailureMatrix, NearLoss
from auditor.model.space import DiskTotal, SpaceGauges, SpaceTotal
from auditor.model.states import BookieRead

Level = Literal["tenant", "namespace", "topic"]
LEVELS: tuple[str, ...] = get_args(Level)
NOBODY = ""
"""The name of what belongs to nobody that is known."""
NO_OWNER = "(no known owner)"
"""How it is shown: no name has brackets."""


@dataclass(slots=True)
class OwnerTotal:
    """One tenant, namespace or topic: ``bytes`` and ``entries`` are of closed ledgers, one copy of each.

    ``dangling`` counts references to ledgers that are gone, ``unowned`` ledgers that are leaked, by the last
    owner that their custom metadata name, with their ``leaked_bytes`` and ``leaked_entries``. ``findings``
    counts by severity those about its ledgers.
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
        """Take what another adds up to into this.

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
    """One finding `ledger-unowned`: ``owner`` is the last known one, in words, and ``claim`` its path.

    ``made`` is in ms, None where nothing says it; ``bytes`` and ``entries`` are those of a closed ledger, one
    copy of it. ``why`` is what makes it a leak, ``doubt`` what speaks against it.
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
    """What all leaks of a run add up to; ``confirmed`` are those that two runs agree on."""

    ledgers: int = 0
    confirmed: int = 0
    bytes: int = 0
    confirmed_bytes: int = 0
    entries: int = 0


class ReportSource(Protocol):
    """A finished run; `auditor.runs.reader.RunReader` and `auditor.notebook.run.Run` are such."""

    path: str
    report: Report

    @property
    def findings(self) -> Iterable[Finding]:
        """Every finding, in the order of reports, read as it goes and never held."""

    def standings(self) -> Standings:
        """How the findings that the report shows stand against the run before."""

    def standings_in_order(self) -> Standings:
        """The same of all findings, to be asked for in their order."""

    def last_complete(self) -> int | None:
        """When the newest complete run of this cluster was done, in ms; None where none is known."""

    def changes_since_complete(self) -> ChangesSince:
        """What changed since the newest complete run before this one."""

    def space_gauges(self) -> SpaceGauges:
        """The figures of bookies' disks; none where entry logs were not read."""

    def namespaces(self) -> Sequence[OwnerTotal] | None:
        """What the ledgers of every namespace add up to, the worst findings first; None without owners."""

    def near_losses(self) -> Sequence[NearLoss]:
        """What is one failure from loss, by level; nothing of more ledgers than can be asked each time."""

    def html_page(self) -> Iterable[str]:
        """The run as one HTML page, in parts."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram."""

    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars in the order in which they are drawn; ``unit`` is what they count, ``note`` what to know of it.

    >>> Histogram("Ledgers by size", "ledgers", (Bar("1 KiB", 3), Bar("1 MiB", 4))).total
    7
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]
    note: str = ""

    @property
    def total(self) -> int:
        """Everything that is counted."""
        return sum(bar.count for bar in self.bars)


@dataclass(frozen=True, slots=True)
class BookieFigure:
    """One bookie. A replica is a ledger of which the bookie should hold an entry for certain.

    Of ``replicas``, ``missing`` lack an entry, ``missing_entries`` of them together, and of ``unknown``
    nothing certain is known; the others are whole. ``surplus`` ledgers are held with entries that the bookie
    should not have: past the end, striped elsewhere, of segments or ensembles without it. ``orphans`` are
    ledgers held that the metadata does not list.
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
    def whole(self) -> int:
        """Replicas that are there to the last entry.

        >>> BookieFigure("bk-a:3181", replicas=10, missing=1, unknown=2).whole
        7
        """
        return max(self.replicas - self.missing - self.unknown, 0)

    @property
    def too_much(self) -> int:
        """Ledgers of which it holds what it should not, or of which it should hold nothing."""
        return self.surplus + self.orphans

    @property
    def availability(self) -> float | None:
        """The share of its replicas that is surely whole, 0 to 1; None where nothing is expected of it.

        >>> BookieFigure("bk-a:3181", replicas=10, missing=1, unknown=2).availability
        0.7
        """
        return self.whole / self.replicas if self.replicas else None


@dataclass(frozen=True, slots=True)
class OwnerFigures:
    """Who refers to the ledgers: of each level the owners with the worst findings first, a bounded number.

    ``levels`` and ``totals``, how many owners there are in all, are by level. ``leaks`` are those to look at
    first, as many as a page has room for; ``leaked`` is what all of them add up to. ``scan_time``, in ms, is
    what their ages count from.
    """

    levels: Mapping[str, tuple[OwnerTotal, ...]]
    totals: Mapping[str, int]
    leaks: tuple[Leak, ...]
    leaked: LeakTotals
    scan_time: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What `auditor.runs.figures` makes of a run. All of it is bounded, whatever the cluster's size.

    ``bookies`` are the worst first, and no more than a bound of the ``bookies_total``. ``space`` is what each
    bookie's entry logs are full of, and ``disks`` what lies beside them; empty where they were not read.
    ``owners`` is None where nobody's owners were read, ``failures`` where nobody asked what failures cost.
    """

    bookies: tuple[BookieFigure, ...] = ()
    bookies_total: int = 0
    histograms: tuple[Histogram, ...] = field(default=())
    space: tuple[SpaceTotal, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    owners: OwnerFigures | None = None
    failures: FailureMatrix | None = None
