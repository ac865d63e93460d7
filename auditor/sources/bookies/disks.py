"""What lies in a bookie's directory besides entry logs, and how full its file system is: sizes, no contents.

    current/<hex>.txn                           journals
    current/**/<hex>.idx                        indexes of Interleaved and Sorted storage
    current/locations, ledgers, metadata-cache  databases of DbLedgerStorage
    current/<hex>.log*                          entry logs: the tables entry_logs and space have them
    anything else                               VERSION, lastMark, lastId, and what is none of a bookie's

Free bytes are those that a bookie may still write, as its own disk checker counts them. They are of the file
system that the directory lies on now: of a copy, that of the copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from auditor.model.columns import column, schema_of
from auditor.model.space import DISK_BYTES
from auditor.sources.bookies.entry_logs.rows import is_log
from auditor.sources.bookies.parts import is_database
from auditor.sources.clock import now_ms

SIZES = schema_of(
    ("directory", pa.string(), "a directory of it: of journals, of ledgers, or of indexes"),
    ("journal_bytes", pa.int64(), "length of its journal files"),
    ("index_bytes", pa.int64(), "length of its .idx files"),
    ("rocksdb_bytes", pa.int64(), "length of the files of DbLedgerStorage's databases in it"),
    ("other_bytes", pa.int64(), "length of all other files but entry logs"),
    ("device", pa.int64(), "its file system's number; directories of one bookie with one number share it"),
    ("capacity_bytes", pa.int64(), "size of the file system; null: not seen"),
    ("free_bytes", pa.int64(), "of these, free to the bookie; null: not seen"),
    ("seen", pa.int64(), "when, ms"),
    ("reason", pa.string(), "why not all of it could be read; what is there is counted"),
)
DISKS = pa.schema([column("bookie_id", pa.string(), "the bookie whose data it is; null: nobody's"), *SIZES])
"""The table ``disks``, one row a directory."""


def sizes_of(directory: str) -> dict[str, Any]:
    """The row of `SIZES` of one directory, by a walk that opens no file.

    >>> sizes_of("/no/such/directory")["reason"]
    'No such file or directory'
    """
    row: dict[str, Any] = dict.fromkeys(SIZES.names)
    row |= {"directory": directory, "seen": now_ms()}
    try:
        status = os.statvfs(directory)
        row |= {
            "device": os.stat(directory).st_dev,  # noqa: PTH116 -- a name only
            "capacity_bytes": status.f_blocks * status.f_frsize,
            "free_bytes": status.f_bavail * status.f_frsize,
        }
    except OSError as error:
        return row | {"reason": error.strerror or str(error)}
    troubles: list[str] = []
    row |= dict.fromkeys((kind.column for kind in DISK_BYTES), 0)
    for kind, size in _files(f"{directory}/current", "", troubles):
        row[kind] += size
    return row | {"reason": next(iter(troubles), None)}


def read_sizes(directory: str) -> Iterator[pa.RecordBatch]:
    """`sizes_of` as a row of `SIZES`; of a directory that a task cannot see, one that says so."""
    yield pa.RecordBatch.from_pylist([sizes_of(directory)], schema=SIZES)


def _files(path: str, below: str, troubles: list[str]) -> Iterator[tuple[str, int]]:
    """The column and size of each file; what went away since it was listed is not there."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        yield from _files(entry.path, f"{below}{entry.name}/", troubles)
                    elif entry.is_file() and (kind := _column(below, entry.name)) is not None:
                        yield kind, entry.stat().st_size
                except FileNotFoundError:
                    continue
    except OSError as error:
        troubles.append(f"{path}: {error.strerror or error}")


def _column(below: str, name: str) -> str | None:
    """The column of a file, by its name and the directories that it is below; None: an entry log."""
    if is_database(below.partition("/")[0]):
        return "rocksdb_bytes"
    if name.endswith(".idx"):
        return "index_bytes"
    if not below and name.endswith(".txn"):
        return "journal_bytes"
    return None if not below and is_log(name) else "other_bytes"
