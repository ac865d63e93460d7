"""Bookies whose data is from another time or cluster than the metadata."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import INSTANCE, facts, find, tables

REASON = "the bookie's newest file was written 2026-10-18 20:25:00 UTC, 30 days before the metadata"


def test_old_bookie_data_makes_the_source_suspect_and_not_the_metadata(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        facts(unproved_bookies={"old": REASON}),
        bookies=[{"bookie_id": name} for name in ("old", "new")],
        holdings=[
            {"bookie_id": name, "ledgers": 150, "orphans": 150, "unexplained": 150} for name in ("old", "new")
        ],
    )
    [finding] = find("source-suspect", cluster_tables)
    assert (finding.bookie_id, finding.severity, finding.confidence) == ("old", "warning", "suspect")
    assert (finding.unknown, finding.evidence) == (["old"], {"reason": REASON})
    assert [result.bookie_id for result in find("metadata-suspect", cluster_tables)] == ["new"]


def test_directories_of_another_cluster_are_reported_only_as_a_suspect_source(spark: SparkSession) -> None:
    names = ("bk1", "bk2")
    cluster_tables = tables(
        spark,
        facts(unproved_bookies=dict.fromkeys(names, "another cluster's instance id")),
        bookies=[{"bookie_id": name, "foreign_instance": True} for name in names],
        cookies=[{"bookie_id": name, "instance_id": INSTANCE} for name in names],
        directories=[
            {"place": name, "path": f"/{name}", "cookie_bookie_id": name, "instance_id": "another"}
            for name in names
        ],
    )
    assert find("instance-mismatch", cluster_tables) == find("metadata-suspect", cluster_tables) == []
    assert [finding.bookie_id for finding in find("source-suspect", cluster_tables)] == ["bk1", "bk2"]


def test_current_data_gets_no_source_finding(spark: SparkSession) -> None:
    assert find("source-suspect", tables(spark, bookies=[{"bookie_id": "bk1"}])) == []
