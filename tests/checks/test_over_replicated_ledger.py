"""Copies on bookies that no ensemble names."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, tables


def test_a_copy_outside_the_ensembles_is_left_over_or_in_flight(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}, {"bookie_id": "swapped", "suspect": True}],
        over_replicated=[
            {"ledger_id": 1, "bookie_id": "bk1", "count": 1},
            {"ledger_id": 2, "bookie_id": "bk1", "count": 8, "state": "OPEN"},
            {"ledger_id": 3, "bookie_id": "bk1", "count": 8, "exposed": True},
            {"ledger_id": 4, "bookie_id": "swapped", "count": 8},
            {"ledger_id": 5, "bookie_id": "bk1", "count": 8, "marked": True},
            {"ledger_id": 6, "bookie_id": "bk1", "count": 8, "locked": True, "state": "OPEN"},
            {"ledger_id": 7, "bookie_id": "bk1", "count": 0},  # in the wrong directory, say
        ],
    )
    left_over = find("over-replicated-ledger", asked)
    assert [(*each.where, each.confidence, each.evidence["open"]) for each in left_over] == [
        (1, "bk1", "confirmed", False),
        (2, "bk1", "suspect", True),
        (3, "bk1", "suspect", False),
        (4, "swapped", "suspect", False),
        (7, "bk1", "confirmed", False),
    ]
    assert left_over[0].message == "ledger 1: bk1 holds 1 entry of it and is in none of its ensembles"
    assert left_over[4].message == "ledger 7: bk1 holds it and is in none of its ensembles"

    marked, locked = find("copy-in-flight", asked)
    assert (marked.where, marked.severity, marked.confidence) == ((5, "bk1"), "note", "confirmed")
    assert marked.message.endswith("marked for replication")
    assert (locked.where, locked.evidence["locked"]) == ((6, "bk1"), True)
