"""moved: the ledgers of a live store that did not stand at one version through both scans.

Both scans list every ledger, and they agree on nearly all. What they differ in is found once, here; whoever
asks what was deleted, made or changed in between asks these few rows.
"""

from __future__ import annotations

import pyarrow as pa

from auditor.model.columns import LEDGER, schema_of
from auditor.model.states import LISTED
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.doubtful_ids import with_doubts

MOVED = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("listed", pa.bool_(), "a ledger in its place; false: a misplaced znode that the server takes for it"),
    ("version", pa.int64(), "its version in the first scan; null: not there"),
    ("version_again", pa.int64(), "its version in the second scan; null: not there any more"),
    (
        "doubt",
        pa.string(),
        "where only one scan lists it: why the other may have missed it; null: nothing says so",
    ),
)


def find_moves(ledgers: DataFrame, again: DataFrame, doubtful: DataFrame | None = None) -> DataFrame:
    """Ledgers that only one of two scans of the store has, or both with other versions: rows of `MOVED`.

    ``doubtful`` are the ids that a scan may have missed (`auditor.tables.doubtful_ids`); None: none.
    """
    first = _versions(ledgers, F.col("version"))
    second = _versions(again, F.col("version").alias("version_again"))
    # Sorted by what tells most rows apart: the scope is nearly always the same.
    both = first.join(second, ["ledger_id", "scope_id", "listed"], "full_outer")
    odd = both.where("not (version <=> version_again)")
    if doubtful is None:
        return odd.withColumn("doubt", F.lit(None).cast("string")).select(*MOVED.names)
    odd = with_doubts(odd, doubtful, 1).withColumnRenamed("doubt", "first")
    odd = with_doubts(odd, doubtful, 2).withColumnRenamed("doubt", "second")
    missed = F.when(F.col("version").isNull(), F.col("first")).when(
        F.col("version_again").isNull(), F.col("second")
    )
    return odd.withColumn("doubt", missed).select(*MOVED.names)


def scan_ids(ledgers: DataFrame) -> DataFrame:
    """The ids that a scan lists as ledgers, whatever their metadata say."""
    return ledgers.where(F.col("status").isin(*LISTED)).select(*LEDGER)


def deleted_ids(moved: DataFrame) -> DataFrame:
    """The ids of ledgers that the first scan lists and the second does not."""
    return moved.where("listed and version_again is null").select(*LEDGER)


def new_ids(moved: DataFrame) -> DataFrame:
    """The ids of ledgers that the second scan lists and the first does not."""
    return moved.where("listed and version is null").select(*LEDGER)


def unsettled_ledgers(moved: DataFrame) -> DataFrame:
    """The ledgers of the first scan that the second does not show as they were, one row each.

    scope_id, ledger_id, deleted (the second scan does not have it at all, and can not have missed it).
    """
    known = moved.where("version is not null")
    return known.groupBy(*LEDGER).agg(
        F.max(F.expr("version_again is null and doubt is null")).alias("deleted")
    )


def doubtful(rows: DataFrame, moved: DataFrame | None) -> DataFrame:
    """``rows`` about ledgers without those that were deleted between the scans; ``moved`` says which changed.

    Nothing changed where one scan stands for both.
    """
    if moved is None:
        return rows.withColumn("moved", F.lit(False))
    joined = rows.join(unsettled_ledgers(moved), [*LEDGER], "left")
    kept = joined.where("deleted is null or not deleted")
    return kept.withColumn("moved", F.col("deleted").isNotNull()).drop("deleted")


def _versions(scan: DataFrame, version: Column) -> DataFrame:
    rows = scan.where("ledger_id is not null")
    return rows.select(*LEDGER, F.col("status").isin(*LISTED).alias("listed"), version)
