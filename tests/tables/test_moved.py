"""The differences between two scans of a live store, ledger by ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.findings.confirm import confirm
from auditor.tables.scans import deleted_ids, doubtful_ids, find_moves, new_ids
from tests.tables.rows import ledger, ledgers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPLICAS = {"bk1": {0}}


def ids(rows: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["scope_id"], row["ledger_id"]) for row in rows.collect())


def test_ledgers_with_equal_versions_have_no_move(spark: SparkSession) -> None:
    rows = ledgers(spark, ledger(1, REPLICAS), ledger(2, REPLICAS, status="unreadable"))
    assert find_moves(rows, rows).collect() == []


def test_deleted_new_and_changed_ledgers_are_found_by_scope(spark: SparkSession) -> None:
    first = ledgers(
        spark, ledger(1, REPLICAS), ledger(2, REPLICAS), ledger(3, REPLICAS, scope_id=1, version=4)
    )
    second = ledgers(
        spark,
        ledger(2, REPLICAS, scope_id=1),
        ledger(2, REPLICAS),
        ledger(3, REPLICAS, scope_id=1, version=5),
    )
    rows = find_moves(first, second)
    assert ids(rows) == [(0, 1), (1, 2), (1, 3)]
    assert ids(deleted_ids(rows)) == [(0, 1)]
    assert ids(new_ids(rows)) == [(1, 2)]


def test_misplaced_znode_is_not_matched_to_ledger_of_its_id(spark: SparkSession) -> None:
    stray = ledger(1, REPLICAS, status="misplaced", version=7)
    first = ledgers(spark, ledger(1, REPLICAS, version=3), stray)
    assert find_moves(first, first).collect() == []
    rows = find_moves(first, ledgers(spark, ledger(1, REPLICAS, version=3)))
    assert [(row["listed"], row["version"], row["version_again"]) for row in rows.collect()] == [
        (False, 7, None)
    ]
    assert ids(deleted_ids(rows)) == []


def test_finding_of_possibly_missed_ledger_becomes_suspect(spark: SparkSession) -> None:
    hole = {"status": "gap", "path": "/r/00", "damage": "refused", "low": 0, "high": 9}
    first = ledgers(spark, ledger(1, REPLICAS), ledger(20, REPLICAS))
    second = ledgers(spark, hole)
    rows = find_moves(first, second, doubtful_ids(first, second))
    assert {row["ledger_id"]: row["doubt"] for row in rows.collect()} == {1: "/r/00: refused", 20: None}
    finding_rows = [(id, "entry-lost", "replication", "confirmed") for id in (1, 20, 30)]
    findings = spark.createDataFrame(
        [(0, *row) for row in finding_rows],
        "scope_id long, ledger_id long, id string, group string, confidence string",
    )
    confidences = {row["ledger_id"]: row["confidence"] for row in confirm(findings, rows).collect()}
    assert confidences == {1: "suspect", 30: "confirmed"}
