"""A few cells that cover much of the matrix break no rule. ``python -m proofs.matrix`` runs all cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proofs.matrix.bench import Bench
from proofs.matrix.cells import Cell
from proofs.matrix.matrix import Record, Result, run_cell, select_cells, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELLS = (
    "etcd/packed/directories/cut:index/samples=1,threads=4/scan",
    "etcd/dump/directories-and-collection/foreign:record/suppressions=file/ledger",
    "etcd/snapshot/none/empty:store/fail_on=new/doctor",
    "flat-v1/dump/collection-with-logs/unreadable:collection/entry_logs=yes/compare",
    "flat-v1/snapshot/inventory/swapped:cookie/grace=0,owners=none/collect",
    "flat-v1/dump/directories/mixed:run/entry_logs=all,bookie_conf=file/doctor",
    "nothing-written/dump/directories/none/entry_logs=yes/collect",
    "one-row/snapshot/directories/none/placement=zone,racks=columns/ledger",
    "all-missing/dump/directories/none//dump",
)


@pytest.fixture(scope="module")
def bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    new_bench = Bench(spark, tmp_path_factory.mktemp("matrix"))
    yield new_bench
    new_bench.close()


@pytest.mark.parametrize("name", CELLS)
def test_cell_breaks_no_rule(bench: Bench, name: str) -> None:
    result = run_cell(bench, Cell.parse(name))
    assert not result.failures, f"{result.failures}\n{result.reproduction}"


RESULT = Result(CELLS[0], 2.0, 3, 0, {}, "bkaudit audit")


def test_recorded_result_is_read_back_by_the_name_of_its_cell(tmp_path: Path) -> None:
    record = Record(tmp_path / "results.jsonl")
    assert record.read_results() == {}
    record.add(RESULT)
    assert record.read_results() == {RESULT.cell: RESULT}


def test_cells_are_selected_by_name_by_part_of_a_name_or_by_count() -> None:
    cells = [Cell.parse(name) for name in CELLS]
    assert select_cells(cells, CELLS[2], None) == [cells[2]]
    assert select_cells(cells, "/inventory/", None) == [cells[4]]
    assert select_cells(cells, None, 2) == cells[:2]


def test_a_summary_counts_cells_audits_and_broken_rules() -> None:
    bad = replace(RESULT, failures={"no bug": ["exit code 70"]})
    assert summary([RESULT, bad]) == ["2 cells, 6 audits, 4 s: 1 failed", "    1  no bug"]
    assert RESULT.reproduction == f"python -m proofs.matrix --only '{CELLS[0]}'"
