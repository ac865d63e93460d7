"""Under-replication marks and locks, beside the ledgers that they are of.

Marks that are stale are a table of the run, and those that cannot be read another check's.
"""

from __future__ import annotations

from auditor.checks.finding_rows import if_known, words
from auditor.model.columns import LEDGER
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.once import once


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


@once
def waiting_marks(tables: Tables) -> DataFrame:
    """Marks older than a day that no worker holds, with ``empty``: the ledger is closed and has no entry.

    Stale marks and those of deleted ledgers are not among them.
    """

    from auditor.tables.marks import named_marks

    age = F.lit(tables.cluster.scan_time) - F.col("since")
    marks = (
        named_marks(tables.marks)
        .where(age > tables.cluster.stuck_after_ms)
        .join(tables.locks.select(*LEDGER), [*LEDGER], "left_anti")
        .join(tables.stale_marks.select(*LEDGER), [*LEDGER], "left_anti")
        .join(deleted_marks(tables).select(*LEDGER), [*LEDGER], "left_anti")
    )
    empty = (
        tables.ledgers_of_marks.where("status in ('ok', 'broken') and not undecidable")
        .where("state = 'CLOSED' and last_entry_id = -1")
        .join(marks.select(*LEDGER), [*LEDGER], "left_semi")
        .select(*LEDGER, F.lit(True).alias("empty"))
    )
    joined = marks.join(empty, [*LEDGER], "left")
    return joined.withColumn("empty", F.coalesce("empty", F.lit(False)))


def marks_by_bookie(marks: DataFrame, moved: DataFrame | None, *columns: str) -> DataFrame:
    """One row for each bookie that a mark names, as `auditor.checks.by_products.count_per_bookie` has them.

    scope_id, ledger_id, bookie_id, ``doubtful`` (the ledger moved between the scans), and ``columns``.
    """

    from auditor.tables.moved import doubtful

    return doubtful(marks, moved).select(
        *LEDGER, F.explode("replicas").alias("bookie_id"), F.col("moved").alias("doubtful"), *columns
    )


@once
def deleted_marks(tables: Tables) -> DataFrame:
    """Marks of ledgers that no row of the ledger tree stands for, or could stand for."""

    from auditor.tables.marks import named_marks

    marks = named_marks(tables.marks)
    if tables.cluster.tree_elsewhere is not None:
        return marks.limit(0)  # any of them may lie there
    # Of all ledgers only those that a mark is of: what is joined stays as small as the marks are.
    known = (
        tables.ledgers_of_marks.where("ledger_id is not null")
        .select(*LEDGER)
        .join(marks.select(*LEDGER), [*LEDGER], "left_semi")
    )
    # Marks are of scope 0; a gap without a scope could be of any.
    unclear = tables.ledgers.where(
        "status in ('misplaced', 'gap') and low is not null and coalesce(scope_id, 0) = 0"
    ).select("low", "high")
    return marks.join(known, [*LEDGER], "left_anti").join(
        F.broadcast(unclear), F.col("ledger_id").between(F.col("low"), F.col("high")), "left_anti"
    )
