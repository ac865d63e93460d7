"""Rows are equal if tasks read them, the driver reads them, or Spark reads their source by name."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema

import auditor
from auditor.errors import StoreError, UsageError
from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.spark_source import IndexSource
from auditor.sources.metadata.spark_source import LedgerRereadSource, LedgerSource, MarkSource
from auditor.spark.batches import arrow_frame, as_frame, join_batches, source_rows
from auditor.spark.execution import read_parts
from auditor.spark.part_tables import PartTable, part_table
from tests.sources.bookie_corpora import unpack_bookies

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_empty_batch_does_not_end_a_table(spark: SparkSession) -> None:
    batches = [pa.record_batch({"id": pa.array(ids, pa.int64())}) for ids in ([], [1, 2], [], [3], [])]
    schema = from_arrow_schema(batches[0].schema)
    table = join_batches(batches, schema)
    assert [row["id"] for row in arrow_frame(spark, table, schema).collect()] == [1, 2, 3]
    assert join_batches(batches[:1], schema).num_rows == 0
    assert join_batches([], schema).num_rows == 0


DATA = Path(__file__).parents[1] / "data" / "interleaved-hier"


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "metadata.jsonl"
    path.write_bytes(gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()))
    return f"dump://{path}"


def contents(table: DataFrame) -> Counter[str]:
    # A file has a stamp only when it has lain for a while.
    return Counter(map(str, table.drop("stamp").collect()))


def check_rows_by_name(spark: SparkSession, source: type[DataSource], options: dict[str, str]) -> None:
    auditor.register(spark)
    spark.dataSource.register(source)
    by_name = spark.read.format(source.name()).options(**options).load()
    table = source_rows(spark, source(options))
    assert table.schema == by_name.schema
    assert contents(table) == contents(by_name)
    assert not table.isEmpty()
    driver_table = read_parts(part_table(spark, source(options)))
    assert isinstance(driver_table, pa.Table)
    assert contents(as_frame(spark, driver_table)) == contents(by_name)


@pytest.mark.parametrize("source", [LedgerSource, LedgerRereadSource, MarkSource])
@pytest.mark.parametrize("parts", ["1", "5"])
def test_metadata_rows_are_the_same_by_name_and_in_the_driver(
    spark: SparkSession, dump: str, source: type[DataSource], parts: str
) -> None:
    check_rows_by_name(spark, source, {"metadata": dump, "parts": parts})


def test_index_rows_are_the_same_by_name_and_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    bookies = unpack_bookies("interleaved-hier", tmp_path)
    check_rows_by_name(spark, IndexSource, {"bookies": str(bookies), "tasks": "3"})


def test_a_source_without_a_part_has_no_row(spark: SparkSession) -> None:
    table = PartTable.from_parts(spark, SCHEMA, read_part, ()).frame()
    assert table.isEmpty()
    assert table.columns == SCHEMA.names


def test_invalid_source_options_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="set the option metadata"):
        source_rows(spark, LedgerSource({}))
    with pytest.raises(StoreError, match=r"missing\.jsonl"):
        source_rows(spark, LedgerSource({"metadata": f"dump://{tmp_path / 'missing.jsonl'}"}))
