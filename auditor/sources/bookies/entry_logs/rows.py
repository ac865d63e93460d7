"""A bookie's directories as rows: its entry logs, the ledgers in each log, and the sizes of all other files.

    current/<hex>.log*                          entry logs
    current/<hex>.txn                           journals
    current/**/<hex>.idx                        indexes of Interleaved and Sorted storage
    current/locations, ledgers, metadata-cache  databases of DbLedgerStorage
    anything else                               VERSION, lastMark, lastId, and files that no bookie writes

From each log, the program reads the header and the ledgers map. If it cannot use the map, it reads the
headers of all entries (`auditor.sources.bookies.entry_logs.reader`). It reads no payloads.

An interrupted compaction leaves two kinds of files. ``<hex>.log.compacting`` is not a log yet.
``<new>.log.<old>.compacted`` is a second name of a log. These files have rows of their own, so that every
byte counts exactly once.

Free bytes are the bytes that a bookie may still write, as the bookie's own disk checker counts them. They
describe the file system that now holds the directory. For a copied directory, this is the file system of
the copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.model.columns import column, make_batch, make_schema
from auditor.model.space import DISK_BYTES
from auditor.model.states import EntryLogState, LogFileKind
from auditor.sources.bookies.availability import MAX_BATCH_ROWS
from auditor.sources.bookies.entry_logs.reader import LogContents, read_contents
from auditor.sources.bookies.parts import is_database_directory
from auditor.sources.clock import now_ms

SCHEMA = make_schema(
    ("directory", pa.string(), "the ledger directory"),
    ("path", pa.string(), "the file, or the directory if it could not be listed"),
    ("log_id", pa.int64(), "id of the log, unique within the bookie (DbLedgerStorage: within the directory)"),
    ("bytes", pa.int64(), "length of the file; null in a ledger's row"),
    ("mtime", pa.int64(), "time of the last change of the file, in ms"),
    ("version", pa.int32(), "header version: 0 or 1"),
    (
        "ledgers",
        pa.int64(),
        "number of ledgers with entries in the log; null if there is neither a ledgers map nor a scan",
    ),
    (
        "entry_bytes",
        pa.int64(),
        "bytes of entries in the log, including the 4 size bytes of each. null: there is neither a ledgers "
        "map nor a scan",
    ),
    (
        "state",
        pa.string(),
        "ok. no-map: the log has no ledgers map, because it is still written or was not closed properly. "
        "map-wrong: the map contradicts the entries, or hides ledgers from garbage collection. "
        "map-unreadable: the entries were read instead of the map. header-astray: like map-unreadable, but "
        "a server with a larger read buffer than the default misreads the log. damaged: the log contains a "
        "record that no server wrote; unreadable",
    ),
    ("reason", pa.string(), "reason for a state other than ok"),
    ("offset", pa.int64(), "byte offset of the fault in the file; null if unknown"),
    (
        "kind",
        pa.string(),
        "log. compacting: a new log that compaction has not finished. compacted: a second name of a log "
        "file, which compaction created",
    ),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null in a file's row"),
    ("ledger_id", pa.int64(), "the ledger; null in a file's row"),
    ("entries", pa.int64(), "number of entries, duplicates included; null if only the map was read"),
    ("counted", pa.string(), "source of the bytes per ledger: map or scan; null: unknown"),
    ("direct", pa.bool_(), "whether the direct entry logger wrote the log"),
    ("header_bytes", pa.int64(), "bytes of the header: 1024, or 4096 in a log of the direct entry logger"),
    ("map_bytes", pa.int64(), "bytes of the ledgers map and of other records that are not entries"),
    ("padding_bytes", pa.int64(), "bytes between records"),
    ("tail_bytes", pa.int64(), "bytes after the last whole record of a log without a map"),
    (
        "cache",
        pa.string(),
        "the log's record in the metadata cache of garbage collection: ok, wrong or unreadable; null: no "
        "record",
    ),
    ("cache_reason", pa.string(), "reason for a cache other than ok"),
    (
        "collector_scan",
        pa.string(),
        "result if garbage collection reads the entries of this log. counts: it misses records, and counts "
        "collected_bytes. may-fail: like counts, but it skips the log if Java has too little memory. fails: "
        "it skips the log. null: it misses no record",
    ),
    (
        "collected_bytes",
        pa.int64(),
        "in a ledger's row: bytes of the ledger, as garbage collection counts them (see collector_scan)",
    ),
    (
        "cached_bytes",
        pa.int64(),
        "in a ledger's row: bytes of the ledger in the metadata cache; 0: the cache lacks the ledger",
    ),
)
"""The table ``entry_logs``. A file's header, map, padding, tail and entry_bytes add up to its length."""

_LOG_NAME = re.compile(r"([0-9a-f]{1,8})\.log(?:(\.compacting)|(\.[0-9a-f]{1,8}\.compacted))?")
_MAX_LOG_ID = 2**31 - 1


class LogFile(NamedTuple):
    """An entry log in a directory, or a file that remains from the compaction of an entry log."""

    log_id: int
    name: str
    kind: LogFileKind


def is_log(name: str) -> bool:
    """Return whether a file with this name is an entry log, or a file that remains from a compaction.

    The server opens a log only by the lower-case hexadecimal digits of its id, without leading zeros.

    >>> is_log("1f.log"), is_log("1f.log.compacting"), is_log("lastId"), is_log("00001f.log")
    (True, True, False, False)
    """
    name_match = _LOG_NAME.fullmatch(name)
    if name_match is None:
        return False
    log_id = int(name_match[1], 16)
    return log_id <= _MAX_LOG_ID and name_match[1] == f"{log_id:x}"


def list_logs(directory: str) -> list[LogFile]:
    """Return the entry logs of a ledger directory, sorted by id. Raises OSError."""
    logs = []
    for name in os.listdir(f"{directory}/current"):  # noqa: PTH208 -- names only
        name_match = _LOG_NAME.fullmatch(name)
        if name_match is not None and is_log(name):
            logs.append(LogFile(int(name_match[1], 16), name, _log_kind(name_match)))
    return sorted(logs)


def _log_kind(name_match: re.Match[str]) -> LogFileKind:
    if name_match[2]:
        return LogFileKind.COMPACTING
    return LogFileKind.COMPACTED if name_match[3] else LogFileKind.LOG


def read_logs(directory: str) -> Iterator[dict[str, Any]]:
    """Yield a row of `SCHEMA` for each entry log of a ledger directory, in order of ids.

    This reads only the headers and ledgers maps of the logs.

    >>> [str(row["state"]) for row in read_logs("/no/such/directory")]
    ['unreadable']
    """
    current_path = f"{directory}/current"
    try:
        logs = list_logs(directory)
    except OSError as error:
        yield unlisted_row(directory, error)
        return
    for log in logs:
        if log.kind == LogFileKind.LOG:
            yield read_log(directory, f"{current_path}/{log.name}", log, scan=False)[0]


def unlisted_row(directory: str, error: OSError) -> dict[str, Any]:
    """Return the row of a directory that could not be listed."""
    return _empty_row(directory, f"{directory}/current", None) | _unreadable_columns(error)


def read_log(
    directory: str, path: str, log: LogFile, scan: bool = True, verify: bool = False
) -> tuple[dict[str, Any], LogContents]:
    """Return the row of a log file, and its contents. For ``scan`` and ``verify``, see `read_contents`."""
    row = _empty_row(directory, path, log.log_id) | {"kind": log.kind}
    try:
        contents = read_contents(path, scan, verify)
    except OSError as error:
        return row | _unreadable_columns(error), LogContents()
    row |= {"bytes": contents.size, "mtime": contents.mtime}
    if contents.header is not None:
        row |= {"version": contents.header.version, "direct": contents.is_direct}
    row |= {
        "state": state_of(contents),
        "counted": contents.bytes_source,
        "collector_scan": contents.collector_scan,
    }
    row |= {
        name: getattr(contents, name) for name in ("header_bytes", "map_bytes", "padding_bytes", "tail_bytes")
    }
    if contents.bytes_source is not None:
        row |= {"ledgers": len(contents.ledger_ids), "entry_bytes": contents.entry_bytes}
    if len(contents.entries):
        row["entries"] = int(contents.entries.sum())
    damage = contents.damage or contents.map_damage
    if damage is not None:
        row |= {"reason": damage.reason, "offset": damage.offset}
    return row, contents


def ledger_batches(
    row: dict[str, Any], contents: LogContents, cached_bytes: Mapping[int, int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield one row of `SCHEMA` for each ledger of a log.

    Args:
        row: The row of the log itself.
        contents: The contents of the log.
        cached_bytes: The bytes of each ledger in the garbage collector's metadata cache, by ledger id. None
            if the log is not in the cache.

    Yields:
        The rows in batches. In a damaged log, the garbage collector may count bytes of a ledger of which the
        program finds no entry. The ``entry_bytes`` of such a ledger are 0.
    """
    collector_only_ids = sorted(contents.collector_bytes.keys() - set(contents.ledger_ids.tolist()))
    log_columns = ("directory", "path", "log_id", "mtime", "state", "kind", "counted", "collector_scan")
    for first_row in range(0, len(contents.ledger_ids), MAX_BATCH_ROWS):
        row_slice = slice(first_row, first_row + MAX_BATCH_ROWS)
        ledger_ids = contents.ledger_ids[row_slice]
        columns = {name: row[name] for name in log_columns} | {
            "scope_id": contents.scope_ids[row_slice],
            "ledger_id": ledger_ids,
            "entry_bytes": contents.bytes[row_slice],
        }
        if len(contents.entries):
            columns["entries"] = contents.entries[row_slice]
        if cached_bytes is not None:
            columns["cached_bytes"] = [cached_bytes.get(ledger_id, 0) for ledger_id in ledger_ids.tolist()]
        if contents.collector_scan is not None:
            columns["collected_bytes"] = [
                contents.collector_bytes.get(ledger_id, 0) for ledger_id in ledger_ids.tolist()
            ]
        yield make_batch(SCHEMA, len(ledger_ids), columns)
    if collector_only_ids:
        columns = {name: row[name] for name in log_columns} | {
            "scope_id": [0] * len(collector_only_ids),
            "ledger_id": collector_only_ids,
            "entry_bytes": [0] * len(collector_only_ids),
            "collected_bytes": [contents.collector_bytes[ledger_id] for ledger_id in collector_only_ids],
        }
        yield make_batch(SCHEMA, len(collector_only_ids), columns)


def state_of(contents: LogContents) -> str:
    """Return the state of a log from its contents."""
    if contents.header is None or (contents.is_map_unreadable and contents.bytes_source is None):
        return EntryLogState.UNREADABLE
    if contents.has_negative_offset:
        return EntryLogState.ASTRAY
    if contents.map_damage is not None:
        return EntryLogState.MAP_UNREADABLE if contents.is_map_unreadable else EntryLogState.MAP_WRONG
    if contents.damage is not None:
        return EntryLogState.DAMAGED
    return EntryLogState.OK if contents.header.has_map else EntryLogState.NO_MAP


def _empty_row(directory: str, path: str, log_id: int | None) -> dict[str, Any]:
    return {**dict.fromkeys(SCHEMA.names), "directory": directory, "path": path, "log_id": log_id}


def _unreadable_columns(error: OSError) -> dict[str, Any]:
    return {"state": EntryLogState.UNREADABLE, "reason": error.strerror or str(error)}


SIZES = make_schema(
    ("directory", pa.string(), "journal, ledger or index directory"),
    ("journal_bytes", pa.int64(), "bytes of the directory's journal files"),
    ("index_bytes", pa.int64(), "bytes of the directory's .idx files"),
    ("rocksdb_bytes", pa.int64(), "bytes of the directory's RocksDB databases (DbLedgerStorage)"),
    ("other_bytes", pa.int64(), "bytes of all other files except entry logs"),
    (
        "device",
        pa.int64(),
        "number of the directory's file system; directories of one bookie with the same number share it",
    ),
    ("capacity_bytes", pa.int64(), "size of the file system, in bytes; null: not read"),
    ("free_bytes", pa.int64(), "bytes that the bookie may still write on the file system; null: not read"),
    ("seen", pa.int64(), "time when the sizes were read, in ms"),
    ("reason", pa.string(), "reason why some files could not be read and are missing from the sizes"),
)
DISKS = pa.schema(
    [column("bookie_id", pa.string(), "bookie that the directory belongs to; null: no bookie"), *SIZES]
)
"""The table ``disks``, with one row per directory."""


def sizes_of(directory: str) -> dict[str, Any]:
    """Return the row of `SIZES` for one directory. This lists files but opens none.

    >>> sizes_of("/no/such/directory")["reason"]
    'No such file or directory'
    """
    disk_row: dict[str, Any] = dict.fromkeys(SIZES.names)
    disk_row |= {"directory": directory, "seen": now_ms()}
    try:
        file_system_stats = os.statvfs(directory)
        disk_row |= {
            "device": os.stat(directory).st_dev,  # noqa: PTH116 -- a name only
            "capacity_bytes": file_system_stats.f_blocks * file_system_stats.f_frsize,
            "free_bytes": file_system_stats.f_bavail * file_system_stats.f_frsize,
        }
    except OSError as error:
        return disk_row | {"reason": error.strerror or str(error)}
    list_errors: list[str] = []
    disk_row |= dict.fromkeys((kind.column for kind in DISK_BYTES), 0)
    for column_name, file_bytes in _file_sizes(f"{directory}/current", "", list_errors):
        disk_row[column_name] += file_bytes
    return disk_row | {"reason": next(iter(list_errors), None)}


def read_sizes(directory: str) -> Iterator[pa.RecordBatch]:
    """Yield the row that `sizes_of` returns.

    If the directory is not visible to the task, the row contains the reason.
    """
    yield pa.RecordBatch.from_pylist([sizes_of(directory)], schema=SIZES)


def _file_sizes(path: str, relative_directory: str, list_errors: list[str]) -> Iterator[tuple[str, int]]:
    """Yield (column, size in bytes) for each file below ``path`` except entry logs.

    The column is the column of `SIZES` that counts the file. Skip files that disappeared after they were
    listed. Append other errors to ``list_errors``.
    """
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        yield from _file_sizes(entry.path, f"{relative_directory}{entry.name}/", list_errors)
                    elif (
                        entry.is_file()
                        and (column_name := _size_column(relative_directory, entry.name)) is not None
                    ):
                        yield column_name, entry.stat().st_size
                except FileNotFoundError:
                    continue
    except OSError as error:
        list_errors.append(f"{path}: {error.strerror or error}")


def _size_column(relative_directory: str, name: str) -> str | None:
    """Return the column of `SIZES` that counts a file with this directory and name. None: an entry log."""
    if is_database_directory(relative_directory.partition("/")[0]):
        return "rocksdb_bytes"
    if name.endswith(".idx"):
        return "index_bytes"
    if not relative_directory and name.endswith(".txn"):
        return "journal_bytes"
    return None if not relative_directory and is_log(name) else "other_bytes"
