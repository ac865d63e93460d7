"""A reader of a bookie's RocksDB databases: all rows in the order of their keys, in batches (pyrex-rocksdb).

Only this module uses the library pyrex-rocksdb. The module writes nothing to the bookie's directory and
takes no lock. Instead of the database, it opens a scratch directory with links and copies. It verifies
checksums, and reports a damaged block as an error. It counts the rows that DbLedgerStorage cannot have
written, and keeps the first of them as an example.

The scratch directory links to RocksDB's table files, because these never change. It has copies of the small
files that do change: CURRENT, the MANIFEST and the write-ahead logs. The logs are copied first. If a flush
moves entries from a log to a table meanwhile, the copy has them twice. They are never missing.

RocksDB stops reading a log at the first bad record and opens the database without an error. Entries would
then be missing unnoticed. Therefore, this module checks the copies:

1. Every table in the MANIFEST must exist with the length that the MANIFEST gives.
2. The logs that the MANIFEST needs must exist and be valid to their end.
3. Sequence numbers must continue without a gap from the tables to the logs, and from each log to the next.

If a check fails, and the directory has changed in the meantime, the module makes a new copy. If the
directory has not changed, it is damaged.

RocksDB opens all tables when it opens the database (``max_open_files`` is -1 by default). So a later
compaction by the bookie takes nothing away, and the scratch directory can be deleted at once.

One fault cannot be detected. After a power failure, the last log may lack its last records, and end exactly
at the end of a record. The bookie would not detect this either.
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

from auditor.codecs.rocksdb.manifest import Manifest, RecordSpan, TableFile, check_wal, decode
from auditor.errors import DamagedError, DecodeError, UnreadError
from auditor.model.amounts import plural
from auditor.model.states import IndexState
from auditor.sources.bookies.index_files.listing import SkippedPath
from auditor.sources.regular_file import NotRegularError, open_regular
from auditor.spark.session import SCRATCH_PREFIX, scratch_directory

if TYPE_CHECKING:
    from pyrex import PyRocksDB

SCRATCH_NAME_PREFIX = f"{SCRATCH_PREFIX}rocksdb-"
"""Prefix of the name of a scratch directory."""

MAX_COPY_ATTEMPTS = 8
"""Largest number of copies of a directory that keeps changing."""

RETRY_PAUSE_S = 0.05
"""Seconds between the first failed copy and the check for changes. Attempt n waits n times as long."""

MAX_MANIFEST_BYTES = 1 << 30
"""Largest size of a MANIFEST, in bytes. RocksDB begins a new one at this size."""

MAX_LOG_BYTES = 4 << 30
"""Largest size of a write-ahead log, in bytes: eight times what a bookie allows."""

FileListing = dict[str, tuple[int, int]]
"""The files of a database: name -> (length in bytes, modification time in ns)."""

OpenedDatabase = TypeVar("OpenedDatabase")

_LOG_NAME = re.compile(r"([0-9]+)\.log")
_DATABASE_FILE_NAME = re.compile(r"[0-9]+\.(log|sst)|CURRENT|MANIFEST-[0-9]+")


def open_copy(directory: str, open_database: Callable[[str], OpenedDatabase]) -> OpenedDatabase:
    """Open a copy of the database in ``directory``.

    Args:
        directory: The directory of the bookie's database.
        open_database: A function that opens the database at a path and returns it. It must read the logs
            and open all tables before it returns. It raises `UnreadError` if it cannot open the database.

    Raises:
        DamagedError: the files contradict each other, although the directory does not change.
        UnreadError: the directory cannot be read, or it changed faster than it could be copied.
    """
    error_texts: list[str] = []
    for attempt_number in range(1, MAX_COPY_ATTEMPTS + 1):
        files_before = _list_files(directory)
        try:
            with scratch_directory("rocksdb") as scratch_path:
                _copy_files(directory, scratch_path, files_before)
                return open_database(scratch_path)
        except UnreadError as error:
            error_texts.append(str(error))
            time.sleep(RETRY_PAUSE_S * attempt_number)
            # The same fault in every copy is damage, and not a write in progress.
            if _list_files(directory) == files_before or (
                attempt_number == MAX_COPY_ATTEMPTS and len(set(error_texts)) == 1
            ):
                raise
    raise UnreadError(
        directory, f"changed during each of {MAX_COPY_ATTEMPTS} copies; last problem: {error_texts[-1]}"
    )


def file_statuses(directory: str) -> dict[str, os.stat_result]:
    """Return the status of each file of the database in ``directory``, by file name. Raises `UnreadError`."""
    try:
        status_by_name = {}
        for file_path in Path(directory).iterdir():
            if _DATABASE_FILE_NAME.fullmatch(file_path.name):
                try:
                    status_by_name[file_path.name] = file_path.stat()
                except FileNotFoundError:
                    continue
        return status_by_name
    except OSError as error:
        raise UnreadError(directory, error.strerror or str(error)) from error


def _list_files(directory: str) -> FileListing:
    return {name: (status.st_size, status.st_mtime_ns) for name, status in file_statuses(directory).items()}


def _copy_files(directory: str, scratch_path: str, listing: FileListing) -> None:
    """Fill the scratch directory, and check that it contains a complete database. Raises `UnreadError`."""
    logs: dict[int, RecordSpan | DamagedError | None] = {}
    sizes: dict[int, int] = {}
    for name in listing:
        if (log_match := _LOG_NAME.fullmatch(name)) is not None:
            log_bytes = _copy_file(directory, scratch_path, name, MAX_LOG_BYTES)
            log_number = int(log_match[1])
            sizes[log_number] = len(log_bytes)
            try:
                logs[log_number] = check_wal(log_bytes, name, log_number)
            except DecodeError as error:
                # Raised later if the MANIFEST needs the log: most often a damaged log is an obsolete one.
                logs[log_number] = DamagedError(f"{directory}/{name}", error.reason, error.offset)
    current_path = f"{directory}/CURRENT"
    current_bytes = _copy_file(directory, scratch_path, "CURRENT", MAX_MANIFEST_BYTES)
    name = current_bytes.decode("ascii", "replace").removesuffix("\n")
    if re.fullmatch(r"MANIFEST-[0-9]+", name) is None or not current_bytes.endswith(b"\n"):
        raise DamagedError(current_path, f"its content is {name[:80]!r}, not the name of a MANIFEST", 0)
    path = f"{directory}/{name}"
    try:
        manifest = decode(_copy_file(directory, scratch_path, name, MAX_MANIFEST_BYTES), name)
    except DecodeError as error:
        raise DamagedError(path, error.reason, error.offset) from None
    for sst_file in manifest.tables.values():
        _link_sst_file(directory, scratch_path, sst_file)
    _check_logs(directory, int(name.removeprefix("MANIFEST-")), manifest, logs, sizes)


def _copy_file(directory: str, scratch_path: str, name: str, max_bytes: int) -> bytes:
    path = f"{directory}/{name}"
    try:
        with open_regular(path) as file:
            file_bytes = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise DamagedError(path, "file is missing") from None
    except NotRegularError as error:
        raise DamagedError(path, error.strerror) from None
    except OSError as error:
        raise UnreadError(path, error.strerror or str(error)) from error
    if len(file_bytes) > max_bytes:
        raise UnreadError(path, f"larger than {max_bytes} bytes")
    Path(scratch_path, name).write_bytes(file_bytes)
    return file_bytes


def _link_sst_file(directory: str, scratch_path: str, sst_file: TableFile) -> None:
    name = f"{sst_file.number:06}.sst"
    path = Path(directory, name)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DamagedError(str(path), "listed in the MANIFEST, but missing") from None
    except OSError as error:
        raise UnreadError(str(path), error.strerror or str(error)) from error
    if size != sst_file.bytes:
        raise DamagedError(
            str(path), f"{size} bytes; the MANIFEST lists {sst_file.bytes}", min(size, sst_file.bytes)
        )
    Path(scratch_path, name).symlink_to(path.absolute())


def _check_logs(
    directory: str,
    manifest_number: int,
    manifest: Manifest,
    logs: dict[int, RecordSpan | DamagedError | None],
    sizes: dict[int, int],
) -> None:
    """Check that all logs that the MANIFEST needs exist and are valid. Raises `DamagedError`."""
    needed_logs = sorted(number for number in logs if number >= manifest.log_number)
    if not needed_logs:
        raise DamagedError(
            directory, f"no write-ahead log numbered {manifest.log_number} or later; a bookie always has one"
        )
    for number, synced_bytes in manifest.logs.items():
        if number >= manifest.log_number and sizes.get(number, -1) < synced_bytes:
            raise DamagedError(
                f"{directory}/{number:06}.log",
                f"missing or shorter than the {synced_bytes} bytes in the MANIFEST",
            )
    record_spans: list[tuple[int, RecordSpan]] = []
    for number in needed_logs:
        record_span = logs[number]
        if isinstance(record_span, DamagedError):
            raise record_span
        if record_span is not None:
            record_spans.append((number, record_span))
    if record_spans and record_spans[0][1].first > manifest.last_sequence + 1:
        number, record_span = record_spans[0]
        raise _gap_error(directory, number, manifest.last_sequence + 1, record_span)
    # Without a write no sequence number shows a missing log. Then the log that the MANIFEST names must
    # exist. If this number is below the MANIFEST's own number, the log may never have existed: a recovery can
    # use up a number without a log.
    log_number = manifest.log_number
    if not record_spans and log_number > manifest_number and log_number != needed_logs[0]:
        raise DamagedError(f"{directory}/{log_number:06}.log", "needed by the MANIFEST, but missing")
    for (_, previous_span), (number, record_span) in pairwise(record_spans):
        if record_span.first != previous_span.end:
            raise _gap_error(directory, number, previous_span.end, record_span)


def _gap_error(
    directory: str, number: int, expected_sequence_number: int, record_span: RecordSpan
) -> DamagedError:
    return DamagedError(
        f"{directory}/{number:06}.log",
        f"writes before it are missing: it begins with sequence number {record_span.first}, "
        f"expected {expected_sequence_number}",
        0,
    )


BATCH_ROWS = 65_536
BATCH_BYTES = 64 << 20

_CORRUPTION = "Corruption"  # prefix of RocksDB's error texts about damaged bytes
_SCRATCH_PATH = re.compile(rf"\S*{SCRATCH_NAME_PREFIX}[^/\s]*")
_SST_OFFSET = re.compile(r"\bin (\S+\.sst) offset ([0-9]+)")


class Strings(NamedTuple):
    """Byte strings in one array: string i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int32]

    def string(self, row: int) -> bytes:
        """Return one string.

        >>> Strings(np.frombuffer(b"abc", np.uint8), np.array([0, 1, 3], np.int32)).string(1)
        b'bc'
        """
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def leading_bytes(self, rows: NDArray[np.intp], length: int) -> NDArray[np.uint8]:
        """Return the first ``length`` bytes of the strings ``rows``, as an array with one row per string."""
        byte_rows: NDArray[np.uint8] = self.data[self.offsets[rows][:, None] + np.arange(length)]
        return byte_rows

    def all_have_length(self, length: int) -> bool:
        """Return whether every string has ``length`` bytes."""
        return bool((self.offsets[1:] - self.offsets[:-1] == length).all())


class Rows(NamedTuple):
    """The keys of some rows in ascending order, and the values in the same order."""

    keys: Strings
    values: Strings

    def has_lengths(self, key_bytes: int, value_bytes: int) -> NDArray[np.bool_]:
        """Return a mask of the rows whose key and value have these lengths, in bytes."""
        has_both_lengths: NDArray[np.bool_] = np.diff(self.keys.offsets) == key_bytes
        has_both_lengths &= np.diff(self.values.offsets) == value_bytes
        return has_both_lengths


@contextmanager
def open_rocksdb(directory: str) -> Iterator[PyRocksDB]:
    """Open the database in ``directory`` in its present state. Raises `DamagedError` or `UnreadError`."""
    import pyrex

    def open_scratch(scratch_path: str) -> PyRocksDB:
        try:
            return pyrex.PyRocksDB(scratch_path, read_only=True)
        except pyrex.RocksDBException as error:
            raise _typed_error(directory, str(error)) from None

    database = open_copy(directory, open_scratch)
    try:
        yield database
    finally:
        database.close()


def scan(database: PyRocksDB, directory: str) -> Iterator[Rows]:
    """Yield all rows of ``database``. Error messages name ``directory`` as the path of the database.

    Raises:
        DamagedError, UnreadError: a block does not match its checksum, or cannot be read.
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
            yield Rows(_to_strings(batch.column(0)), _to_strings(batch.column(1)))
    except (OSError, pyrex.RocksDBException) as error:
        raise _typed_error(directory, str(error)) from None


def look_up(database: PyRocksDB, directory: str, key: bytes) -> bytes | None:
    """Return the value of one key, or None if the key does not exist. Raises the same errors as `scan`."""
    import pyrex

    try:
        stored_bytes = database.get(key)
    except (OSError, pyrex.RocksDBException) as error:
        raise _typed_error(directory, str(error)) from None
    return None if stored_bytes is None else bytes(stored_bytes)


def _to_strings(column: pa.BinaryArray) -> Strings:
    _, offsets, byte_data = column.buffers()
    return Strings(
        np.frombuffer(byte_data, np.uint8) if byte_data is not None else np.zeros(0, np.uint8),
        np.frombuffer(offsets, np.int32, count=len(column) + 1, offset=4 * column.offset),
    )


def _typed_error(directory: str, message: str) -> UnreadError:
    """Return the error for a message of RocksDB. The error names the database, not the scratch directory."""
    message = _SCRATCH_PATH.sub(directory, message)
    if _CORRUPTION not in message:
        return UnreadError(directory, message)
    table_match = _SST_OFFSET.search(message)
    return (
        DamagedError(table_match[1], message, int(table_match[2]))
        if table_match
        else DamagedError(directory, message)
    )


MAX_SHOWN_KEY_BYTES = 32
"""Largest number of bytes of a key in a message."""


@dataclass(slots=True)
class UnexpectedRows:
    """The number of rows that no server can have written in the database at ``path``, and the first of them.

    `rows` reports all of them as one row with state ``damaged``.

    >>> list(UnexpectedRows("/data/ledgers0/current/locations").rows())
    []
    """

    path: str
    count: int = 0
    first_example: str = ""

    def add(self, rows: Rows, row_numbers: NDArray[np.intp], row_kind: str) -> None:
        """Count the rows with the given ``row_numbers``. ``row_kind`` describes their fault.

        Messages never show values, because some values contain the master key of a ledger.
        """
        if len(row_numbers) and not self.count:
            key = rows.keys.string(int(row_numbers[0]))
            ellipsis = "..." if len(key) > MAX_SHOWN_KEY_BYTES else ""
            self.first_example = f"{row_kind} (key {key[:MAX_SHOWN_KEY_BYTES].hex()}{ellipsis})"
        self.count += len(row_numbers)

    def rows(self) -> Iterator[SkippedPath]:
        """If any rows were counted, yield one row with their number and the key of the first one."""
        if self.count:
            reason = (
                f"{plural(self.count, 'row')} that DbLedgerStorage does not write; the first has "
                f"{self.first_example}"
            )
            yield SkippedPath(None, self.path, IndexState.DAMAGED, reason)
