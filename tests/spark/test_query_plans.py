"""Spark settings by table size: they are set for one audit only, and restored afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from auditor.spark.query_plans import SMALL_BYTES, TINY_BYTES, has_one_task_plans, query_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = (
    "spark.sql.adaptive.enabled",
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
    "spark.sql.shuffle.partitions",
)


def settings(spark: SparkSession) -> list[str | None]:
    return [spark.conf.get(key) for key in KEYS]


def fail_inside_plans(spark: SparkSession) -> None:
    with query_plans(spark) as plans:
        plans.fit_to_tables(SMALL_BYTES, 0)
        assert settings(spark) == ["false", "false", "NO_CODEGEN", "2"]
        raise KeyError


def test_tiny_tables_are_joined_in_one_task(spark: SparkSession) -> None:
    broadcast = "spark.sql.autoBroadcastJoinThreshold"
    had = settings(spark), spark.conf.get(broadcast)
    with query_plans(spark) as plans:
        plans.fit_to_tables(TINY_BYTES, 0)
        assert (*settings(spark), spark.conf.get(broadcast)) == ("false", "false", "NO_CODEGEN", "1", "-1")
        joined = spark.range(9).withColumn("a", F.col("id") % 3).join(spark.range(3).toDF("a"), "a")
        assert joined.rdd.getNumPartitions() == 1
        assert joined.count() == 9
    assert (settings(spark), spark.conf.get(broadcast)) == had


def test_session_settings_for_small_tables_are_restored_after_error(spark: SparkSession) -> None:
    had = settings(spark)
    with pytest.raises(KeyError):
        fail_inside_plans(spark)
    assert settings(spark) == had


def test_large_tables_are_joined_in_partitions_that_fit_in_memory(spark: SparkSession) -> None:
    had = settings(spark)
    sizes = ("spark.sql.adaptive.advisoryPartitionSizeInBytes", "spark.sql.sources.fileCompressionFactor")
    believed = [spark.conf.get(size) for size in sizes]
    with query_plans(spark) as plans:
        plans.fit_to_tables(SMALL_BYTES + 1, 300_000_000)
        assert settings(spark) == [*had[:3], "600"]
        assert [spark.conf.get(size) for size in sizes] == ["8m", "20"]
    assert settings(spark) == had
    assert [spark.conf.get(size) for size in sizes] == believed


def test_session_with_one_shuffle_partition_keeps_it(spark: SparkSession) -> None:
    with query_plans(spark) as plans:
        spark.conf.set("spark.sql.shuffle.partitions", "1")
        plans.fit_to_tables(0, 0)
        assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


def test_plans_change_when_table_sizes_grow(spark: SparkSession) -> None:
    had = settings(spark)
    with query_plans(spark) as plans:
        plans.fit_to_tables(TINY_BYTES, 0)
        assert has_one_task_plans(spark)
        plans.fit_to_tables(TINY_BYTES + 1, 0)
        assert not has_one_task_plans(spark)
        assert settings(spark) == ["false", "false", "NO_CODEGEN", "2"]
        plans.fit_to_tables(SMALL_BYTES + 1, 300_000_000)
        assert settings(spark) == [*had[:3], "600"]
    assert not has_one_task_plans(spark)
