"""Marks and locks that cannot be read, or are where no replication worker looks."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, tables


def test_damaged_and_misplaced_marks_and_locks_get_one_finding_per_ledger(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        marks=[
            {"ledger_id": 1, "path": "marks/1", "damage": "no text protobuf (at byte 3)"},
            {"ledger_id": 2, "path": "marks/2", "misplaced": True},
            {"ledger_id": 3, "path": "marks/3", "replicas": ["bk1"]},
        ],
        locks=[
            {"ledger_id": 1, "path": "locks/1", "damage": "cut"},
            {"ledger_id": 3, "path": "locks/3", "owner": "host"},
        ],
    )
    damaged, misplaced = find("mark-unreadable", cluster_tables)
    assert (damaged.where, damaged.severity, damaged.confidence) == ((1, None), "warning", "confirmed")
    assert damaged.evidence == {"paths": ["locks/1", "marks/1"], "total": 2, "reason": "cut"}
    assert misplaced.where == (2, None)
    assert misplaced.evidence["reason"] == "its path does not match the ledger's id"
