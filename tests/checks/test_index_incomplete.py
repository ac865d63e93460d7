"""Bookies that serve entries that their index lacks."""

from __future__ import annotations

from pyspark.sql import SparkSession

from auditor.tables.judged import find_unindexed_entries
from auditor.tables.scans import MOVED_LEDGERS
from tests.checks.tables_builder import find, tables


def test_incomplete_index_gets_one_finding_per_bookie_with_counts_and_sample(spark: SparkSession) -> None:
    rows = [
        {"ledger_id": ledger, "bookie_id": bookie, "groups": b"", "count": count, "served": True}
        for ledger, bookie, count in ((7, "a", 2), (8, "a", 3), (7, "b", 1))
    ]
    first, second = find("index-incomplete", tables(spark, unindexed=rows))
    assert (first.bookie_id, first.ledger_id, first.severity) == ("a", None, "warning")
    assert first.evidence == {"ledgers": 2, "entries_served": 5, "entries_listed": 0, "sample": ["7", "8"]}
    assert first.message == "a serves 5 entries of 2 ledgers that are missing from its index on disk"
    assert second.message == "b serves 1 entry of 1 ledger that are missing from its index on disk"


def test_entries_that_are_only_listed_are_suspect(spark: SparkSession) -> None:
    rows = [
        {"ledger_id": 7, "bookie_id": bookie, "groups": b"", "count": 1 + served, "served": served}
        for bookie, served in (("a", False), ("b", False), ("b", True))
    ]
    listed, confirmed = find("index-incomplete", tables(spark, unindexed=rows))
    assert (listed.confidence, listed.message) == (
        "suspect",
        "a lists 1 entry of 1 ledger that are missing from its index on disk",
    )
    assert (
        confirmed.confidence,
        confirmed.evidence["entries_served"],
        confirmed.evidence["entries_listed"],
    ) == (
        "confirmed",
        2,
        1,
    )


def test_ledger_that_changed_between_the_scans_is_not_unindexed(spark: SparkSession) -> None:
    served = [("a", b"", 1)]
    judged = tables(
        spark,
        judged=[{"ledger_id": ledger, "unindexed": served} for ledger in (7, 8)]
        + [{"ledger_id": 9}, {"ledger_id": 10, "listed": served}],
    ).judged
    moved = spark.createDataFrame([(0, 8, True, 1, 2)], ", ".join(_columns()))
    assert {row["ledger_id"] for row in find_unindexed_entries(judged, moved).collect()} == {7, 10}
    served_by_ledger = {
        row["ledger_id"]: row["served"] for row in find_unindexed_entries(judged, None).collect()
    }
    assert served_by_ledger == {7: True, 8: True, 10: False}


def _columns() -> list[str]:
    types = {"listed": "boolean"}
    return [f"{name} {types.get(name, 'long')}" for name in MOVED_LEDGERS.names[:5]]
