"""Work gives equal results in the driver and in tasks, and runs where it is fastest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import fs
from pyspark.sql.types import LongType, StructField, StructType

from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.spark import execution
from auditor.spark.execution import Execution, read_parts
from auditor.spark.part_tables import PartTable
from auditor.spark.query_plans import TINY_BYTES, query_plans, session_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = StructType([StructField("entry_id", LongType())])


def numbers(part: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"entry_id": pa.array(range(part), pa.int64())})


@pytest.mark.parametrize("limit", ["DRIVER_READ_BYTES", "DRIVER_READ_SECONDS"])
def test_reads_over_driver_limit_run_in_tasks(
    spark: SparkSession, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PartTable(spark, COLUMNS, ((numbers, 3), (numbers, 4)))
    assert isinstance(read_parts(table), pa.Table)
    monkeypatch.setattr(execution, limit, 0)
    unread_parts = read_parts(table)
    assert isinstance(unread_parts, PartTable)
    assert sorted(row["entry_id"] for row in unread_parts.frame().collect()) == [0, 0, 1, 1, 2, 2, 3]


def test_rows_that_the_driver_has_read_are_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def read(part: int) -> Iterator[pa.RecordBatch]:
        with begun.open("a") as file:
            file.write(f"{part} ")
        for _ in range(3):
            yield pa.record_batch({"entry_id": pa.array([part] * part, pa.int64())})

    table = PartTable(spark, COLUMNS, tuple((read, part) for part in (10, 20, 1_000_000, 30)))
    unread_parts = read_parts(table)
    assert isinstance(unread_parts, PartTable)
    assert begun.read_text() == "10 20 1000000 "
    unread_parts.write(fs.LocalFileSystem(), str(tmp_path / "written"))
    for rows in (unread_parts.frame(), spark.read.parquet(str(tmp_path / "written"))):
        counts = {row["entry_id"]: row["count"] for row in rows.groupBy("entry_id").count().collect()}
        assert counts == {10: 30, 20: 60, 30: 90, 1_000_000: 3_000_000}
    assert sorted(begun.read_text().split()[3:]) == ["1000000", "1000000", "30", "30"]


def test_source_without_parts_gives_empty_table(spark: SparkSession) -> None:
    rows = read_parts(PartTable.from_parts(spark, SCHEMA, read_part, ()))
    assert isinstance(rows, pa.Table)
    assert rows.num_rows == 0
    assert rows.column_names == SCHEMA.names


@pytest.mark.parametrize("table_bytes", [TINY_BYTES, TINY_BYTES + 1])
def test_merged_union_has_at_most_session_partitions(spark: SparkSession, table_bytes: int) -> None:
    with query_plans(spark) as plans:
        plans.fit_to_tables(table_bytes, 0)
        union = reduce(lambda rows, query: rows.union(query), [spark.range(n, n + 1) for n in range(5)])
        merged = Execution(spark, plans).merge_tasks(union)
        assert sorted(row["id"] for row in merged.collect()) == [0, 1, 2, 3, 4]
        assert merged.rdd.getNumPartitions() <= session_partitions(spark) < union.rdd.getNumPartitions()
