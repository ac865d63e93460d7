"""Ledgers whose recovery does not end."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import HOUR, NOW_MS, find, ledger, tables


def test_recovery_is_stuck_after_a_day_without_a_change(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[
            ledger(1, "bk1", state="IN_RECOVERY", mtime=NOW_MS - 25 * HOUR),
            ledger(2, "bk1", state="IN_RECOVERY", mtime=NOW_MS - 24 * HOUR),
            ledger(3, "bk1", state="OPEN", mtime=NOW_MS - 25 * HOUR),
            ledger(4, "bk1", state="CLOSED", mtime=NOW_MS - 25 * HOUR),
            ledger(5, "bk1", state="IN_RECOVERY", mtime=None),
        ],
    )
    [finding] = find("recovery-stuck", cluster_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((1, None), "warning", "confirmed")
    assert finding.evidence["hours"] == 25
