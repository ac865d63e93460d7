"""Ledgers whose recovery does not end."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import HOUR, NOW, find, ledger, tables


def test_recovery_is_stuck_after_a_day_without_a_change(spark: SparkSession) -> None:
    asked = tables(
        spark,
        ledgers=[
            ledger(1, "bk1", state="IN_RECOVERY", mtime=NOW - 25 * HOUR),
            ledger(2, "bk1", state="IN_RECOVERY", mtime=NOW - 24 * HOUR),
            ledger(3, "bk1", state="OPEN", mtime=NOW - 25 * HOUR),
            ledger(4, "bk1", state="CLOSED", mtime=NOW - 25 * HOUR),
            ledger(5, "bk1", state="IN_RECOVERY", mtime=None),
        ],
    )
    [found] = find("recovery-stuck", asked)
    assert (found.where, found.severity, found.confidence) == ((1, None), "warning", "confirmed")
    assert found.evidence["hours"] == 25
