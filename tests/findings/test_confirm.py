"""One rule of confirmation for all checks: objects that changed between the scans are not confirmed."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from auditor.checks import ALL_CHECKS
from auditor.findings.confirm import CHECKS_OF_DELETED_LEDGERS, confirm
from auditor.tables.scans import MOVED_LEDGERS

UNCHANGED, CHANGED, DELETED, CREATED = 1, 2, 3, 4
_FINDING = "id string, confidence string, scope_id long, ledger_id long, bookie_id string"


def findings(spark: SparkSession, confidence: str) -> DataFrame:
    """Return a finding of every check for each ledger, and one for a bookie as a whole."""
    rows = [
        (check.id, confidence, None if ledger is None else 0, ledger, "bk1")
        for check in ALL_CHECKS
        for ledger in (UNCHANGED, CHANGED, DELETED, None)
    ]
    return spark.createDataFrame(rows, _FINDING)


def moves(spark: SparkSession) -> DataFrame:
    rows = [
        (0, CHANGED, True, 3, 4, None),
        (0, DELETED, True, 3, None, None),
        (0, CREATED, True, None, 0, None),
        (1, UNCHANGED, True, 0, 1, None),
    ]
    return spark.createDataFrame(rows, ", ".join(f"{name} {_TYPES[name]}" for name in MOVED_LEDGERS.names))


_TYPES = {
    "scope_id": "long", "ledger_id": "long", "listed": "boolean", "version": "long", "version_again": "long",
    "doubt": "string",
}  # fmt: skip


def test_no_check_confirms_findings_of_ledgers_changed_between_scans(spark: SparkSession) -> None:
    confidences = {
        (row["id"], row["ledger_id"]): row["confidence"]
        for row in confirm(findings(spark, "confirmed"), moves(spark)).collect()
    }
    for check in ALL_CHECKS:
        of_deleted = check.id in CHECKS_OF_DELETED_LEDGERS
        assert confidences[check.id, UNCHANGED] == "confirmed"
        assert confidences[check.id, None] == "confirmed"
        assert confidences[check.id, CHANGED] == ("confirmed" if of_deleted else "suspect")
        assert confidences.get((check.id, DELETED)) == ("confirmed" if of_deleted else None)
    assert {id for id, ledger in confidences if ledger == DELETED} == {"orphan-ledger-deleting"}


def test_unknown_finding_stays_unknown_and_single_scan_changes_nothing(spark: SparkSession) -> None:
    doubted = confirm(findings(spark, "unknown"), moves(spark))
    assert {row["confidence"] for row in doubted.collect()} == {"unknown"}
    frame = findings(spark, "confirmed")
    assert confirm(frame, None) is frame
