"""Selection of the rows of large tables that belong to a few ledgers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.tables.rows_of_ledgers import QUERIED_LEDGER_COLUMNS, rows_of_ledgers
from auditor.tables.unequal import UNEQUAL
from tests.tables.files import write_table_files
from tests.tables.rows import ledger

IDS = st.one_of(st.none(), st.integers(0, 9), st.sampled_from([2**63 - 1, -(2**63)]))


def rows_of(ids: list[int | None], scope: int) -> list[dict[str, Any]]:
    templates = [ledger(0, {"a:1": {1, 2}, "b:1": set()}, scope_id=scope, path="/x") for _ in ids]
    return [{**row, "ledger_id": number} for row, number in zip(templates, ids, strict=True)]


@given(first=st.lists(IDS, max_size=9), second=st.lists(IDS, max_size=9), pairs=st.lists(IDS, max_size=4))
def test_rows_of_ledgers_selects_rows_by_id_in_any_scope(
    spark: SparkSession,
    tmp_path_factory: Any,
    first: list[int | None],
    second: list[int | None],
    pairs: list[int | None],
) -> None:
    place = tmp_path_factory.mktemp("t")
    rows = [*rows_of(first, 0), *rows_of(second, 7)]
    files = write_table_files(rows, LEDGERS, place / "ledgers")
    few = write_table_files(
        [{"ledger_id": ledger_id, "bookie_id": "a:1"} for ledger_id in pairs], UNEQUAL, place / "unequal"
    )
    columns = [name for name in LEDGERS.names if name in QUERIED_LEDGER_COLUMNS]
    table = rows_of_ledgers(spark, files, few, from_arrow_schema(LEDGERS), QUERIED_LEDGER_COLUMNS)
    selected_rows = [row for read, part in table.parts for batch in read(part) for row in batch.to_pylist()]
    expected_rows = [
        {name: row.get(name) for name in columns}
        for row in rows
        if row["ledger_id"] is not None and row["ledger_id"] in pairs
    ]
    assert sorted(selected_rows, key=repr) == sorted(expected_rows, key=repr)
    assert all(list(row) == columns for row in selected_rows)
