"""Under-replication marks beside what they speak of: which belong to no ledger, and which wait for nobody.

Those that are stale are a table of the run, and those that cannot be read another check's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.model.columns import LEDGER
from auditor.spark import functions as F
from auditor.tables.once import once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@once
def waiting_marks(tables: Tables) -> DataFrame:
    """Marks older than a day that no worker holds, with ``empty``: the ledger is closed and has no entry.

    Stale marks and those of deleted ledgers are not among them.
    """

    from auditor.tables.stale_marks import named_marks

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

    from auditor.tables.stale_marks import named_marks

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
