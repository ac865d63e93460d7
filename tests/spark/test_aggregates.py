"""Numbers of several tables in one query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.spark.table_queries import aggregate_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_table_gives_its_own_numbers_and_null_is_none_of_them(spark: SparkSession) -> None:
    some = spark.createDataFrame([(3, True), (4, None), (2**40, False)], "n bigint, reused boolean")
    none = some.where("false")
    asked = ("count(*)", "sum(n)", "count_if(coalesce(reused, false))")
    assert aggregate_tables({"some": (some, asked), "none": (none, asked[:2])}) == {
        "some": (3, 2**40 + 7, 1),
        "none": (0, 0),
    }
