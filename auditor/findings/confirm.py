"""How sure a finding is, once the second scan of a live store has been read.

A finding about a ledger is confirmed only if the ledger stood at one version in both scans. A ledger that
changed in between may have been repaired or moved while the bookies were read; one that was deleted in
between has nothing left to lose, and what bookies still hold of it is a matter for garbage collection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What these groups say of a ledger rests on its metadata; the storage group has its own rules for both scans.
_RESTS_ON_METADATA = ("replication", "metadata")
# Locations of a ledger that is gone are the normal delay of its deletion.
_STORAGE_THAT_DOES = ("ledger-not-indexed",)
_LEDGER = ["scope_id", "ledger_id"]


def confirm(findings: DataFrame, moved: DataFrame | None) -> DataFrame:
    """Withdraw findings of ledgers that were deleted between the scans; doubt those of changed ones.

    ``findings`` has the column ``group`` besides the finding's own; ``moved`` is what two scans of a live
    store differ in (`auditor.tables.moved`), None where one scan stands for both.
    """
    from pyspark.sql import functions as F

    if moved is None:
        return findings
    since = (
        moved.where("version is not null")
        .groupBy(*_LEDGER)
        .agg(F.max(F.col("version_again").isNull()).alias("deleted"))
    )
    resting = F.col("group").isin(*_RESTS_ON_METADATA) | F.col("id").isin(*_STORAGE_THAT_DOES)
    concerned = resting & (F.col("id") != "mark-of-deleted-ledger")
    rows = findings.join(since, _LEDGER, "left")
    kept = rows.where(~(concerned & F.coalesce("deleted", F.lit(False))))
    doubted = concerned & F.col("deleted").isNotNull() & (F.col("confidence") == "confirmed")
    return kept.withColumn(
        "confidence", F.when(doubted, F.lit("suspect")).otherwise(F.col("confidence"))
    ).drop("deleted")
