"""The comparison of an audit through Spark, and nothing else: both sides read as tables, and joined.

python -m benchmarks.spark_join URI BOOKIES      from a cold start: prints how many pairs differ
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from auditor import register
from auditor.spark.session import build_session
from auditor.tables.unequal import expected_groups, held_groups, unequal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 4
"""Tasks that each side is read by, and partitions of the join: a task costs as much as a thousand ledgers."""


def differing_pairs(spark: SparkSession, uri: str, bookies: str) -> int:
    """How many (ledger, bookie) pairs hold other entries than they should, in a session with our sources."""
    spark.conf.set("spark.sql.shuffle.partitions", str(TASKS))
    scan = spark.read.format("bookkeeper_ledgers").option("metadata", uri)
    ledgers = scan.option("rate_limit", 0).option("parts", TASKS).load()
    indexes = spark.read.format("bookkeeper_indexes").option("bookies", bookies).option("tasks", TASKS).load()
    return unequal(expected_groups(ledgers), held_groups(indexes, {}), []).count()


def main() -> None:
    """Start a session, compare, and say how many pairs differ."""
    spark = build_session("local[2]")
    register(spark)
    try:
        print(differing_pairs(spark, *sys.argv[1:]))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
