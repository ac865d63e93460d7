"""Queries of empty tables are omitted, with the same results as if they had run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from auditor.spark.batches import arrow_frame
from auditor.spark.table_queries import (
    TableQuery,
    aggregate_tables,
    collect_query,
    drop_empty_queries,
    inherit_empty,
    names_without_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = pa.schema([("ledger_id", pa.int64())])


@dataclass(frozen=True)
class FewTables:
    """A set of tables with the names of the empty ones."""

    empty_table_names: frozenset[str] = frozenset({"marks", "orphans"})


def fail_if_called(_: FewTables) -> DataFrame:
    raise AssertionError("the query was made")


@pytest.mark.parametrize(
    ("asks", "is_due"),
    [
        ("marks", False),
        ("ledgers", True),
        (("marks", "orphans"), False),
        (("marks", "ledgers"), True),
        (None, True),
    ],
)
def test_query_is_dropped_only_if_all_its_tables_are_empty(
    asks: str | tuple[str, ...] | None, is_due: bool
) -> None:
    query = TableQuery(asks, fail_if_called)
    assert bool(drop_empty_queries([query], FewTables())) == is_due
    if not is_due:
        assert collect_query(query, FewTables()) == []


def test_empty_tables_and_tables_derived_from_them_are_detected(spark: SparkSession) -> None:
    empty = arrow_frame(spark, COLUMNS.empty_table())
    full = arrow_frame(spark, pa.table({"ledger_id": [3]}))
    frames = {
        "empty": empty,
        "full": full,
        "filtered": empty.where("ledger_id > 2"),
        "derived": inherit_empty(empty.where("ledger_id > 2"), empty),
        "joined": inherit_empty(full.join(empty, "ledger_id"), full, empty),
        "others": inherit_empty(full.where("ledger_id > 5"), full),
    }
    assert names_without_rows(frames) == {"empty", "derived", "joined"}
    counts = {name: (rows, ["count(*)", "max(ledger_id)"]) for name, rows in frames.items()}
    assert aggregate_tables(counts) == {**dict.fromkeys(frames, (0, 0)), "full": (1, 3)}
