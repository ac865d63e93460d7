"""Helpers that read indexes as an audit does, and store the rows as the earlier run of another audit."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.sources.bookies.earlier_rows import EarlierTable
from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.parts import IndexDirectory, IndexPart, plan_parts
from auditor.sources.bookies.reusable_parts import ReusablePart, read_reusable_part

BOOKIE = "bk-a:3181"


def quick_clocks(patch: pytest.MonkeyPatch) -> None:
    """Treat changes of one tick ago as settled, instead of after seconds or an hour."""
    patch.setattr("auditor.sources.bookies.availability.MIN_STAMP_AGE_NS", 0)
    patch.setattr("auditor.sources.bookies.earlier_rows.UNCHANGED_DIR_MS", 0)


def plan_bookie(directories: Sequence[IndexDirectory], part_count: int) -> list[IndexPart]:
    return plan_parts([(BOOKIE, list(directories))], part_count)


def read(all_parts: Sequence[IndexPart | ReusablePart]) -> pa.Table:
    return pa.Table.from_batches([batch for part in all_parts for batch in batches_of(part)], SCHEMA)


def batches_of(part: IndexPart | ReusablePart) -> Iterator[pa.RecordBatch]:
    return read_reusable_part(part) if isinstance(part, ReusablePart) else read_part(part)


def comparable_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the index rows without ``stamp`` and ``reused``, in a fixed order."""
    rows = table.drop_columns(["stamp", "reused"]).to_pylist()
    return sorted(rows, key=lambda row: (row["path"], row["reason"] or "", row["ledger_id"] or 0))


def write_earlier_table(folder: Path, table: pa.Table, began: int, files: int = 2) -> EarlierTable:
    """Write the rows as a run's table, in ``files`` Parquet files with small row groups."""
    folder.mkdir()
    share = table.num_rows // files + 1
    names = []
    for number in range(files):
        names.append(f"part-{number:05}.parquet")
        rows = table.slice(number * share, share)
        pq.write_table(rows, folder / names[-1], row_group_size=7, write_page_checksum=True)
    return EarlierTable(str(folder), tuple(names), began)


def make_reusable_parts(all_parts: Sequence[IndexPart], earlier: EarlierTable) -> list[ReusablePart]:
    return [ReusablePart(part, earlier) for part in all_parts]


def settle() -> int:
    """Wait until the kernel dates files later than any before the call; return that time in ms.

    The clock that dates files advances with the kernel's ticks. On a busy machine it lags behind
    `time.time_ns` for longer than one tick, so no fixed wait is long enough.
    """
    before = max(time.time_ns(), _file_time()) // 1_000_000
    while (now_ms := _file_time() // 1_000_000) <= before:
        time.sleep(0.001)
    return now_ms


def _file_time() -> int:
    """Return the modification time, in ns, that a file changed now would get."""
    with tempfile.TemporaryFile() as file:
        os.utime(file.fileno())
        return os.fstat(file.fileno()).st_mtime_ns
