"""Rows of the table ``availability`` from one part of the index.

The rows describe index files, which several threads can read, and paths that were not read. A batch has up
to `MAX_BATCH_ROWS` rows, the size at which a Spark data source is fastest.

For files on a disk, several threads are much faster than one, because they wait at the same time. They also
ask the operating system to fetch files ahead. Measured with 20,000 files that were not in the page cache:

- `cat`: 2.5 s
- four threads: 1.2 s
- four threads that fetch ahead: 0.8 s
- one thread that fetches ahead: 0.7 s

For files in the page cache, four threads take one and a half times as long as one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.codecs.availability.groups import GROUP, offsets_of
from auditor.codecs.byte_column import binary_array
from auditor.model.columns import make_batch
from auditor.model.states import IndexState
from auditor.sources.bookies.availability import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    SCHEMA,
    IndexBatch,
    IndexFiles,
)
from auditor.sources.bookies.index_files.listing import SkippedPath, check_versions, list_part
from auditor.sources.bookies.index_files.reader import BATCH_UNITS, IndexReader
from auditor.sources.bookies.parts import ROCKSDB, IndexPart
from auditor.sources.bookies.rocksdb.rows import read_databases
from auditor.sources.regular_file import visible_path


class RowBuilder:
    """A buffer that collects the rows of one bookie and builds record batches from them.

    >>> rows = RowBuilder("bk1", "idx")
    >>> rows.add_skipped([SkippedPath(None, "/l0/current/notes", "stray", "is nobody's")])
    >>> rows.take_batch()["state"].to_pylist(), rows.row_count
    (['stray'], 0)
    """

    def __init__(self, bookie_id: str, storage: str) -> None:
        self._bookie_id = bookie_id
        self._storage = storage
        self._clear()

    def _clear(self) -> None:
        self.row_count = 0
        self._group_bytes = 0
        self._file_batches: list[IndexBatch] = []
        self._skipped_paths: list[SkippedPath] = []

    def add_files(self, batch: IndexBatch) -> None:
        """Add one row per file."""
        self.row_count += len(batch.paths)
        self._group_bytes += len(batch.groups.first) * GROUP.itemsize
        self._file_batches.append(batch)

    def add_skipped(self, skipped_paths: list[SkippedPath]) -> None:
        """Add one row per path that was not read."""
        self.row_count += len(skipped_paths)
        self._skipped_paths += skipped_paths

    def take_when_full(self, skipped_paths: list[SkippedPath]) -> Iterator[pa.RecordBatch]:
        """Move all paths from ``skipped_paths`` to the buffer. Yield a batch whenever the buffer is full."""
        while skipped_paths or self._is_full:
            if self._is_full:
                yield self.take_batch()
            self.add_skipped(skipped_paths[:BATCH_UNITS])
            del skipped_paths[:BATCH_UNITS]

    @property
    def _is_full(self) -> bool:
        return self.row_count + BATCH_UNITS > MAX_BATCH_ROWS or self._group_bytes > MAX_BATCH_BYTES

    def take_batch(self) -> pa.RecordBatch:
        """Return all rows as one record batch, and empty the buffer."""
        file_and_path_batches = [
            make_batch(
                SCHEMA,
                len(columns["path"]),
                {"bookie_id": self._bookie_id, "storage": self._storage, "reused": False, **columns},
            )
            for columns in (
                *([_file_columns(self._file_batches)] if self._file_batches else []),
                *([_skipped_path_columns(self._skipped_paths)] if self._skipped_paths else []),
            )
        ]
        self._clear()
        return pa.concat_batches(file_and_path_batches)


def _file_columns(batches: list[IndexBatch]) -> dict[str, Any]:
    path_bytes = [path for batch in batches for path in batch.paths]
    paths = binary_array(
        b"".join(path_bytes), offsets_of(np.array([*map(len, path_bytes)], np.int64)), pa.string()
    )
    paths.validate(full=True)  # raises for a path that is not UTF-8, as an Arrow string must be
    state_columns: dict[str, Any] = {"state": IndexState.OK}
    if any(batch.faults for batch in batches):
        faults = [batch.faults.get(row, _NO_FAULT) for batch in batches for row in range(len(batch.paths))]
        columns = map(list, zip(*faults, strict=True))
        state_columns = dict(zip(("state", "reason", "offset"), columns, strict=True))
    groups = np.concatenate([np.diff(batch.groups.offsets) for batch in batches]) * GROUP.itemsize
    mtimes = np.concatenate([batch.mtimes for batch in batches])
    return {
        "scope_id": np.concatenate([batch.scope_ids for batch in batches]),
        "ledger_id": np.concatenate([batch.ledger_ids for batch in batches]),
        "groups": binary_array(b"".join(batch.groups.tobytes() for batch in batches), offsets_of(groups)),
        **state_columns,
        "path": paths,
        "page_bytes": np.concatenate([batch.page_bytes for batch in batches]),
        "mtime": pa.array(mtimes, mask=mtimes < 0),
        "stamp": pa.array(
            np.concatenate([batch.stamps.hashes for batch in batches]),
            mask=~np.concatenate([batch.stamps.is_valid for batch in batches]),
        ),
    }


def _skipped_path_columns(skipped_paths: list[SkippedPath]) -> dict[str, Any]:
    return {
        "scope_id": [
            None if skipped_path.ledger_id is None else skipped_path.scope_id
            for skipped_path in skipped_paths
        ],
        "ledger_id": [skipped_path.ledger_id for skipped_path in skipped_paths],
        "groups": b"",
        "state": [skipped_path.state for skipped_path in skipped_paths],
        "reason": [skipped_path.reason for skipped_path in skipped_paths],
        "offset": [skipped_path.offset for skipped_path in skipped_paths],
        "path": [visible_path(skipped_path.path) for skipped_path in skipped_paths],
    }


_NO_FAULT = (IndexState.OK, None, None)


def read_files(file_groups: Iterable[IndexFiles], threads: int) -> Iterator[IndexBatch]:
    """Read groups of index files, and yield their batches in the given order.

    At most two groups per thread are in progress at the same time.
    """
    if threads <= 1:
        yield from IndexReader().read(file_groups)
        return
    thread_storage = threading.local()

    def read(files: IndexFiles) -> list[IndexBatch]:
        if not hasattr(thread_storage, "reader"):
            thread_storage.reader = IndexReader(should_prefetch=True)
        return list(thread_storage.reader.read([files]))

    pending_batches: deque[Future[list[IndexBatch]]] = deque()
    with ThreadPoolExecutor(threads) as thread_pool:
        for files in file_groups:
            pending_batches.append(thread_pool.submit(read, files))
            if len(pending_batches) >= 2 * threads:
                yield from pending_batches.popleft().result()
        while pending_batches:
            yield from pending_batches.popleft().result()


__all__ = ["SCHEMA", "read_listed", "read_part"]


def read_part(part: IndexPart) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the index files or databases in one part of the index, the work of one task.

    This function needs no Spark, because ``bkaudit collect`` also uses it.
    """
    if part.storage_kind != ROCKSDB:
        yield from read_listed(part, list_part(part))
        return
    changed_paths = list(check_versions(part.directories))
    skipped_paths = list(changed_paths)
    for directory in part.directories:
        yield from read_databases(part.bookie_id, directory, skipped_paths)
    yield from _take_last_rows(
        part, RowBuilder(part.bookie_id, part.storage_kind), skipped_paths, bool(changed_paths)
    )


def read_listed(part: IndexPart, listings: Iterable[IndexFiles | SkippedPath]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part's listed files, and a row for each listed path that is not read."""
    rows = RowBuilder(part.bookie_id, part.storage_kind)
    changed_paths = list(check_versions(part.directories))
    skipped_paths = list(changed_paths)
    for batch in read_files(_files(listings, skipped_paths), part.threads):
        rows.add_files(batch)
        yield from rows.take_when_full(skipped_paths)
    yield from _take_last_rows(part, rows, skipped_paths, bool(changed_paths))


def _take_last_rows(
    part: IndexPart, rows: RowBuilder, skipped_paths: list[SkippedPath], version_changed: bool
) -> Iterator[pa.RecordBatch]:
    """Check the VERSION files of a part's directories again, and yield the last rows of the part.

    ``version_changed`` says that a VERSION file had already changed before the part was read. In that case,
    skip the check.
    """
    if not version_changed:
        # A disk that was unmounted during the reading would look like one with fewer ledgers.
        skipped_paths.extend(check_versions(part.directories))
    yield from rows.take_when_full(skipped_paths)
    if rows.row_count:
        yield rows.take_batch()


def _files(
    listings: Iterable[IndexFiles | SkippedPath], skipped_paths: list[SkippedPath]
) -> Iterator[IndexFiles]:
    """Yield the groups of files to read. Append all other listed paths to ``skipped_paths``."""
    for listing in listings:
        if isinstance(listing, IndexFiles):
            yield listing
        else:
            skipped_paths.append(listing)
