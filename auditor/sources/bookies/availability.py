"""The columns of the table ``availability``, the batches that index readers return, and file stamps.

The column ``groups`` encodes the entries of a ledger that the bookie holds
(`auditor.codecs.availability.groups`).

A stamp is a 64-bit number that shows whether a file changed since it was read. It is a hash of the file's
inode, size, modification time and change time (the times in ns). Writing to a file, truncating it or
replacing it changes at least one of these four values. Nobody can set the change time back.

A file that changed shortly before it was read gets no stamp. A second write within the same clock tick
would not change the file's times. Git's index follows the same rule.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch, Longs
from auditor.model.columns import make_schema

MAX_BATCH_ROWS = 65_536
"""Largest number of rows in one record batch of the table."""

MAX_BATCH_BYTES = 256 << 20
"""Largest size of the entry groups in one record batch, in bytes. Arrow's 32-bit offsets end at 2 GiB."""

SCHEMA = make_schema(
    ("bookie_id", pa.string(), "the bookie that the index belongs to"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null if ledger_id is null"),
    ("ledger_id", pa.int64(), "the ledger; null in states stray, gap and damaged"),
    (
        "groups",
        pa.binary(),
        "entries of the ledger in this index: BP-34 groups of 24 bytes, without the header of a BP-34 list",
    ),
    (
        "state",
        pa.string(),
        "state of the index, judged from this file alone. ok. cut: the file ends inside a slot, or inside a "
        "page of the bookie's page_size; unreadable. limbo: the bookie does not know which entries it should "
        "have. not-indexed: the bookie's index of ledgers does not list the ledger. misplaced: the file is "
        "at the wrong path. wrong-directory: the ledger belongs in another index directory (RocksDB). stray: "
        "the file is not one of the bookie's files. gap: the path was not read. damaged: a fault in the "
        "index that belongs to no ledger",
    ),
    ("reason", pa.string(), "reason for a state other than ok"),
    ("offset", pa.int64(), "byte offset of the fault in the file; null if unknown"),
    ("path", pa.string(), "the file or directory that was read"),
    (
        "page_bytes",
        pa.int64(),
        "bytes of the file after its header; a whole number of pages, unless the file is cut",
    ),
    ("mtime", pa.int64(), "time of the file's last change, in ms; null if its status could not be read"),
    ("storage", pa.string(), "source of the row: idx (index files), rocksdb, or rpc (the running bookie)"),
    ("answered", pa.int64(), "for rpc: the time of the bookie's answer, in ms"),
    (
        "stamp",
        pa.int64(),
        "64-bit hash of inode, size and times of the file, or of all files of the database. null: the hash "
        "could miss a change",
    ),
    ("reused", pa.bool_(), "whether the row comes from an earlier run (--since)"),
)


MIN_STAMP_AGE_NS = 2_000_000_000
"""Least age of a file's last change for the file to get a stamp, in ns. Changes in the future have no age.

The value covers the coarsest clock of any file system and the clock skew of a file server.
"""


class Stamps(NamedTuple):
    """64-bit hashes (stamps) that show changes of files. ``is_valid`` is false for files without a stamp."""

    hashes: NDArray[np.int64]
    is_valid: NDArray[np.bool_]

    def with_invalid_rows(self, rows: Iterable[int]) -> Stamps:
        """Return a copy of the stamps with ``is_valid`` set to false in the given rows."""
        is_valid = self.is_valid.copy()
        is_valid[list(rows)] = False
        return Stamps(self.hashes, is_valid)


IntegerColumn = Sequence[int] | NDArray[np.int64]


def compute_stamps(
    inodes: IntegerColumn, sizes: IntegerColumn, mtimes: IntegerColumn, ctimes: IntegerColumn, start_ns: int
) -> Stamps:
    """Return a stamp (a 64-bit hash that shows changes) for each file, from the results of ``fstat``.

    Args:
        inodes: The inode number of each file.
        sizes: The size of each file, in bytes.
        mtimes: The modification time of each file, in ns.
        ctimes: The change time of each file, in ns.
        start_ns: A time before the first ``fstat``, in ns. A stamp is valid only if the file was unchanged
            for `MIN_STAMP_AGE_NS` before this time.

    >>> start_ns = 10 + MIN_STAMP_AGE_NS + 1
    >>> old, new = compute_stamps([7, 7], [1024, 1024], [10, 10], [10, 11], start_ns)
    >>> bool(old[0] != old[1]), new.tolist()
    (True, [True, False])
    """
    columns = [np.array(column, np.int64) for column in (inodes, sizes, mtimes, ctimes)]
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = mix_hash(hashes ^ column.view(np.uint64))
    newest_valid_ns = start_ns - MIN_STAMP_AGE_NS
    return Stamps(hashes.view(np.int64), (columns[2] < newest_valid_ns) & (columns[3] < newest_valid_ns))


def _stamps_of(statuses: Sequence[os.stat_result], start_ns: int) -> Stamps:
    status_values = [
        (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) for status in statuses
    ]
    inodes, sizes, mtimes, ctimes = np.array(status_values, np.int64).reshape(-1, 4).T
    return compute_stamps(inodes, sizes, mtimes, ctimes, start_ns)


def modification_times(
    file_statuses: Sequence[os.stat_result | None], start_ns: int
) -> tuple[NDArray[np.int64], Stamps]:
    """Return the modification times of files, in ms, and their stamps (64-bit hashes that show changes).

    Args:
        file_statuses: The ``fstat`` result of each file. None if the file's status could not be read.
        start_ns: A time before the first ``fstat``, in ns.

    Returns:
        One time and one stamp for each file. If the status of a file is None, its time is -1 and its stamp
        is not valid.
    """
    known_statuses = [status for status in file_statuses if status is not None]
    has_status = np.array([status is not None for status in file_statuses], np.bool_)
    mtimes_ns = np.array([status.st_mtime_ns for status in known_statuses], np.int64)
    known_stamps = _stamps_of(known_statuses, start_ns)
    mtimes, hashes, is_valid = (
        np.full(len(file_statuses), -1),
        np.zeros(len(file_statuses), np.int64),
        has_status.copy(),
    )
    mtimes[has_status], hashes[has_status], is_valid[has_status] = (
        mtimes_ns // 1_000_000,
        known_stamps.hashes,
        known_stamps.is_valid,
    )
    return mtimes, Stamps(hashes, is_valid)


def combine_stamps(named_statuses: Iterable[tuple[str, os.stat_result]], start_ns: int) -> int | None:
    """Return a single stamp (a 64-bit hash that shows changes) for several files and their names.

    Returns None if one of the files has no stamp.

    ``start_ns`` is a time before the first ``fstat``, in ns.

    >>> combine_stamps([], start_ns=0) == combine_stamps([], start_ns=1)
    True
    """
    sorted_named_statuses = sorted(named_statuses)
    file_stamps = _stamps_of([status for _, status in sorted_named_statuses], start_ns)
    if not file_stamps.is_valid.all():
        return None
    stamp_hash = np.zeros(1, np.uint64)
    for (name, _), value in zip(sorted_named_statuses, file_stamps.hashes.view(np.uint64), strict=True):
        for row_number in (*_name_as_integers(name), value):
            stamp_hash = mix_hash(stamp_hash ^ row_number)
    return int(stamp_hash.view(np.int64)[0])


def _name_as_integers(name: str) -> NDArray[np.uint64]:
    name_bytes = os.fsencode(name)
    return np.frombuffer(name_bytes.ljust(-(-len(name_bytes) // 8) * 8, b"\0"), "<u8").astype(np.uint64)


def mix_hash(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the output of splitmix64's finaliser for each number (Steele, Lea, Flood 2014).

    If one bit of the input changes, about half of the output's bits change.
    """
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class IndexFiles(NamedTuple):
    """Index files of ledgers whose 128-bit ids have the same upper half (scope).

    The files are stored as columns, because a bookie may have millions of them.
    """

    ledger_ids: Longs
    paths: list[bytes]
    scope_id: int = 0


class FileFault(NamedTuple):
    """The fault of an index file, and the state that the file gets because of it.

    Attributes:
        state: ``cut`` if the file ends inside a slot; its whole slots still count. ``unreadable`` if no
            groups of entries can be read from the file.
        reason: A description of the fault for the reader of a report.
        offset: The offset of the fault in the file, in bytes. None if it is unknown.
    """

    state: str
    reason: str
    offset: int | None


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """Index files and their contents.

    Each field except ``faults`` has one item per file. An item of ``groups`` contains all BP-34
    sequence groups (ranges of entry ids) of its file.

    Attributes:
        faults: The fault of each faulty file, by the file's position in this batch.
        page_bytes: The number of bytes after the header of each file.
        mtimes: The time of each file's last change, in ms. -1 if the file's status could not be read.
        stamps: The stamps that the files had before they were read. A file with a fault has no valid stamp.
    """

    scope_ids: Longs
    ledger_ids: Longs
    paths: list[bytes]
    groups: GroupBatch
    faults: dict[int, FileFault]
    page_bytes: Longs
    mtimes: Longs
    stamps: Stamps
