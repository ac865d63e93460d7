"""What a collector remembers of entry logs, held to the logs: DbLedgerStorage's ``metadata-cache``.

A collector with gcEntryLogMetadataCacheEnabled reads a log's map once, keeps it in this database
(`auditor.codecs.bookie.entry_log_metadata`), and goes by that from then on. Ledgers that it has dropped are
no longer in it; all that is in it must be what the log has. A log that is not in it says nothing: the
collector did not meet it yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from auditor.codecs.bookie.entry_log_metadata import KEY_BYTES, EntryLogMetadata, decode
from auditor.errors import DecodeError, UnreadError
from auditor.model.states import CacheState
from auditor.sources.bookies.entry_logs.reader import LogContents
from auditor.sources.bookies.rocksdb.scan import look_up, open_rocksdb

if TYPE_CHECKING:
    from pyrex import PyRocksDB

NAME = "metadata-cache"


class CachedLog(NamedTuple):
    """What the cache has of one log; ``ledgers`` are bytes by id, None where the log is not in it."""

    state: CacheState | None
    reason: str | None = None
    ledgers: Mapping[int, int] | None = None


NOT_CACHED = CachedLog(None)


class MetadataCache:
    """The cache of one directory; one that cannot be opened says so of every log."""

    def __init__(self, path: str, database: PyRocksDB | None, trouble: str | None = None) -> None:
        self._path = path
        self._database = database
        self._trouble = trouble

    def of(self, log_id: int, found: LogContents) -> CachedLog:
        """What the cache has of a log, held to what was ``found`` in it."""
        if self._trouble is not None:
            return CachedLog(CacheState.UNREADABLE, self._trouble)
        if self._database is None:
            return NOT_CACHED
        try:
            value = look_up(self._database, self._path, log_id.to_bytes(KEY_BYTES, "big"))
            if value is None:
                return NOT_CACHED
            cached = decode(value)
        except UnreadError as error:
            return CachedLog(CacheState.UNREADABLE, f"{NAME}: {error.reason}")
        except DecodeError as damage:
            return CachedLog(CacheState.UNREADABLE, f"{NAME}: {damage}")
        if found.counted is None:
            return NOT_CACHED
        ledgers = dict(cached.ledgers.tolist())
        reason = contradiction(log_id, cached, ledgers, found)
        return CachedLog(CacheState.WRONG if reason else CacheState.OK, reason, ledgers)


@contextmanager
def open_cache(directory: str) -> Iterator[MetadataCache]:
    """The cache that lies in a ledger directory, or one without a log where none does."""
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
    log_id: int, cached: EntryLogMetadata, ledgers: Mapping[int, int], found: LogContents
) -> str | None:
    """What a log's cached metadata says and the log does not; None where they agree.

    That a ledger of the log is lacking is no contradiction: the collector may have dropped it.
    """
    if cached.log_id != log_id:
        return f"{NAME} has log {cached.log_id} under this log's id"
    if found.scope_ids.any():
        return None  # no server keeps ledgers of other scopes there yet
    if cached.total != found.entry_bytes:
        return f"{NAME} has {cached.total} bytes of entries, and the log {found.entry_bytes}"
    there = dict(zip(found.ledger_ids.tolist(), found.bytes.tolist(), strict=True))
    for ledger, size in sorted(ledgers.items()):
        if there.get(ledger) != size:
            return f"{NAME} has {size} bytes of ledger {ledger}, and the log {there.get(ledger, 0)}"
    if cached.remaining != sum(ledgers.values()):
        return (
            f"{NAME} says that {cached.remaining} bytes remain, and its ledgers are {sum(ledgers.values())}"
        )
    return None
