"""Findings that rest on data of another time or cluster are not confirmed."""

from __future__ import annotations

from pyspark.sql import SparkSession

from auditor.findings.confirm import doubt_unproved_data


def test_findings_on_old_data_become_suspect_and_other_findings_stay(spark: SparkSession) -> None:
    rows = [
        ("orphan-ledger", "old", "confirmed"),
        ("orphan-ledger", "new", "confirmed"),
        ("bookie-down", "old", "confirmed"),  # the metadata alone shows it
        ("bookie-unread", "old", "unknown"),
        ("entry-lost", None, "confirmed"),
    ]
    findings = spark.createDataFrame(rows, "id string, bookie_id string, confidence string")
    doubted = {tuple(row) for row in doubt_unproved_data(findings, ["old"]).collect()}
    assert doubted == {("orphan-ledger", "old", "suspect"), *rows[1:]}
    assert doubt_unproved_data(findings, []) is findings
