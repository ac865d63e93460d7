"""An audit's comparison in plain Spark: read metadata and indexes as tables and join them.

Benchmarks compare this module with the comparison in blocks. In this module every replica is a Spark row.

python -m benchmarks.spark_join URI BOOKIES      from a cold start: prints how many pairs differ
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from auditor import register
from auditor.model.states import REPLICA_STATES
from auditor.spark import functions as F
from auditor.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_COUNT = 4
"""Number of tasks that read each side, and of partitions of the join.

A task costs as much as a thousand ledgers.
"""


def unequal_rows(ledgers: DataFrame, availability: DataFrame) -> DataFrame:
    """Return each (ledger, bookie) pair whose bookie does not hold exactly the expected entries."""
    pair_columns = ["ledger_id", "bookie_id", "scope_id"]
    exploded_replica = F.explode("replicas").alias("replica")
    expected_replicas = ledgers.where("undecidable = false").select("scope_id", "ledger_id", exploded_replica)
    expected_rows = expected_replicas.select(
        *pair_columns[::2], "replica.bookie_id", F.col("replica.groups").alias("expected")
    )
    bookie_rows = availability.where(F.col("state").isin(*REPLICA_STATES))
    index_rows = bookie_rows.select(
        *pair_columns, F.col("groups").alias("held"), F.col("state").alias("index_state")
    )
    pairs = expected_rows.where("length(expected) > 0").join(index_rows, pair_columns, "full_outer")
    return pairs.where("not (index_state <=> 'ok' and expected <=> held)")


def differing_pairs(spark: SparkSession, uri: str, bookies: str) -> int:
    """Count the rows of `unequal_rows`, for the metadata at ``uri`` and the indexes of ``bookies``.

    The session must have this program's data sources.
    """
    spark.conf.set("spark.sql.shuffle.partitions", str(TASK_COUNT))
    ledger_reader = spark.read.format("bookkeeper_ledgers").option("metadata", uri)
    ledgers = ledger_reader.option("rate_limit", 0).option("parts", TASK_COUNT).load()
    indexes = (
        spark.read.format("bookkeeper_indexes").option("bookies", bookies).option("tasks", TASK_COUNT).load()
    )
    return unequal_rows(ledgers, indexes).count()


def main() -> None:
    """Start a session, join metadata and indexes, and print the number of pairs that differ."""
    spark = build_session("local[2]")
    register(spark)
    try:
        print(differing_pairs(spark, *sys.argv[1:]))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
