"""What lies on bookies' disks: what entry logs are full of, what lies beside them, and what frees space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Literal, NamedTuple, get_args

from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed
from auditor.model.states import SpaceClass

FULL = 0.95
"""The share in use at which a bookie takes no more writes: diskUsageThreshold, where nobody sets it."""


class BytesKind(NamedTuple):
    """What files beside the entry logs are: ``name`` in `DiskTotal`, ``column`` of the table disks."""

    name: str
    column: str
    words: str


DISK_BYTES = (
    BytesKind("journals", "journal_bytes", "journals"),
    BytesKind("indexes", "index_bytes", "indexes"),
    BytesKind("rocksdb", "rocksdb_bytes", "RocksDB"),
    BytesKind("other", "other_bytes", "other files"),
)
"""All kinds, in the order of tables and reports."""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One file system of a bookie, as a collector or an audit saw it at ``seen``, ms; bytes.

    ``device`` is its number on the bookie's host.

    >>> FileSystem(1, 100, 4, 0).used
    0.96
    """

    device: int
    capacity: int
    free: int
    seen: int

    @property
    def used(self) -> float:
        """The share in use, as the bookie's own disk checker counts it: what it may not write is in use."""
        return 1 - self.free / self.capacity if self.capacity else 1.0


@dataclass(frozen=True, slots=True)
class FillForecast:
    """When the first of a bookie's disks is full, at the ``rate``, bytes a day, that ``runs`` agree on.

    ``days`` count from when it was seen last; 0: it is full.
    """

    name: str
    days: float
    rate: float
    runs: int


@dataclass(frozen=True, slots=True)
class DiskTotal:
    """The bytes of one bookie besides its entry logs, by kind, and its file systems, the fullest first.

    ``unread`` is how many of its directories were not seen, or not whole.
    """

    name: str
    journals: int
    indexes: int
    rocksdb: int
    other: int
    file_systems: tuple[FileSystem, ...]
    unread: int = 0

    @property
    def by_kind(self) -> dict[str, int]:
        """Its bytes by the names of `DISK_BYTES`.

        >>> DiskTotal("bk1", 10, 20, 30, 40, ()).by_kind
        {'journals': 10, 'indexes': 20, 'rocksdb': 30, 'other': 40}
        """
        return {kind.name: getattr(self, kind.name) for kind in DISK_BYTES}

    @property
    def fullest(self) -> FileSystem | None:
        """The file system of which the greatest share is in use; None where none was seen."""
        return self.file_systems[0] if self.file_systems else None


SpaceBy = Literal["bookie", "ledger", "application", "age"]
SPACE_BY: tuple[SpaceBy, ...] = get_args(SpaceBy)

NO_BOOKIE = "(nobody's)"
"""The name of directories that no bookie of the cluster has."""
NO_LEDGER = "(no ledger)"
"""The name of headers, ledgers maps, padding and ends of logs."""
NOT_LISTED = "(not listed)"
"""The name of ledgers that the metadata does not list."""
NO_APPLICATION = "(names none)"
"""The name of ledgers whose custom metadata says no application, or cannot be read."""
OTHER_NAMES = "(further names)"
"""The name of applications beyond the number that is counted apart."""


@dataclass(frozen=True, slots=True)
class SpaceTotal:
    """The bytes of one bookie, ledger, application or age; ``classes`` are those above 0, by class.

    >>> SpaceTotal("bk1:3181", {"live": 30, "orphan": 12}).bytes
    42
    """

    name: str
    classes: dict[str, int]

    @property
    def bytes(self) -> int:
        """All of them."""
        return sum(self.classes.values())


FREES = (ActionKind.COLLECT, ActionKind.COMPACT, ActionKind.DELETE_LEDGER)
"""Kinds of action that free space."""


@dataclass(frozen=True, slots=True)
class SpaceStep:
    """What frees bytes of one bookie; ``risk`` begins with a word of `auditor.checks.manual.RISKS`.

    ``bytes`` are at most what comes free. ``command`` is to be given as it stands; None: it happens by
    itself, and ``what`` says when. ``permission`` is what the gate answered.

    Raises:
        TypeError: the gate did not permit to free anything on this bookie.
    """

    bookie_id: str
    bytes: int
    what: str
    command: str | None
    risk: str
    permission: InitVar[Allowed]

    def __post_init__(self, permission: Allowed) -> None:
        if not isinstance(permission, Allowed) or permission.kind not in FREES:
            raise TypeError(f"{self.bookie_id}: the gate did not permit to free space")
        names = {object.key for object in permission.objects}
        if permission.kind is not ActionKind.DELETE_LEDGER and self.bookie_id not in names:
            raise TypeError(f"{self.bookie_id}: the gate did not permit to {permission.kind} there")


@dataclass(frozen=True, slots=True)
class RefusedSpace:
    """Bytes of one bookie that must not be freed: what would free them, why not, and what ends that.

    ``reasons`` are those of the holds that forbid it, the most important first.
    """

    bookie_id: str
    bytes: int
    what: str
    kind: ActionKind
    why: str
    way_out: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpaceView:
    """The space of a run by bookie, ledger, application or age; ``totals`` are the largest.

    ``others`` is what is left out of them, by class, and ``others_count`` how many. ``file_bytes`` are the
    lengths of all ``files``, which the classes add up to. ``steps`` are those of all bookies, what frees most
    of a bookie first, and ``refused`` is what the gate does not permit to free. ``disks`` are what lies
    beside the logs, by bookie, and ``forecasts`` of which of them runs agree when they are full.
    """

    by: SpaceBy
    totals: tuple[SpaceTotal, ...]
    files: int
    file_bytes: int
    others: dict[str, int] = field(default_factory=dict)
    others_count: int = 0
    steps: tuple[SpaceStep, ...] = ()
    refused: tuple[RefusedSpace, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    forecasts: tuple[FillForecast, ...] = ()

    @property
    def bytes(self) -> int:
        """The bytes of all classes, those of others too."""
        return sum(total.bytes for total in self.totals) + sum(self.others.values())

    @property
    def classes(self) -> dict[str, int]:
        """The bytes of each class that has any, in the order of `SpaceClass`."""
        sums = {
            str(space_class): self.others.get(space_class, 0)
            + sum(total.classes.get(space_class, 0) for total in self.totals)
            for space_class in SpaceClass
        }
        return {name: number for name, number in sums.items() if number}


@dataclass(frozen=True, slots=True)
class SpaceGauges:
    """The entry logs of a run's bookies by class, what lies beside them, and when disks are full.

    ``reclaimable`` are the bytes that each bookie's next collection, minor or major compaction gives back, by
    bookie and action. All of it is empty where entry logs were not read.
    """

    totals: tuple[SpaceTotal, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    reclaimable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    forecasts: tuple[FillForecast, ...] = ()
