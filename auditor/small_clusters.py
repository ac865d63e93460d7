"""How Spark plans the queries of an audit whose tables are small.

The queries of an audit are many and wide. Where they read a few megabytes, nearly all of their time goes into
preparing them: Java code is generated and compiled for each, and what is left of a query is planned anew
whenever a part of it ends. Both pay for themselves where there are rows enough, and where there are few they
are left out, with as few partitions as there are cores.

The answers are the same: only how they are worked out is another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_BYTES = 2 << 20
"""Of Parquet, ledgers and indexes together: some 35,000 ledgers, each on three bookies."""

_PLANNED_ONCE = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_PARTITIONS = "spark.sql.shuffle.partitions"


def plan_for(spark: SparkSession, table_bytes: int) -> None:
    """Set a session for queries of tables of this size; a large one's settings stay as they are."""
    if table_bytes > SMALL_BYTES:
        return
    for key, value in _PLANNED_ONCE.items():
        spark.conf.set(key, value)
    cores = spark.sparkContext.defaultParallelism
    spark.conf.set(_PARTITIONS, str(min(cores, int(spark.conf.get(_PARTITIONS) or cores))))


@contextmanager
def settings_kept(spark: SparkSession) -> Iterator[None]:
    """Give a session back with the settings that it had: it may be somebody's notebook."""
    had = {key: spark.conf.get(key, None) for key in (*_PLANNED_ONCE, _PARTITIONS)}
    try:
        yield
    finally:
        for key, value in had.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
