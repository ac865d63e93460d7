"""Aggregates of several tables in one query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.spark.table_queries import aggregate_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_table_gets_its_own_aggregates(spark: SparkSession) -> None:
    table = spark.createDataFrame([(3, True), (4, None), (2**40, False)], "n bigint, reused boolean")
    empty = table.where("false")
    expressions = ("count(*)", "sum(n)", "count_if(coalesce(reused, false))")
    assert aggregate_tables({"some": (table, expressions), "none": (empty, expressions[:2])}) == {
        "some": (3, 2**40 + 7, 1),
        "none": (0, 0),
    }
