"""What lies on a bookie's disks besides entry logs, and how full these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
