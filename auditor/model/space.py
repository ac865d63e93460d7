"""Disk space of bookies: the contents of entry logs, other files, and actions that free space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Literal, NamedTuple, get_args

from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed
from auditor.model.states import SpaceClass

FULL_DISK_SHARE = 0.95
"""Used share of a disk at which a bookie takes no more writes: the default of diskUsageThreshold."""


class BytesKind(NamedTuple):
    """A kind of files that are not entry logs, with the names of this kind.

    ``name`` is the field of `DiskTotal`, and ``column`` is the column of the table disks. ``label`` is a text
    for people.
    """

    name: str
    column: str
    label: str


DISK_BYTES = (
    BytesKind("journals", "journal_bytes", "journals"),
    BytesKind("indexes", "index_bytes", "indexes"),
    BytesKind("rocksdb", "rocksdb_bytes", "RocksDB"),
    BytesKind("other", "other_bytes", "other files"),
)
"""All kinds of other files, in the order of tables and reports."""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Capacity and free space of one file system of a bookie, in bytes.

    ``seen`` is the time in ms when ``bkaudit collect`` or an audit measured them.

    >>> FileSystem(1, 100, 4, 0).used
    0.96
    """

    device: int
    capacity: int
    free: int
    seen: int

    @property
    def used(self) -> float:
        """Used share of the file system. As in the bookie's disk checker, unwritable space counts as used."""
        return 1 - self.free / self.capacity if self.capacity else 1.0


@dataclass(frozen=True, slots=True)
class FillForecast:
    """Forecast of the time when the first disk of a bookie will be full.

    ``rate`` is in bytes per day. It was measured over ``runs`` runs whose rates agree. ``days`` is the
    number of days from the last measurement until the disk is full. It is 0 if the disk is already full.
    """

    name: str
    days: float
    rate: float
    runs: int


@dataclass(frozen=True, slots=True)
class DiskTotal:
    """Bytes of one bookie's files other than entry logs, by kind, and the file systems of the bookie.

    The file systems are ordered by used share, the fullest first. ``unread`` is the number of the bookie's
    directories that were not read, or not read completely.
    """

    name: str
    journals: int
    indexes: int
    rocksdb: int
    other: int
    file_systems: tuple[FileSystem, ...]
    unread: int = 0

    @property
    def bytes_by_kind(self) -> dict[str, int]:
        """Bytes of each kind of files. The keys are the names in `DISK_BYTES`.

        >>> DiskTotal("bk1", 10, 20, 30, 40, ()).bytes_by_kind
        {'journals': 10, 'indexes': 20, 'rocksdb': 30, 'other': 40}
        """
        return {kind.name: getattr(self, kind.name) for kind in DISK_BYTES}

    @property
    def fullest(self) -> FileSystem | None:
        """The file system with the largest used share, or None if no file system was measured."""
        return self.file_systems[0] if self.file_systems else None


SpaceGrouping = Literal["bookie", "ledger", "application", "age"]
SPACE_GROUPINGS: tuple[SpaceGrouping, ...] = get_args(SpaceGrouping)

NO_BOOKIE_NAME = "(nobody's)"
"""Name for directories that belong to no bookie of the cluster."""
NO_LEDGER_NAME = "(no ledger)"
"""Name, in place of a ledger, for bytes of no ledger: headers, ledgers maps, padding and ends of logs."""
UNLISTED_LEDGERS_NAME = "(not listed)"
"""Name for all ledgers that the metadata does not list."""
NO_APPLICATION_NAME = "(names none)"
"""Name for ledgers without an application in their custom metadata, or with unreadable metadata."""
OTHER_APPLICATIONS_NAME = "(further names)"
"""Name for the applications that are not counted one by one, because there are too many."""


@dataclass(frozen=True, slots=True)
class SpaceTotal:
    """Bytes in the entry logs of one group: a bookie, a ledger, an application or an age.

    ``classes`` maps each class, such as live or orphan, to its bytes. Classes without bytes are left out.

    >>> SpaceTotal("bk1:3181", {"live": 30, "orphan": 12}).bytes
    42
    """

    name: str
    classes: dict[str, int]

    @property
    def bytes(self) -> int:
        """Sum of the bytes of all classes, such as live and orphan."""
        return sum(self.classes.values())


FREEING_ACTIONS = (ActionKind.COLLECT, ActionKind.COMPACT, ActionKind.DELETE_LEDGER)
"""Kinds of action that free space."""


@dataclass(frozen=True, slots=True)
class SpaceStep:
    """An action that frees bytes of one bookie.

    ``bytes`` is an upper bound of the bytes that the action frees. ``command`` can be run unchanged. It is
    None if the server frees the space by itself. ``what`` then says when this happens. ``risk`` begins with a
    word of `auditor.checks.manual.RISK_WORDS`. ``permission`` is the permission for the action, which
    `auditor.actions.gate` gave.

    Raises:
        TypeError: ``permission`` does not permit an action that frees space on this bookie.
    """

    bookie_id: str
    bytes: int
    what: str
    command: str | None
    risk: str
    permission: InitVar[Allowed]

    def __post_init__(self, permission: Allowed) -> None:
        if not isinstance(permission, Allowed) or permission.kind not in FREEING_ACTIONS:
            raise TypeError(
                f"{self.bookie_id}: the gate permitted no action that frees space (auditor.actions.gate)"
            )
        object_keys = {object.key for object in permission.objects}
        if permission.kind is not ActionKind.DELETE_LEDGER and self.bookie_id not in object_keys:
            raise TypeError(
                f"{self.bookie_id}: the gate did not permit {permission.kind} on this bookie "
                "(auditor.actions.gate)"
            )


@dataclass(frozen=True, slots=True)
class RefusedSpace:
    """Bytes of one bookie that must not be freed: the refused action, the reason, and what must happen first.

    ``reasons`` has the reason of each hold (a rule that forbids actions) against the action, the most
    important first.
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
    """Disk space that a run found, grouped by bookie, ledger, application or age.

    ``totals`` are the largest groups. ``remaining_bytes`` has the bytes of all other groups together, by
    class (such as live or orphan). ``remaining_count`` is the number of these groups. ``files`` is the number
    of entry logs. ``file_bytes`` is their total length, and equals the sum of all classes. ``steps`` are
    actions for all bookies. For each bookie, the action that frees most comes first. ``refused`` are actions
    that `auditor.actions.gate` does not permit. ``disks`` describes the files other than entry logs, by
    bookie. ``forecasts`` say when disks will be full, if the measurements of several runs agree.
    """

    grouping: SpaceGrouping
    totals: tuple[SpaceTotal, ...]
    files: int
    file_bytes: int
    remaining_bytes: dict[str, int] = field(default_factory=dict)
    remaining_count: int = 0
    steps: tuple[SpaceStep, ...] = ()
    refused: tuple[RefusedSpace, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    forecasts: tuple[FillForecast, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all classes (such as live and orphan) in all groups, including ``remaining_bytes``."""
        return sum(total.bytes for total in self.totals) + sum(self.remaining_bytes.values())

    @property
    def classes(self) -> dict[str, int]:
        """Bytes of each class, such as live, in the order of `SpaceClass`. Empty classes are left out."""
        class_bytes = {
            str(space_class): self.remaining_bytes.get(space_class, 0)
            + sum(total.classes.get(space_class, 0) for total in self.totals)
            for space_class in SpaceClass
        }
        return {name: byte_count for name, byte_count in class_bytes.items() if byte_count}


@dataclass(frozen=True, slots=True)
class SpaceGauges:
    """Disk usage of the bookies of a run, and forecasts of full disks.

    ``totals`` are the bytes of entry logs by class, such as live or orphan. ``disks`` are the other files on
    the bookies' disks.

    ``reclaimable`` maps each bookie to the bytes that each action would free. The actions are the next
    collection, minor compaction and major compaction. All fields are empty if entry logs were not read.
    """

    totals: tuple[SpaceTotal, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    reclaimable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    forecasts: tuple[FillForecast, ...] = ()
