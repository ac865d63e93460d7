"""How sure a finding is, once the second scan of a live store has been read.

A finding about a ledger is confirmed only if the ledger stood at one version in both scans. A ledger that
changed in between may have been closed, repaired or moved while the bookies were read; one that was deleted
in between has nothing left to lose, and what bookies still hold of it is a matter for garbage collection.
The rule is the same for every group of checks. Findings about a bookie that count ledgers count those that
moved apart from the others, for themselves.
One that the second scan may only have missed was not seen to go: what was found of it stays, in doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence
from auditor.spark import functions as F
from auditor.tables.moved import unsettled_ledgers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OF_DELETED = ("orphan-ledger-deleting",)
"""Checks that speak of ledgers which were deleted between the scans."""


def confirm(findings: DataFrame, moved: DataFrame | None) -> DataFrame:
    """Withdraw findings of ledgers that were deleted between the scans; doubt those of changed ones.

    ``moved`` is what two scans of a live store differ in (`auditor.tables.moved`), None where one scan stands
    for both.
    """
    if moved is None:
        return findings
    concerned = ~F.col("id").isin(*OF_DELETED)
    rows = findings.join(unsettled_ledgers(moved), [*LEDGER], "left")
    kept = rows.where(~(concerned & F.coalesce("deleted", F.lit(False))))
    changed = concerned & F.col("deleted").isNotNull()
    doubted = changed & (F.col("confidence") == Confidence.CONFIRMED.value)
    confidence = F.when(doubted, Confidence.SUSPECT.value).otherwise(F.col("confidence"))
    return kept.withColumn("confidence", confidence).drop("deleted")
