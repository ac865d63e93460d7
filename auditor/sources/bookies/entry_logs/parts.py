"""The division of entry logs into tasks. Each task reads some logs of one ledger directory.

The driver lists no logs. Each task lists its directory and reads every ``slice_count``-th log. So several
tasks can share a directory with thousands of logs.

A garbage collector with gcEntryLogMetadataCacheEnabled reads the ledgers map of a log only once. It stores
a copy in the database ``metadata-cache`` (`auditor.codecs.bookie.entry_log`) and uses only this copy later.
This module compares the copy with the log. The copy may lack ledgers that the collector has dropped since
then. All other values in the copy must agree with the log. A log without a copy is not a fault, because the
collector has not read that log yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from auditor.codecs.bookie.entry_log import METADATA_KEY_BYTES, EntryLogMetadata, decode_metadata
from auditor.errors import DecodeError, UnreadError
from auditor.model.columns import column, make_batch
from auditor.model.states import CacheState, LogFileKind
from auditor.sources.bookies.entry_logs.reader import LogContents
from auditor.sources.bookies.entry_logs.rows import (
    SCHEMA,
    LogFile,
    ledger_batches,
    list_logs,
    read_log,
    unlisted_row,
)
from auditor.sources.bookies.index_files.listing import check_versions
from auditor.sources.bookies.parts import IndexDirectory
from auditor.sources.bookies.rocksdb.scan import look_up, open_rocksdb

if TYPE_CHECKING:
    from pyrex import PyRocksDB

CACHE_NAME = "metadata-cache"


class CachedLog(NamedTuple):
    """A log's record in the garbage collector's metadata cache, compared with the log itself.

    ``state`` is the result of the comparison. It is None if the log is not in the cache. ``bytes_by_ledger``
    maps each ledger id to the ledger's bytes in the record. It is None if the log is not in the cache or its
    record cannot be read.
    """

    state: CacheState | None
    reason: str | None = None
    bytes_by_ledger: Mapping[int, int] | None = None


NO_CACHE_RECORD = CachedLog(None)
"""The result for a log that is not in the cache, or that cannot be compared with it."""


class MetadataCache:
    """The garbage collector's database ``metadata-cache`` of one directory, with copies of ledgers maps.

    If the cache cannot be opened, the record of every log has the state ``unreadable``.
    """

    def __init__(self, path: str, database: PyRocksDB | None, open_error: str | None = None) -> None:
        self._path = path
        self._database = database
        self._open_error = open_error

    def check_record(self, log_id: int, contents: LogContents) -> CachedLog:
        """Compare the cache's record of a log with the ``contents`` of the log, and return the result."""
        if self._open_error is not None:
            return CachedLog(CacheState.UNREADABLE, self._open_error)
        if self._database is None:
            return NO_CACHE_RECORD
        try:
            record_bytes = look_up(self._database, self._path, log_id.to_bytes(METADATA_KEY_BYTES, "big"))
            if record_bytes is None:
                return NO_CACHE_RECORD
            metadata = decode_metadata(record_bytes)
        except UnreadError as error:
            return CachedLog(CacheState.UNREADABLE, f"{CACHE_NAME}: {error.reason}")
        except DecodeError as damage:
            return CachedLog(CacheState.UNREADABLE, f"{CACHE_NAME}: {damage}")
        if contents.bytes_source is None:
            return NO_CACHE_RECORD
        ledger_bytes = dict(metadata.ledgers.tolist())
        reason = find_contradiction(log_id, metadata, ledger_bytes, contents)
        return CachedLog(CacheState.WRONG if reason else CacheState.OK, reason, ledger_bytes)


@contextmanager
def open_cache(directory: str) -> Iterator[MetadataCache]:
    """Open the metadata cache in a ledger directory. If the directory has no cache, yield an empty one."""
    path = Path(directory, "current", CACHE_NAME)
    if not path.is_dir():
        yield MetadataCache(str(path), None)
        return
    with ExitStack() as exit_stack:
        try:
            cache = MetadataCache(str(path), exit_stack.enter_context(open_rocksdb(str(path))))
        except UnreadError as error:
            cache = MetadataCache(str(path), None, f"{CACHE_NAME}: {error.reason}")
        yield cache


def find_contradiction(
    log_id: int, metadata: EntryLogMetadata, cached_bytes: Mapping[int, int], contents: LogContents
) -> str | None:
    """Describe the first contradiction between a log and its cached metadata. Return None if they agree.

    A ledger of the log may be missing in the cache, because the collector may have dropped it.
    """
    if metadata.log_id != log_id:
        return f"{CACHE_NAME}: the record for this log has log id {metadata.log_id}"
    if contents.scope_ids.any():
        return None  # no server caches ledgers of other scopes yet
    if metadata.total != contents.entry_bytes:
        return f"{CACHE_NAME}: lists {metadata.total} bytes of entries; the log has {contents.entry_bytes}"
    ledger_bytes = dict(zip(contents.ledger_ids.tolist(), contents.bytes.tolist(), strict=True))
    for ledger_id, cached_size in sorted(cached_bytes.items()):
        if ledger_bytes.get(ledger_id) != cached_size:
            log_size = ledger_bytes.get(ledger_id, 0)
            return f"{CACHE_NAME}: lists {cached_size} bytes for ledger {ledger_id}; the log has {log_size}"
    if metadata.remaining != sum(cached_bytes.values()):
        cached_total = sum(cached_bytes.values())
        return f"{CACHE_NAME}: {metadata.remaining} bytes remain, but its ledgers have {cached_total} bytes"
    return None


VERIFIED_LOG_INTERVAL = 64
"""The program reads the entries of one log in this many, even with a ledgers map, to check the map.

A part with ``verify`` reads the entries of all its logs.
"""

MAX_VERIFIED_BYTES = 4 << 30
"""Limit for the bytes of logs that one part reads to check their maps. 100,000 logs of 1 GB would take hours.

The last log may exceed the limit.
"""

OWNER_COLUMNS = (
    column("bookie_id", pa.string(), "bookie that the directory belongs to; null: no bookie"),
    column(
        "logger",
        pa.int32(),
        "number of the entry logger that wrote the log: on DbLedgerStorage the position of the ledger "
        "directory, otherwise 0. null: the position is unknown",
    ),
)
ENTRY_LOGS = pa.schema([*OWNER_COLUMNS, *SCHEMA])
"""The table ``entry_logs`` of a run."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Every ``slice_count``-th log of a ledger directory, starting with log number ``slice_number``.

    Attributes:
        bookie_id: The bookie that the directory belongs to. None if it belongs to no bookie.
        logger: The number of the entry logger that wrote the logs. None if it is unknown.
        version_sha256: The SHA-256 of the VERSION file when the driver read it.
        verify: Whether to compare the ledgers map of every log with the log's entries. If False, only one
            log in `VERIFIED_LOG_INTERVAL` is compared.
        cache: The directory that contains the collector's metadata cache. None if it is the ledger
            directory itself.
    """

    bookie_id: str | None
    logger: int | None
    directory: str
    version_sha256: str | None
    slice_number: int = 0
    slice_count: int = 1
    verify: bool = False
    cache: str | None = None


def slice_parts(parts: Sequence[LogPart], part_count: int) -> list[LogPart]:
    """Divide the given parts into about ``part_count`` parts in total. Each given part is a whole directory.

    >>> [part.slice_number for part in slice_parts([LogPart("bk1", 0, "/l0", None)], 3)]
    [0, 1, 2]
    """
    slice_count = max(1, -(-part_count // max(1, len(parts))))
    return [
        replace(part, slice_number=slice_number, slice_count=slice_count)
        for part in parts
        for slice_number in range(slice_count)
    ]


def read_logs_of(part: LogPart) -> Iterator[pa.RecordBatch]:
    """Yield rows of `ENTRY_LOGS` for one part: some logs of one ledger directory. This needs no Spark.

    For each log, it yields a row of the log itself and then the rows of the log's ledgers.
    """
    directory = IndexDirectory(part.directory, part.version_sha256)
    try:
        logs = list_logs(part.directory)
    except OSError as error:
        yield _add_owner(part, unlisted_row(part.directory, error))
        return
    for version_change in check_versions([directory]):
        yield _add_owner(part, unlisted_row(part.directory, OSError(version_change.reason)))
        return
    with open_cache(part.cache or part.directory) as cache:
        yield from _read_slice(part, logs[part.slice_number :: part.slice_count], cache)


def _read_slice(part: LogPart, logs: Sequence[LogFile], cache: MetadataCache) -> Iterator[pa.RecordBatch]:
    remaining_bytes = MAX_VERIFIED_BYTES
    for log in logs:
        is_sampled = log.log_id % VERIFIED_LOG_INTERVAL == 0 and remaining_bytes > 0
        verify = part.verify or is_sampled
        row, contents = read_log(
            part.directory, f"{part.directory}/current/{log.name}", log, scan=True, verify=verify
        )
        remaining_bytes -= contents.size if is_sampled else 0
        cached_log = (
            cache.check_record(log.log_id, contents) if log.kind == LogFileKind.LOG else NO_CACHE_RECORD
        )
        yield _add_owner(part, row | {"cache": cached_log.state, "cache_reason": cached_log.reason})
        if log.kind == LogFileKind.LOG:
            for batch in ledger_batches(row, contents, cached_log.bytes_by_ledger):
                columns = dict(zip(SCHEMA.names, batch.columns, strict=True))
                owner_columns = {"bookie_id": part.bookie_id, "logger": part.logger}
                yield make_batch(ENTRY_LOGS, batch.num_rows, owner_columns | columns)


def _add_owner(part: LogPart, row: dict[str, object]) -> pa.RecordBatch:
    owner_columns = {"bookie_id": part.bookie_id, "logger": part.logger}
    return make_batch(ENTRY_LOGS, 1, owner_columns | row)
