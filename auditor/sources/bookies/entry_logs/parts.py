"""The division of entry logs into tasks: each task reads some logs of one ledger directory.

The driver lists nothing. A task lists its directory and takes every ``slice_count``-th log, so that several
tasks share a directory of thousands of logs.

A garbage collector with gcEntryLogMetadataCacheEnabled reads a log's ledgers map once. It keeps the map in
the database ``metadata-cache`` (`auditor.codecs.bookie.entry_log`) and uses that copy from then on. This
module compares the cached map with the log. The cache lacks ledgers that the collector dropped. Everything
else in the cache must agree with the log. A log that is not in the cache proves nothing: the collector has
not read it yet.
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
from auditor.model.columns import column, rows_of_columns
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

NAME = "metadata-cache"


class CachedLog(NamedTuple):
    """The cache's record of one log.

    ``ledgers`` has bytes by ledger id; None if the log is not in the cache.
    """

    state: CacheState | None
    reason: str | None = None
    ledgers: Mapping[int, int] | None = None


NOT_CACHED = CachedLog(None)


class MetadataCache:
    """The metadata cache of one directory.

    If the cache cannot be opened, every log in it is ``unreadable``.
    """

    def __init__(self, path: str, database: PyRocksDB | None, trouble: str | None = None) -> None:
        self._path = path
        self._database = database
        self._trouble = trouble

    def of(self, log_id: int, contents: LogContents) -> CachedLog:
        """Return the cache's record of a log, compared with the ``contents`` of the log."""
        if self._trouble is not None:
            return CachedLog(CacheState.UNREADABLE, self._trouble)
        if self._database is None:
            return NOT_CACHED
        try:
            value = look_up(self._database, self._path, log_id.to_bytes(METADATA_KEY_BYTES, "big"))
            if value is None:
                return NOT_CACHED
            cached = decode_metadata(value)
        except UnreadError as error:
            return CachedLog(CacheState.UNREADABLE, f"{NAME}: {error.reason}")
        except DecodeError as damage:
            return CachedLog(CacheState.UNREADABLE, f"{NAME}: {damage}")
        if contents.counted is None:
            return NOT_CACHED
        ledgers = dict(cached.ledgers.tolist())
        reason = contradiction(log_id, cached, ledgers, contents)
        return CachedLog(CacheState.WRONG if reason else CacheState.OK, reason, ledgers)


@contextmanager
def open_cache(directory: str) -> Iterator[MetadataCache]:
    """Open the metadata cache in a ledger directory. Yields an empty cache if there is none."""
    path = Path(directory, "current", NAME)
    if not path.is_dir():
        yield MetadataCache(str(path), None)
        return
    with ExitStack() as stack:
        try:
            cache = MetadataCache(str(path), stack.enter_context(open_rocksdb(str(path))))
        except UnreadError as error:
            cache = MetadataCache(str(path), None, f"{NAME}: {error.reason}")
        yield cache


def contradiction(
    log_id: int, cached: EntryLogMetadata, ledgers: Mapping[int, int], contents: LogContents
) -> str | None:
    """Return the first contradiction between a log and its cached metadata. None if they agree.

    A ledger of the log may be missing in the cache: the collector may have dropped it.
    """
    if cached.log_id != log_id:
        return f"{NAME}: the record of this log has log id {cached.log_id}"
    if contents.scope_ids.any():
        return None  # no server caches ledgers of other scopes yet
    if cached.total != contents.entry_bytes:
        return f"{NAME}: {cached.total} bytes of entries; the log has {contents.entry_bytes}"
    ledger_bytes = dict(zip(contents.ledger_ids.tolist(), contents.bytes.tolist(), strict=True))
    for ledger, size in sorted(ledgers.items()):
        if ledger_bytes.get(ledger) != size:
            return f"{NAME}: {size} bytes of ledger {ledger}; the log has {ledger_bytes.get(ledger, 0)}"
    if cached.remaining != sum(ledgers.values()):
        return f"{NAME}: {cached.remaining} bytes remain, but its ledgers add up to {sum(ledgers.values())}"
    return None


MAX_VERIFIED_LOGS = 64
"""Interval of logs whose entries are read although they have a ledgers map: one log in 64, to check the map.

Parts with ``verify`` read the entries of all logs.
"""

MAX_VERIFIED_BYTES = 4 << 30
"""Limit for the bytes of logs that one part reads to check their maps. 100,000 logs of 1 GB would take hours.

The last log may exceed the limit.
"""

OWNER_COLUMNS = (
    column("bookie_id", pa.string(), "bookie that the directory belongs to; null: none"),
    column(
        "logger",
        pa.int32(),
        "number of the entry logger that wrote the log: on DbLedgerStorage the position of the ledger "
        "directory, otherwise 0; null: position not known",
    ),
)
ENTRY_LOGS = pa.schema([*OWNER_COLUMNS, *SCHEMA])
"""The table ``entry_logs`` of a run."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Every ``slice_count``-th log of a ledger directory, from number ``number`` on.

    Attributes:
        bookie_id: The bookie that the directory belongs to. None if it belongs to no bookie.
        logger: The number of the entry logger that named the logs. None if it is not known.
        version_sha256: The SHA-256 of VERSION as the driver read it.
        verify: Whether to compare the ledgers maps of all logs with the entries, not only of one log in
            `MAX_VERIFIED_LOGS`.
        cache: The directory with the collector's metadata cache. None if it is the ledger directory itself.
    """

    bookie_id: str | None
    logger: int | None
    directory: str
    version_sha256: str | None
    number: int = 0
    slice_count: int = 1
    verify: bool = False
    cache: str | None = None


def slice_parts(parts: Sequence[LogPart], part_count: int) -> list[LogPart]:
    """Divide each part, which is a whole directory, so that there are about ``part_count`` parts in all.

    >>> [part.number for part in slice_parts([LogPart("bk1", 0, "/l0", None)], 3)]
    [0, 1, 2]
    """
    slice_count = max(1, -(-part_count // max(1, len(parts))))
    return [
        replace(part, number=number, slice_count=slice_count)
        for part in parts
        for number in range(slice_count)
    ]


def read_logs_of(part: LogPart) -> Iterator[pa.RecordBatch]:
    """Yield rows of `ENTRY_LOGS` for one part: for each log a row of the log, then the rows of its ledgers.

    It needs no Spark.
    """
    directory = IndexDirectory(part.directory, part.version_sha256)
    try:
        logs = list_logs(part.directory)
    except OSError as error:
        yield _row_of(part, unlisted_row(part.directory, error))
        return
    for version_change in check_versions([directory]):
        yield _row_of(part, unlisted_row(part.directory, OSError(version_change.reason)))
        return
    with open_cache(part.cache or part.directory) as cache:
        yield from _read_part(part, logs[part.number :: part.slice_count], cache)


def _read_part(part: LogPart, logs: Sequence[LogFile], cache: MetadataCache) -> Iterator[pa.RecordBatch]:
    remaining_bytes = MAX_VERIFIED_BYTES
    for log in logs:
        sampled = log.log_id % MAX_VERIFIED_LOGS == 0 and remaining_bytes > 0
        verify = part.verify or sampled
        row, contents = read_log(
            part.directory, f"{part.directory}/current/{log.name}", log, scan=True, verify=verify
        )
        remaining_bytes -= contents.size if sampled else 0
        cached = cache.of(log.log_id, contents) if log.kind == LogFileKind.LOG else NOT_CACHED
        yield _row_of(part, row | {"cache": cached.state, "cache_reason": cached.reason})
        if log.kind == LogFileKind.LOG:
            for batch in ledger_batches(row, contents, cached.ledgers):
                columns = dict(zip(SCHEMA.names, batch.columns, strict=True))
                owner_columns = {"bookie_id": part.bookie_id, "logger": part.logger}
                yield rows_of_columns(ENTRY_LOGS, batch.num_rows, owner_columns | columns)


def _row_of(part: LogPart, row: dict[str, object]) -> pa.RecordBatch:
    owner_columns = {"bookie_id": part.bookie_id, "logger": part.logger}
    return rows_of_columns(ENTRY_LOGS, 1, owner_columns | row)
