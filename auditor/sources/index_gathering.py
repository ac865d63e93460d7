"""Rows of the table ``availability`` from index files, and from what was passed over, as record batches.

Batches have up to `ROWS` rows, the size at which a Spark data source is fastest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from auditor.codecs.groups import GROUP, Longs, offsets_of
from auditor.sources.index_batch import OK, IndexBatch
from auditor.sources.index_columns import MAX_BATCH_BYTES, ROWS, SCHEMA
from auditor.sources.index_listing import Passed
from auditor.sources.index_reader import BATCH_UNITS


class GatheredRows:
    """Rows of one bookie, gathered until there are enough of them.

    >>> rows = GatheredRows("bk1", "idx")
    >>> rows.add_passed([Passed(None, "/l0/current/notes", "stray", "is none of the bookie's files")])
    >>> rows.take()["state"].to_pylist(), rows.count
    (['stray'], 0)
    """

    def __init__(self, bookie_id: str, storage: str) -> None:
        self._bookie_id = bookie_id
        self._storage = storage
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._bytes = 0
        self._batches: list[pa.RecordBatch] = []

    def add_files(self, batch: IndexBatch) -> None:
        """Add a row a file."""
        count = len(batch.paths)
        lengths = np.fromiter(map(len, batch.paths), np.int64, count)
        paths = _strings(pa.string(), offsets_of(lengths), b"".join(batch.paths))
        paths.validate(full=True)  # a path need not be UTF-8, and a text is
        states: pa.Array = pa.repeat(_OK, count)
        reasons: pa.Array = pa.nulls(count, pa.string())
        offsets: pa.Array = pa.nulls(count, pa.int64())
        if batch.faults:
            faults = [batch.faults.get(row, _NO_FAULT) for row in range(count)]
            states, reasons, offsets = (
                pa.array(column, kind)
                for column, kind in zip(
                    zip(*faults, strict=True), (pa.string(), pa.string(), pa.int64()), strict=True
                )
            )
        self._add(
            count,
            {
                "scope_id": pa.array(batch.scope_ids),
                "ledger_id": pa.array(batch.ledger_ids),
                "groups": _strings(
                    pa.binary(), batch.groups.offsets * GROUP.itemsize, batch.groups.tobytes()
                ),
                "state": states,
                "reason": reasons,
                "offset": offsets,
                "path": paths,
                "page_bytes": pa.array(batch.page_bytes),
                "mtime": pa.array(batch.mtimes or [None] * count, pa.int64()),
            },
        )

    def take_when_full(self, passed: list[Passed]) -> Iterator[pa.RecordBatch]:
        """Add what was passed over, empty that list, and yield whenever there is enough for a batch."""
        while passed or self._full:
            if self._full:
                yield self.take()
            self.add_passed(passed[:BATCH_UNITS])
            del passed[:BATCH_UNITS]

    @property
    def _full(self) -> bool:
        return self.count + BATCH_UNITS > ROWS or self._bytes > MAX_BATCH_BYTES

    def add_passed(self, passed: list[Passed]) -> None:
        """Add a row for each thing that was not read."""
        count = len(passed)
        self._add(
            count,
            {
                "scope_id": pa.array(
                    [None if each.ledger_id is None else each.scope_id for each in passed], pa.int64()
                ),
                "ledger_id": pa.array([each.ledger_id for each in passed], pa.int64()),
                "groups": pa.repeat(pa.scalar(b""), count),
                "state": pa.array([each.state for each in passed], pa.string()),
                "reason": pa.array([each.reason for each in passed], pa.string()),
                "offset": pa.array([each.offset for each in passed], pa.int64()),
                "path": pa.array([each.path for each in passed], pa.string()),
                "page_bytes": pa.nulls(count, pa.int64()),
                "mtime": pa.nulls(count, pa.int64()),
            },
        )

    def _add(self, count: int, columns: dict[str, pa.Array]) -> None:
        columns |= {
            "bookie_id": pa.repeat(pa.scalar(self._bookie_id, pa.string()), count),
            "storage": pa.repeat(pa.scalar(self._storage), count),
            "answered": pa.nulls(count, pa.int64()),
        }
        batch = pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
        self.count += count
        self._bytes += batch.nbytes
        self._batches.append(batch)

    def take(self) -> pa.RecordBatch:
        """All rows so far, as one record batch; then it is empty."""
        whole = pa.concat_batches(self._batches)
        self._clear()
        return whole


_OK = pa.scalar(OK)
_NO_FAULT = (OK, None, None)


def _strings(kind: pa.DataType, offsets: Longs, data: bytes) -> pa.Array:
    return pa.Array.from_buffers(
        kind, len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    )
