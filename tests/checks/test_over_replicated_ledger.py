"""Copies on bookies that no ensemble names."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from auditor.model.repair import RepairState
from tests.checks.tables_builder import facts, find, tables


def test_copy_outside_the_ensembles_is_over_replicated(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}, {"bookie_id": "swapped", "suspect": True}],
        over_replicated=[
            {"ledger_id": 1, "bookie_id": "bk1", "count": 1},
            {"ledger_id": 2, "bookie_id": "bk1", "count": 8, "state": "OPEN"},
            {"ledger_id": 3, "bookie_id": "bk1", "count": 8, "exposed": True},
            {"ledger_id": 4, "bookie_id": "swapped", "count": 8},
            {"ledger_id": 7, "bookie_id": "bk1", "count": 0},  # in the wrong directory, say
        ],
    )
    left_over = find("over-replicated-ledger", cluster_tables)
    assert [(*finding.where, finding.confidence, finding.evidence["open"]) for finding in left_over] == [
        (1, "bk1", "confirmed", False),
        (2, "bk1", "suspect", True),
        (3, "bk1", "suspect", False),
        (4, "swapped", "suspect", False),
        (7, "bk1", "confirmed", False),
    ]
    assert left_over[0].message == "ledger 1: bk1 holds 1 entry of it, but is in none of its ensembles"
    assert left_over[4].message == "ledger 7: bk1 holds it, but is in none of its ensembles"


def in_flight(spark: SparkSession, repair: RepairState) -> dict[int | None, tuple[str, list[str]]]:
    """Return the confidence of each ledger's finding, and the bookies in its evidence."""
    cluster_tables = tables(
        spark,
        facts(repair=repair),
        bookies=[{"bookie_id": name} for name in ("bk1", "bk2")],
        over_replicated=[
            {"ledger_id": 5, "bookie_id": "bk2", "count": 1, "marked": True},
            {"ledger_id": 5, "bookie_id": "bk1", "count": 8, "marked": True},
            {"ledger_id": 6, "bookie_id": "bk1", "count": 8, "marked": True, "locked": True},
            {"ledger_id": 7, "bookie_id": "bk1", "count": 8},
        ],
    )
    findings = find("copy-in-flight", cluster_tables)
    assert {(finding.where[1], finding.severity) for finding in findings} == {(None, "note")}
    return {
        finding.where[0]: (finding.confidence, [copy["bookie_id"] for copy in finding.evidence["copies"]])
        for finding in findings
    }


def test_copies_in_flight_are_one_finding_per_ledger(spark: SparkSession) -> None:
    working = RepairState(sees_autorecovery=True, votes=1)
    assert in_flight(spark, working) == {5: ("confirmed", ["bk1", "bk2"]), 6: ("confirmed", ["bk1"])}


@pytest.mark.parametrize(
    "repair",
    [RepairState(sees_autorecovery=True), RepairState(), RepairState(votes=1, locked=1, disabled=True)],
)
def test_unlocked_copy_in_flight_is_suspect_where_no_worker_runs(
    spark: SparkSession, repair: RepairState
) -> None:
    """If a ledger has a lock of its own, a worker is copying it."""
    assert {ledger: sure for ledger, (sure, _) in in_flight(spark, repair).items()} == {
        5: "suspect",
        6: "confirmed",
    }
