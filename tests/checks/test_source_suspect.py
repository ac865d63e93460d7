"""Bookies whose data is of another time or cluster than the metadata."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import INSTANCE, facts, find, tables

REASON = "the bookie's newest file was written 2026-10-18 20:25:00 UTC, 30 days before the metadata"


def test_a_bookie_with_old_data_is_named_and_not_the_metadata(spark: SparkSession) -> None:
    asked = tables(
        spark,
        facts(unproved_bookies={"old": REASON}),
        bookies=[{"bookie_id": name} for name in ("old", "new")],
        holdings=[
            {"bookie_id": name, "ledgers": 150, "orphans": 150, "unexplained": 150} for name in ("old", "new")
        ],
    )
    [found] = find("source-suspect", asked)
    assert (found.bookie_id, found.severity, found.confidence) == ("old", "warning", "suspect")
    assert (found.unknown, found.evidence) == (["old"], {"reason": REASON})
    assert [each.bookie_id for each in find("metadata-suspect", asked)] == ["new"]


def test_directories_of_another_cluster_are_not_the_bookies_fault(spark: SparkSession) -> None:
    names = ("bk1", "bk2")
    asked = tables(
        spark,
        facts(unproved_bookies=dict.fromkeys(names, "another cluster's instance id")),
        bookies=[{"bookie_id": name, "foreign_instance": True} for name in names],
        cookies=[{"bookie_id": name, "instance_id": INSTANCE} for name in names],
        directories=[
            {"place": name, "path": f"/{name}", "cookie_bookie_id": name, "instance_id": "another"}
            for name in names
        ],
    )
    assert find("instance-mismatch", asked) == find("metadata-suspect", asked) == []
    assert [found.bookie_id for found in find("source-suspect", asked)] == ["bk1", "bk2"]


def test_a_cluster_with_current_data_has_no_such_finding(spark: SparkSession) -> None:
    assert find("source-suspect", tables(spark, bookies=[{"bookie_id": "bk1"}])) == []
