"""What two scans of a live store differ in, ledger by ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.findings.confirm import confirm
from auditor.tables.scans import deleted_ids, doubtful_ids, find_moves, new_ids
from tests.tables.rows import ledger, ledgers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD = {"bk1": {0}}


def ids(rows: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["scope_id"], row["ledger_id"]) for row in rows.collect())


def test_what_stood_at_one_version_did_not_move(spark: SparkSession) -> None:
    both = ledgers(spark, ledger(1, HELD), ledger(2, HELD, status="unreadable"))
    assert find_moves(both, both).collect() == []


def test_ledgers_are_deleted_made_and_changed_each_in_its_scope(spark: SparkSession) -> None:
    first = ledgers(spark, ledger(1, HELD), ledger(2, HELD), ledger(3, HELD, scope_id=1, version=4))
    second = ledgers(
        spark, ledger(2, HELD, scope_id=1), ledger(2, HELD), ledger(3, HELD, scope_id=1, version=5)
    )
    rows = find_moves(first, second)
    assert ids(rows) == [(0, 1), (1, 2), (1, 3)]
    assert ids(deleted_ids(rows)) == [(0, 1)]
    assert ids(new_ids(rows)) == [(1, 2)]


def test_a_misplaced_znode_is_not_the_ledger_of_its_id(spark: SparkSession) -> None:
    stray = ledger(1, HELD, status="misplaced", version=7)
    first = ledgers(spark, ledger(1, HELD, version=3), stray)
    assert find_moves(first, first).collect() == []
    rows = find_moves(first, ledgers(spark, ledger(1, HELD, version=3)))
    assert [(row["listed"], row["version"], row["version_again"]) for row in rows.collect()] == [
        (False, 7, None)
    ]
    assert ids(deleted_ids(rows)) == []


def test_what_a_scan_may_have_missed_is_in_doubt_and_not_withdrawn(spark: SparkSession) -> None:
    hole = {"status": "gap", "path": "/r/00", "damage": "refused", "low": 0, "high": 9}
    first = ledgers(spark, ledger(1, HELD), ledger(20, HELD))
    second = ledgers(spark, hole)
    rows = find_moves(first, second, doubtful_ids(first, second))
    assert {row["ledger_id"]: row["doubt"] for row in rows.collect()} == {1: "/r/00: refused", 20: None}
    said = [(id, "entry-lost", "replication", "confirmed") for id in (1, 20, 30)]
    findings = spark.createDataFrame(
        [(0, *row) for row in said],
        "scope_id long, ledger_id long, id string, group string, confidence string",
    )
    kept = {row["ledger_id"]: row["confidence"] for row in confirm(findings, rows).collect()}
    assert kept == {1: "suspect", 30: "confirmed"}
