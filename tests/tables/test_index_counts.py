"""Counts taken from files equal the counts taken row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.sources.bookies.availability import SCHEMA as AVAILABILITY
from auditor.spark import query_plans
from auditor.spark.execution import Execution
from auditor.tables.index_counts import IndexCount, count_index_rows
from tests.examples import examples
from tests.tables.files import IN_DRIVER, write_table_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Mapping[str, Any]
ROWS = st.fixed_dictionaries(
    {
        "bookie_id": st.sampled_from(["a:1", "b:1", "c:1"]),
        "state": st.sampled_from(["ok", "cut", "gap", "limbo"]),
        "storage": st.sampled_from(["idx", "rocksdb", "rpc", None]),
        "page_bytes": st.one_of(st.none(), st.sampled_from([0, 1, 512, 4608, 8192, 3 << 20, 2**62])),
        "groups": st.sampled_from([None, b"", b"x" * 24]),
        "ledger_id": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "path": st.sampled_from([None, "/a", "/b"]),
    }
)


def kind_of(row: Row) -> tuple[Any, ...]:
    length = row["page_bytes"]
    power = (
        8192
        if length is None
        else max((1 << bit for bit in range(14) if length % (1 << bit) == 0), default=0)
    )
    if length == 0:
        power = 0
    empty = None if row["groups"] is None else not row["groups"]
    has_id_and_path = (row["ledger_id"] is not None, row["path"] is not None)
    return (row["bookie_id"], row["state"], row["storage"], power, empty, *has_id_and_path)


def count_row_by_row(rows: Sequence[Row]) -> list[IndexCount]:
    counts = Counter(kind_of(row) for row in rows)
    return sorted((IndexCount._make((*kind, number)) for kind, number in counts.items()), key=repr)


@settings(max_examples=examples(200), deadline=None)
@given(rows=st.lists(ROWS, max_size=20))
def test_index_counts_equal_row_by_row_counts(tmp_path_factory: Any, rows: list[Row]) -> None:
    files = write_table_files(rows, AVAILABILITY, tmp_path_factory.mktemp("t") / "availability")
    assert sorted(count_index_rows(IN_DRIVER, files), key=repr) == count_row_by_row(rows)


def test_index_counts_of_many_kinds_equal_row_by_row_counts(tmp_path: Path) -> None:
    usual = {"state": "ok", "storage": "idx", "page_bytes": 512, "groups": b"", "ledger_id": 1, "path": "/a"}
    rows = [
        {**usual, "bookie_id": f"b{n}:1", "state": f"s{n % 9}", "storage": f"t{n % 11}"} for n in range(999)
    ]
    files = write_table_files(rows, AVAILABILITY, tmp_path / "availability", files=1, group=999)
    assert sorted(count_index_rows(IN_DRIVER, files), key=repr) == count_row_by_row(rows)


def test_index_counts_by_tasks_equal_row_by_row_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"bookie_id": "a:1", "state": "ok", "ledger_id": 1, "path": "/a"}
    rows: list[Row] = [
        {**usual, "storage": storage, "page_bytes": length, "groups": groups}
        for storage in ("idx", "rpc", None)
        for length in (None, 0, 512, 3 << 20)
        for groups in (None, b"", b"x" * 24)
    ]
    rows += [{"bookie_id": "a:1", "state": "gap", "storage": None, "page_bytes": None, "groups": None}
             | {"ledger_id": None, "path": path} for path in (None, "/b")]  # fmt: skip
    files = write_table_files(rows, AVAILABILITY, tmp_path / "availability")
    monkeypatch.setattr(query_plans, "SMALL_BYTES", -1)
    assert sorted(count_index_rows(Execution(spark), files), key=repr) == count_row_by_row(rows)
