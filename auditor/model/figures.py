"""A run in numbers small enough to draw: histograms, and what each bookie has, lacks and has too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.model.owners import Leak, LeakTotals, OwnerTotal
from auditor.model.simulation import FailureMatrix
from auditor.model.space import DiskTotal, SpaceTotal
from auditor.model.states import BookieRead


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
