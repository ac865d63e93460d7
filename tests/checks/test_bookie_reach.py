"""Bookies that were not read, and bookies that nobody can reach."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import facts, find, places, tables


def test_a_bookie_that_was_not_read_whole_is_named_once(spark: SparkSession) -> None:
    asked = tables(
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
    gone, half = find("bookie-unread", asked)
    assert (gone.where, gone.severity, gone.confidence) == ((None, "gone"), "note", "unknown")
    assert gone.unknown == ["gone"]
    assert gone.evidence == {
        "read": "unread",
        "reason": "no source covers this bookie",
        "ledgers": 1,
        "replicas": 0,
    }
    assert "was not read: no source covers this bookie; 1 ledger names it" in gone.message
    assert half.where == (None, "half")
    assert "was partially read: the reason is unknown" in half.message


def test_an_audit_of_metadata_alone_says_once_that_no_bookie_was_read(spark: SparkSession) -> None:
    bookies = [
        {"bookie_id": name, "read": "unread", "found": False, "replicas": count}
        for name, count in (("b:1", 2), ("a:1", 3))
    ]
    (one,) = find("bookie-unread", tables(spark, facts(has_sources=False), bookies=bookies))
    assert (one.where, one.severity, one.confidence) == ((None, None), "note", "unknown")
    assert one.unknown == ["a:1", "b:1"]
    assert one.evidence == {"read": "unread", "reason": "no --bookies was given", "bookies": 2, "replicas": 5}
    assert "5 replicas on 2 bookies were not checked" in one.message


def test_ledgers_on_unregistered_bookies_are_counted(spark: SparkSession) -> None:
    away = {"registered": None, "depending": 3, "replicas": 4, "ledgers": 5}
    asked = tables(
        spark,
        bookies=[
            {"bookie_id": "down", **away},
            {"bookie_id": "down-unread", **away, "read": "unread", "has_cookie": False},
            {"bookie_id": "idle", **away, "depending": 0},
            {"bookie_id": "readonly", **away, "registered": "readonly"},
        ],
    )
    read, unread = find("on-unregistered-bookie", asked)
    assert (read.where, read.severity, read.confidence) == ((None, "down"), "warning", "confirmed")
    assert (read.unknown, read.evidence["depending"], read.evidence["replicas"]) == ([], 3, 4)
    assert "its data was read" in read.message
    assert (unread.where, unread.unknown) == ((None, "down-unread"), ["down-unread"])
    assert "undecided" in unread.message
    assert places(find("bookie-down", asked)) == [(None, "down"), (None, "idle")]
