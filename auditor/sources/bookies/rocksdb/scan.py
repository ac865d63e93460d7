"""The rows of a bookie's RocksDB in key order, as arrays, batch after batch (pyrex-rocksdb).

The only module that knows the library. It is opened read-only, through the copy of
`auditor.sources.bookies.rocksdb.copy`; checksums are verified, and a damaged block is an error, never an end.
Rows that are none of the storage's are counted, the first one kept as an example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.errors import DamagedError, UnreadError
from auditor.model.states import IndexState
from auditor.sources.bookies.index_files.listing import SkippedPath
from auditor.sources.bookies.rocksdb.copy import SCRATCH, open_copy

if TYPE_CHECKING:
    from pyrex import PyRocksDB

BATCH_ROWS = 65_536
BATCH_BYTES = 64 << 20

_CORRUPTION = "Corruption"  # how RocksDB's own words begin where bytes are damaged
_SCRATCH_PATH = re.compile(rf"\S*{SCRATCH}[^/\s]*")
_TABLE_OFFSET = re.compile(r"\bin (\S+\.sst) offset ([0-9]+)")


class Strings(NamedTuple):
    """Byte strings one after another: string i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int32]

    def item(self, row: int) -> bytes:
        """One of them.

        >>> Strings(np.frombuffer(b"abc", np.uint8), np.array([0, 1, 3], np.int32)).item(1)
        b'bc'
        """
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def all_of(self, length: int) -> bool:
        """Whether every one has ``length`` bytes."""
        return bool((self.offsets[1:] - self.offsets[:-1] == length).all())


class Rows(NamedTuple):
    """Keys, ascending, and their values."""

    keys: Strings
    values: Strings


@contextmanager
def open_rocksdb(directory: str) -> Iterator[PyRocksDB]:
    """The database in ``directory``, as it is now. Raises `DamagedError` or `UnreadError`."""
    import pyrex

    def open_scratch(scratch: str) -> PyRocksDB:
        try:
            return pyrex.PyRocksDB(scratch, read_only=True)
        except pyrex.RocksDBException as error:
            raise _typed_error(directory, str(error)) from None

    database = open_copy(directory, open_scratch)
    try:
        yield database
    finally:
        database.close()


def scan(database: PyRocksDB, directory: str) -> Iterator[Rows]:
    """All rows of ``database``; ``directory`` is named in errors.

    Raises:
        DamagedError, UnreadError: a block that does not match its checksum, or cannot be read.
    """
    import pyrex

    options = pyrex.ReadOptions()
    options.verify_checksums = True
    options.fill_cache = False
    try:
        batches = pa.RecordBatchReader.from_stream(
            database.scan_arrow(
                batch_size=BATCH_ROWS, max_batch_bytes=BATCH_BYTES, read_options=options, allow_overflow=True
            )
        )
        for batch in batches:
            yield Rows(_strings(batch.column(0)), _strings(batch.column(1)))
    except (OSError, pyrex.RocksDBException) as error:
        raise _typed_error(directory, str(error)) from None


def look_up(database: PyRocksDB, directory: str, key: bytes) -> bytes | None:
    """The value of one key, None where there is none; errors as of `scan`."""
    import pyrex

    try:
        value = database.get(key)
    except (OSError, pyrex.RocksDBException) as error:
        raise _typed_error(directory, str(error)) from None
    return None if value is None else bytes(value)


def _strings(column: pa.BinaryArray) -> Strings:
    _, offsets, data = column.buffers()
    return Strings(
        np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8),
        np.frombuffer(offsets, np.int32, count=len(column) + 1, offset=4 * column.offset),
    )


def _typed_error(directory: str, words: str) -> UnreadError:
    """An error in RocksDB's words, which name the scratch directory, of the directory that it stands for."""
    words = _SCRATCH_PATH.sub(directory, words)
    if _CORRUPTION not in words:
        return UnreadError(directory, words)
    table = _TABLE_OFFSET.search(words)
    return DamagedError(table[1], words, int(table[2])) if table else DamagedError(directory, words)


MAX_SHOWN = 32
"""Bytes of a key that are shown."""


@dataclass(slots=True)
class UnexpectedRows:
    """What was odd in the database ``path``, as at most one row ``damaged``.

    >>> list(UnexpectedRows("/data/ledgers0/current/locations").rows())
    []
    """

    path: str
    count: int = 0
    first: str = ""

    def add(self, rows: Rows, at: NDArray[np.intp], what: str) -> None:
        """Count the rows ``at``, which are ``what``. Values are never shown: some hold a key of a ledger."""
        if len(at) and not self.count:
            key = rows.keys.item(int(at[0]))
            self.first = f"{what}: {key[:MAX_SHOWN].hex()}{'...' if len(key) > MAX_SHOWN else ''}"
        self.count += len(at)

    def rows(self) -> Iterator[SkippedPath]:
        """A row that says so, if there was anything."""
        if self.count:
            reason = f"{self.count} of its rows are none of DbLedgerStorage's; the first is {self.first}"
            yield SkippedPath(None, self.path, IndexState.DAMAGED, reason)
