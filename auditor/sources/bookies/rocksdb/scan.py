"""The rows of a bookie's RocksDB in key order, batch after batch, without touching it (pyrex-rocksdb).

The only module that knows the library. A scratch directory of links and copies stands in for the database;
checksums are verified, and a damaged block is an error, never an end. Rows that are none of the storage's are
counted, the first one kept as an example.

RocksDB's table files never change, so the scratch directory has links to them. The small files that do change
(CURRENT, the MANIFEST, write-ahead logs) are copied, the logs first: what a flush moves from a log to a table
meanwhile is then in both, never in neither. No lock is taken, and nothing is written in the bookie's
directory.

RocksDB forgives what an audit must not: it stops reading a log at the first bad record and goes on. So the
copies are checked here. Every table that the MANIFEST names must be there, as long as it says; the logs that
it asks for must be there, and be good to the end; sequence numbers must go on from the tables to the logs and
from log to log. If something does not fit and the directory has changed meanwhile, it is copied again. One
that stands still is damaged.

All tables are opened with the database (RocksDB's ``max_open_files`` is -1 unless told otherwise), so a
compaction of the bookie's that deletes them later takes nothing away, and the scratch directory can go at
once.

What cannot be noticed: that the last log ends earlier than it once did, exactly at the end of a record, as
after a power cut: the bookie would not notice either.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.rocksdb.manifest import Manifest, RecordSpan, TableFile, batches, decode
from auditor.errors import DamagedError, DecodeError, UnreadError
from auditor.model.states import IndexState
from auditor.sources.bookies.index_files.listing import SkippedPath
from auditor.sources.regular_file import NotRegularError, open_regular
from auditor.spark.session import PREFIX, scratch_directory

if TYPE_CHECKING:
    from pyrex import PyRocksDB

SCRATCH = f"{PREFIX}rocksdb-"
"""How the name of a scratch directory begins."""

ATTEMPTS = 8
"""Copies made of a directory that keeps changing under the copy."""

PAUSE = 0.05
"""Seconds between a copy that does not fit and the look whether anything has changed; grows each time."""

MAX_MANIFEST_BYTES = 1 << 30
"""RocksDB begins a new MANIFEST at this size."""

MAX_LOG_BYTES = 4 << 30
"""Eight times what a bookie lets its write-ahead logs grow to."""

Listing = dict[str, tuple[int, int]]
"""Name -> length and mtime (ns) of the files that make up a database."""

T = TypeVar("T")

_LOG = re.compile(r"([0-9]+)\.log")
_PARTS = re.compile(r"[0-9]+\.(log|sst)|CURRENT|MANIFEST-[0-9]+")


def open_copy(directory: str, opened: Callable[[str], T]) -> T:
    """Open the database in ``directory`` through a copy: ``opened`` gets the scratch directory's path.

    ``opened`` must read the logs and open all tables before it returns; it raises `UnreadError` if it cannot.

    Raises:
        DamagedError: the files do not fit together, and stand still.
        UnreadError: the directory cannot be read, or changed faster than it could be copied.
    """
    troubles: list[str] = []
    for attempt in range(1, ATTEMPTS + 1):
        before = _list(directory)
        try:
            with scratch_directory("rocksdb") as scratch:
                _copy(directory, scratch, before)
                return opened(scratch)
        except UnreadError as error:
            troubles.append(str(error))
            time.sleep(PAUSE * attempt)
            # The same byte in every copy, whatever else has changed, was not on its way.
            if _list(directory) == before or (attempt == ATTEMPTS and len(set(troubles)) == 1):
                raise
    raise UnreadError(directory, f"changed while it was copied, {ATTEMPTS} times; the last: {troubles[-1]}")


def states(directory: str) -> dict[str, os.stat_result]:
    """The state of each file that makes up the database in ``directory``, by name. Raises `UnreadError`."""
    try:
        file_states = {}
        for path in Path(directory).iterdir():
            if _PARTS.fullmatch(path.name):
                try:
                    file_states[path.name] = path.stat()
                except FileNotFoundError:
                    continue
        return file_states
    except OSError as error:
        raise UnreadError(directory, error.strerror or str(error)) from error


def _list(directory: str) -> Listing:
    return {name: (status.st_size, status.st_mtime_ns) for name, status in states(directory).items()}


def _copy(directory: str, scratch: str, listing: Listing) -> None:
    """Make the scratch directory and check that it is a whole database. Raises `UnreadError`."""
    logs: dict[int, RecordSpan | DamagedError | None] = {}
    sizes: dict[int, int] = {}
    for name in listing:
        if (match := _LOG.fullmatch(name)) is not None:
            data = _copy_file(directory, scratch, name, MAX_LOG_BYTES)
            number = int(match[1])
            sizes[number] = len(data)
            try:
                logs[number] = batches(data, name, number)
            except DecodeError as error:
                # Most often it is one that counts no more.
                logs[number] = DamagedError(f"{directory}/{name}", error.reason, error.offset)
    current = f"{directory}/CURRENT"
    current_data = _copy_file(directory, scratch, "CURRENT", MAX_MANIFEST_BYTES)
    name = current_data.decode("ascii", "replace").removesuffix("\n")
    if re.fullmatch(r"MANIFEST-[0-9]+", name) is None or not current_data.endswith(b"\n"):
        raise DamagedError(current, f"it names {name[:80]!r}, not a MANIFEST", 0)
    path = f"{directory}/{name}"
    try:
        manifest = decode(_copy_file(directory, scratch, name, MAX_MANIFEST_BYTES), name)
    except DecodeError as error:
        raise DamagedError(path, error.reason, error.offset) from None
    for table in manifest.tables.values():
        _link(directory, scratch, table)
    _check_logs(directory, int(name.removeprefix("MANIFEST-")), manifest, logs, sizes)


def _copy_file(directory: str, scratch: str, name: str, most: int) -> bytes:
    path = f"{directory}/{name}"
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        raise DamagedError(path, "it is not there") from None
    except NotRegularError as error:
        raise DamagedError(path, error.strerror) from None
    except OSError as error:
        raise UnreadError(path, error.strerror or str(error)) from error
    if len(data) > most:
        raise UnreadError(path, f"larger than {most} bytes")
    Path(scratch, name).write_bytes(data)
    return data


def _link(directory: str, scratch: str, table: TableFile) -> None:
    name = f"{table.number:06}.sst"
    path = Path(directory, name)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DamagedError(str(path), "the MANIFEST names it, and it is not there") from None
    except OSError as error:
        raise UnreadError(str(path), error.strerror or str(error)) from error
    if size != table.bytes:
        raise DamagedError(
            str(path), f"{size} bytes; the MANIFEST says {table.bytes}", min(size, table.bytes)
        )
    Path(scratch, name).symlink_to(path.absolute())


def _check_logs(
    directory: str,
    manifest_number: int,
    manifest: Manifest,
    logs: dict[int, RecordSpan | DamagedError | None],
    sizes: dict[int, int],
) -> None:
    """Whether the logs that count are all there and good. Raises `DamagedError`."""
    counting = sorted(number for number in logs if number >= manifest.log_number)
    if not counting:
        raise DamagedError(
            directory,
            f"no write-ahead log of number {manifest.log_number} or later is there; a bookie always has one",
        )
    for number, synced in manifest.logs.items():
        if number >= manifest.log_number and sizes.get(number, -1) < synced:
            raise DamagedError(
                f"{directory}/{number:06}.log", f"the MANIFEST says that {synced} bytes were written"
            )
    spans: list[tuple[int, RecordSpan]] = []
    for number in counting:
        span = logs[number]
        if isinstance(span, DamagedError):
            raise span
        if span is not None:
            spans.append((number, span))
    if spans and spans[0][1].first > manifest.last_sequence + 1:
        number, span = spans[0]
        raise _gap(directory, number, manifest.last_sequence + 1, span)
    # Without a write no number tells whether a log is missing. One of this name there was: a number below the
    # MANIFEST's own can be one that a recovery used for nothing.
    log_number = manifest.log_number
    if not spans and log_number > manifest_number and log_number != counting[0]:
        raise DamagedError(
            f"{directory}/{log_number:06}.log", "the MANIFEST asks for it, and it is not there"
        )
    for (_, before), (number, span) in pairwise(spans):
        if span.first != before.end:
            raise _gap(directory, number, before.end, span)


def _gap(directory: str, number: int, expected: int, span: RecordSpan) -> DamagedError:
    return DamagedError(
        f"{directory}/{number:06}.log",
        f"writes are missing before it: it begins with number {span.first}, {expected} comes next",
        0,
    )


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

    def octets(self, rows: NDArray[np.intp], length: int) -> NDArray[np.uint8]:
        """The first bytes of some of them, a row each."""
        leading_bytes: NDArray[np.uint8] = self.data[self.offsets[rows][:, None] + np.arange(length)]
        return leading_bytes

    def all_of(self, length: int) -> bool:
        """Whether every one has ``length`` bytes."""
        return bool((self.offsets[1:] - self.offsets[:-1] == length).all())


class Rows(NamedTuple):
    """Keys, ascending, and their values."""

    keys: Strings
    values: Strings

    def of_lengths(self, key: int, value: int) -> NDArray[np.bool_]:
        """Which have a key and a value of so many bytes."""
        has_lengths: NDArray[np.bool_] = np.diff(self.keys.offsets) == key
        has_lengths &= np.diff(self.values.offsets) == value
        return has_lengths


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

    def add(self, rows: Rows, row_numbers: NDArray[np.intp], what: str) -> None:
        """Count the rows ``row_numbers``, which are ``what``.

        Values are never shown: some hold a key of a ledger.
        """
        if len(row_numbers) and not self.count:
            key = rows.keys.item(int(row_numbers[0]))
            self.first = f"{what}: {key[:MAX_SHOWN].hex()}{'...' if len(key) > MAX_SHOWN else ''}"
        self.count += len(row_numbers)

    def rows(self) -> Iterator[SkippedPath]:
        """A row that says so, if there was anything."""
        if self.count:
            reason = f"{self.count} of its rows are none of DbLedgerStorage's; the first is {self.first}"
            yield SkippedPath(None, self.path, IndexState.DAMAGED, reason)
