"""Bookies that were not read, and bookies that nobody can reach."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import facts, find, places, tables


def test_unread_or_partially_read_bookie_gets_one_finding(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[
            {"bookie_id": "fine"},
            {
                "bookie_id": "gone",
                "read": "unread",
                "reason": "no source covers this bookie",
                "found": False,
                "ledgers": 1,
            },
            {"bookie_id": "half", "read": "partial", "named": False, "replicas": 2},
            {"bookie_id": "idle", "read": "unread", "named": False, "found": False},
        ],
    )
    unread, half = find("bookie-unread", cluster_tables)
    assert (unread.where, unread.severity, unread.confidence) == ((None, "gone"), "note", "unknown")
    assert unread.unknown == ["gone"]
    assert unread.evidence == {
        "read": "unread",
        "reason": "no source covers this bookie",
        "ledgers": 1,
        "replicas": 0,
    }
    assert "was not read: no source covers this bookie; 1 ledger names it" in unread.message
    assert half.where == (None, "half")
    assert "was partially read: the reason is unknown" in half.message


def test_metadata_only_audit_reports_unread_bookies_once(spark: SparkSession) -> None:
    bookies = [
        {"bookie_id": name, "read": "unread", "found": False, "replicas": count}
        for name, count in (("b:1", 2), ("a:1", 3))
    ]
    (finding,) = find("bookie-unread", tables(spark, facts(has_sources=False), bookies=bookies))
    assert (finding.where, finding.severity, finding.confidence) == ((None, None), "note", "unknown")
    assert finding.unknown == ["a:1", "b:1"]
    assert finding.evidence == {
        "read": "unread",
        "reason": "no --bookies was given",
        "bookies": 2,
        "replicas": 5,
    }
    assert "5 replicas on 2 bookies were not checked" in finding.message


def test_ledgers_on_unregistered_bookies_are_counted(spark: SparkSession) -> None:
    away = {"registered": None, "depending": 3, "replicas": 4, "ledgers": 5}
    cluster_tables = tables(
        spark,
        bookies=[
            {"bookie_id": "down", **away},
            {"bookie_id": "down-unread", **away, "read": "unread", "has_cookie": False},
            {"bookie_id": "idle", **away, "depending": 0},
            {"bookie_id": "readonly", **away, "registered": "readonly"},
        ],
    )
    read, unread = find("on-unregistered-bookie", cluster_tables)
    assert (read.where, read.severity, read.confidence) == ((None, "down"), "warning", "confirmed")
    assert (read.unknown, read.evidence["depending"], read.evidence["replicas"]) == ([], 3, 4)
    assert "its data was read" in read.message
    assert (unread.where, unread.unknown) == ((None, "down-unread"), ["down-unread"])
    assert "could not be checked" in unread.message
    assert places(find("bookie-down", cluster_tables)) == [(None, "down"), (None, "idle")]
