"""The replication queue beside a ledger: whether it is marked, since when, and who holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.finding_rows import if_known, words
from auditor.model.columns import LEDGER
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from auditor.tables import Tables


def with_queue(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add ``queue`` to rows about a ledger: marked, since (ms), replicas, held_by, held_since (ms).

    ``marked`` is null, and so is all else, where that is not known: the store keeps no marks, or not all of
    them could be listed and this one was not.
    """
    marks = (
        tables.marks.where("not misplaced")
        .groupBy(*LEDGER)
        .agg(
            F.min(F.coalesce("ctime", "mtime")).alias("since"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("replicas")))).alias("replicas"),
        )
        .withColumn("found", F.lit(True))
    )
    locks = tables.locks.groupBy(*LEDGER).agg(
        F.min_by("owner", "ctime").alias("held_by"), F.min("ctime").alias("held_since")
    )
    joined = rows.join(
        marks.select(*LEDGER, F.struct("found", "since", "replicas").alias("mark")), [*LEDGER], "left"
    )
    joined = joined.join(
        locks.select(*LEDGER, F.struct("held_by", "held_since").alias("lock")), [*LEDGER], "left"
    )
    none = F.when(F.lit(tables.cluster.has_marks), F.lit(False))
    queue = F.struct(
        F.coalesce("mark.found", none).alias("marked"),
        F.col("mark.since").alias("since"),
        F.col("mark.replicas").alias("replicas"),
        F.col("lock.held_by").alias("held_by"),
        F.col("lock.held_since").alias("held_since"),
    )
    return joined.withColumn("queue", queue).drop("mark", "lock")


def in_queue(tables: Tables) -> Column:
    """The end of a sentence about a row of `with_queue`."""
    kept = "not all marks could be listed" if tables.cluster.keeps_marks else "this store keeps no marks"
    held = words(", held by ", F.col("queue.held_by"))
    waits = words("; marked for replication", F.coalesce(held, F.lit(", held by no worker")))
    return (
        F.when(F.col("queue.marked").isNull(), f"; whether it waits for replication is not known: {kept}")
        .when(F.col("queue.marked"), waits)
        .otherwise(words("; not marked for replication", if_known(held)))
    )
