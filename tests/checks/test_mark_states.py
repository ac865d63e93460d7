"""Marks: stale, stuck, and of deleted ledgers; every mark is one of them, or none."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import HOUR, NOW, Row, find, ledger, places, tables


def mark(ledger_id: int, *replicas: str, **said: object) -> Row:
    return {"ledger_id": ledger_id, "replicas": list(replicas), "ctime": NOW - HOUR, "mtime": NOW, **said}


BOOKIES: list[Row] = [
    {"bookie_id": "up"},
    {"bookie_id": "also-up", "registered": "readonly"},
    {"bookie_id": "down", "registered": None},
]
OLD = NOW - 25 * HOUR


def test_a_mark_of_a_whole_ledger_is_stale(spark: SparkSession) -> None:
    whole = {"class": "healthy", "potential_class": "healthy"}
    asked = tables(
        spark,
        bookies=BOOKIES,
        ledgers=[ledger(number, "up", "also-up") for number in (1, 2, 4, 5, 6, 7)]
        + [ledger(3, "up", "down")],
        verdicts=[{"ledger_id": number, **whole} for number in (1, 2, 3, 5, 6, 7)]
        + [{"ledger_id": 4, "class": "healthy", "potential_class": "below-write-quorum"}],
        marks=[
            mark(1, "up", "also-up"),  # returned
            mark(2, "down", ctime=OLD),  # repaired: down is in no ensemble any more
            mark(3, "down"),  # rightly marked
            mark(4, "up"),  # not known to be whole
            mark(5),  # a placement mark
            mark(6, "up", damage="no text protobuf"),
            mark(7, "up", misplaced=True),
        ],
        locks=[{"ledger_id": 1}],
    )
    returned, repaired = find("mark-stale", asked)
    assert (returned.where, returned.severity, returned.confidence) == ((1, None), "note", "confirmed")
    assert (returned.evidence["why"], repaired.evidence["why"]) == ("returned", "repaired")
    assert repaired.where == (2, None)
    assert find("mark-stuck", asked) == []


def test_a_mark_without_a_ledger_is_told_unless_the_ledger_may_be_hidden(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=BOOKIES,
        ledgers=[
            ledger(1, "down"),
            {"ledger_id": 2, "status": "unreadable"},
            {"status": "gap", "low": 10, "high": 19},
            {"status": "misplaced", "low": None, "high": None},
        ],
        marks=[mark(number, "down", ctime=OLD) for number in (1, 2, 3, 10, 20)] + [mark(21)],
    )
    assert places(find("mark-of-deleted-ledger", asked)) == [(3, None), (20, None)]
    assert places(find("mark-stuck", asked)) == [(1, None), (2, None), (10, None)]


def test_a_mark_is_stuck_after_a_day_without_a_worker(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=BOOKIES,
        ledgers=[ledger(number, "down", write_quorum=2) for number in (1, 2, 3, 4, 5)]
        + [ledger(6, "down", write_quorum=1), ledger(7, "down", write_quorum=1, depends=False)],
        marks=[
            mark(1, "down", ctime=OLD),
            mark(2, "down", ctime=NOW - 24 * HOUR),
            mark(3, "down", ctime=OLD),  # locked
            mark(4, ctime=OLD),  # a placement mark
            mark(5, "down", ctime=None, mtime=OLD),  # a server that keeps no times in marks
            mark(6, "down", ctime=OLD),
            mark(7, "down", ctime=OLD),
        ],
        locks=[{"ledger_id": 3}],
    )
    found = {each.ledger_id: each for each in find("mark-stuck", asked)}
    assert {number: each.severity for number, each in found.items()} == {
        1: "warning",
        5: "warning",
        6: "error",
        7: "warning",
    }
    assert found[1].evidence["hours"] == 25
    assert "for 25 hours" in found[1].message
    assert found[6].evidence["unrecoverable"] is True
