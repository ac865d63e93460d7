"""What one part of the index says, as rows: the table ``availability``.

Rows come in record batches of up to `ROWS` rows, the size at which a Spark data source is fastest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.groups import GROUP
from auditor.sources.index_batch import IndexBatch, IndexFile
from auditor.sources.index_columns import MAX_BATCH_BYTES, ROWS, SCHEMA
from auditor.sources.index_listing import Passed, check_versions, list_part
from auditor.sources.index_parts import ROCKSDB, IndexPart
from auditor.sources.index_reader import BATCH_FILES
from auditor.sources.index_threads import read_files
from auditor.sources.rocksdb_rows import read_databases

__all__ = ["SCHEMA", "read_part"]


def read_part(part: IndexPart) -> Iterator[pa.RecordBatch]:
    """Read what one part covers. Needs no Spark: this is also how a table is collected beside a bookie."""
    rows = _Rows(part.bookie_id, part.storage)
    changed = list(check_versions(part.directories))
    passed = list(changed)
    if part.storage == ROCKSDB:
        for directory in part.directories:
            yield from read_databases(part.bookie_id, directory, passed)
    else:
        for batch in read_files(_files(part, passed), part.threads, part.want_mtime):
            rows.add_files(batch)
            yield from rows.take_when_full(passed)
    if not changed:
        # A disk that went away while it was read looks like a disk with fewer ledgers.
        passed.extend(check_versions(part.directories))
    yield from rows.take_when_full(passed)
    if rows.paths:
        yield rows.take()


def _files(part: IndexPart, passed: list[Passed]) -> Iterator[IndexFile]:
    """The files to read, one by one as they are read; what is not read is put aside."""
    for item in list_part(part):
        if isinstance(item, IndexFile):
            yield item
        else:
            passed.append(item)


class _Rows:
    """Columns that fill up; groups as bytes and the length of each value."""

    def __init__(self, bookie_id: str, storage: str) -> None:
        self._bookie_id = bookie_id
        self._storage = storage
        self._clear()

    def _clear(self) -> None:
        self.paths: list[str] = []
        self._scopes: list[int | None] = []
        self._ledgers: list[int | None] = []
        self._groups: list[bytes] = []
        self._group_bytes: list[NDArray[np.int64]] = []
        self._states: list[str] = []
        self._reasons: list[str | None] = []
        self._offsets: list[int | None] = []
        self._page_bytes: list[int | None] = []
        self._mtimes: list[int | None] = []

    def add_files(self, batch: IndexBatch) -> None:
        self.paths += [file.path for file in batch.files]
        self._scopes += [file.scope_id for file in batch.files]
        self._ledgers += [file.ledger_id for file in batch.files]
        self._groups.append(batch.groups.tobytes())
        self._group_bytes.append(np.diff(batch.groups.offsets) * GROUP.itemsize)
        self._states += batch.states
        self._reasons += batch.reasons
        self._offsets += batch.offsets
        self._page_bytes += batch.page_bytes
        self._mtimes += batch.mtimes

    def take_when_full(self, passed: list[Passed]) -> Iterator[pa.RecordBatch]:
        """Add what was passed over, empty that list, and yield whenever there is enough for a batch."""
        while passed or self._full:
            if self._full:
                yield self.take()
            for each in passed[:BATCH_FILES]:
                self._add_passed(each)
            del passed[:BATCH_FILES]

    @property
    def _full(self) -> bool:
        return len(self.paths) + BATCH_FILES > ROWS or sum(map(len, self._groups)) > MAX_BATCH_BYTES

    def _add_passed(self, passed: Passed) -> None:
        self.paths.append(passed.path)
        self._scopes.append(None if passed.ledger_id is None else passed.scope_id)
        self._ledgers.append(passed.ledger_id)
        self._group_bytes.append(_NO_GROUPS)
        self._states.append(passed.state)
        self._reasons.append(passed.reason)
        self._offsets.append(passed.offset)
        self._page_bytes.append(None)
        self._mtimes.append(None)

    def take(self) -> pa.RecordBatch:
        """All rows so far, as one record batch; then it is empty."""
        count = len(self.paths)
        ends = np.zeros(count + 1, np.int32)
        np.cumsum(np.concatenate(self._group_bytes), out=ends[1:])
        groups = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(b"".join(self._groups))]
        )
        columns = [
            pa.repeat(pa.scalar(self._bookie_id, pa.string()), count),
            pa.array(self._scopes, pa.int64()),
            pa.array(self._ledgers, pa.int64()),
            groups,
            pa.array(self._states, pa.string()),
            pa.array(self._reasons, pa.string()),
            pa.array(self._offsets, pa.int64()),
            pa.array(self.paths, pa.string()),
            pa.array(self._page_bytes, pa.int64()),
            pa.array(self._mtimes, pa.int64()),
            pa.repeat(pa.scalar(self._storage), count),
            pa.nulls(count, pa.int64()),
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


_NO_GROUPS = np.zeros(1, np.int64)
