"""Tests of the change statuses of all findings of a run, read in order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.errors import RunError
from auditor.model.finding import ChangeStatus
from auditor.runs.change_status import statuses_in_order

SCHEMA = pa.schema(
    [
        ("fingerprint", pa.string()),
        ("change", pa.string()),
        ("first_seen", pa.int64()),
        ("suppressed", pa.string()),
    ]
)
ROWS = [("a", "new", 5, None), ("gone", "fixed", 1, None), ("b", "same", 3, "known"), ("c", "worse", 4, None)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run with two files of the table changes, numbered as Spark numbers them."""
    directory = tmp_path / "tables" / "changes"
    directory.mkdir(parents=True)
    for number, rows in enumerate((ROWS[:2], ROWS[2:])):
        values = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
        table = pa.Table.from_pylist(values, schema=SCHEMA)
        pq.write_table(table, directory / f"part-0000{number}-x.snappy.parquet")
    return tmp_path


def test_each_finding_gets_its_status_and_fixed_findings_are_skipped(run: Path) -> None:
    change_status = statuses_in_order(str(run))
    assert [change_status(name) for name in "abc"] == [
        ChangeStatus("new", 5, None),
        ChangeStatus("same", 3, "known"),
        ChangeStatus("worse", 4, None),
    ]


def test_findings_may_be_skipped_but_not_requested_out_of_order(run: Path) -> None:
    change_status = statuses_in_order(str(run))
    assert change_status("c") == ChangeStatus("worse", 4, None)
    with pytest.raises(RunError, match="tables/changes: the row of finding a is missing or out of order"):
        change_status("a")


def test_status_of_a_fixed_finding_is_refused(run: Path) -> None:
    with pytest.raises(RunError, match="the row of finding gone is missing or out of order"):
        statuses_in_order(str(run))("gone")


def test_run_without_changes_has_no_statuses(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    assert statuses_in_order(str(tmp_path))("a") is None
