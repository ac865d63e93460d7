"""Indexes read as an audit reads them, and the rows kept as a run keeps them, for another to begin with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.parts import Earlier, IndexDirectory, IndexPart, plan_parts

BOOKIE = "bk-a:3181"
TICK = 0.012
"""Seconds: longer than a tick of the clock that files are dated by."""


def quick_clocks(patch: pytest.MonkeyPatch) -> None:
    """Let what was changed a tick ago be taken for settled, instead of seconds or an hour."""
    patch.setattr("auditor.sources.bookies.availability.RACY_NS", 0)
    patch.setattr("auditor.sources.bookies.earlier_rows.QUIET_MS", 0)


def cut(directories: Sequence[IndexDirectory], wanted: int) -> list[IndexPart]:
    return plan_parts([(BOOKIE, list(directories))], wanted)


def read(all_parts: Sequence[IndexPart]) -> pa.Table:
    return pa.Table.from_batches([batch for part in all_parts for batch in read_part(part)], SCHEMA)


def told(table: pa.Table) -> list[dict[str, Any]]:
    """What rows say of the index, in an order of their own."""
    rows = table.drop_columns(["stamp", "reused"]).to_pylist()
    return sorted(rows, key=lambda row: (row["path"], row["reason"] or "", row["ledger_id"] or 0))


def kept(folder: Path, table: pa.Table, began: int, files: int = 2) -> Earlier:
    """Write the rows as a run's table, in so many files of small row groups."""
    folder.mkdir()
    share = table.num_rows // files + 1
    names = []
    for number in range(files):
        names.append(f"part-{number:05}.parquet")
        rows = table.slice(number * share, share)
        pq.write_table(rows, folder / names[-1], row_group_size=7, write_page_checksum=True)
    return Earlier(str(folder), tuple(names), began)


def since(all_parts: Sequence[IndexPart], earlier: Earlier) -> list[IndexPart]:
    return [replace(part, earlier=earlier) for part in all_parts]


def settle() -> int:
    """Let the clock tick; the time in ms before which everything was changed."""
    time.sleep(TICK)
    return time.time_ns() // 1_000_000
