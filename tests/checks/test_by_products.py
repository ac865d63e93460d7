"""What is left behind in numbers: one finding per bookie, and what is not sure counts apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from auditor.actions.fact_holds import count_past_end_copies
from tests.checks.tables_builder import Row, entries, find, tables

MOVED = "scope_id long, ledger_id long, listed boolean, version long, version_again long, doubt string"
CHANGED, DELETED = (0, 5, True, 1, 2, None), (0, 6, True, 1, None, None)


def judged(column: str, ledger_id: int, *held: tuple[str, bytes, int], **said: object) -> Row:
    return {"ledger_id": ledger_id, column: list(held), "last_entry_id": 9, "length": 1000, **said}


@pytest.mark.parametrize(("check_id", "column"), [("stale-segment", "stale"), ("surplus-entries", "surplus")])
def test_held_entries_are_counted_by_bookie(spark: SparkSession, check_id: str, column: str) -> None:
    asked = tables(
        spark,
        bookies=[{"bookie_id": name, "suspect": name == "swapped"} for name in ("a", "b", "open", "swapped")],
        judged=[
            judged(column, 1, entries("a", (0, 8, 2, 4), (20, 20, 1, 0)), entries("b", (5, 5, 1, 0))),
            judged(column, 2, entries("a", (0, 0, 3, 0)), last_entry_id=-1, length=0),  # of no known size
            judged(
                column,
                3,
                entries("a", (7, 7, 5, 0)),
                entries("open", (7, 7, 1, 0)),
                state="OPEN",
                length=None,
            ),
            judged(column, 4, entries("swapped", (1, 1, 1, 0))),
            judged(column, 5, entries("a", (1, 1, 1, 0))),
            judged(column, 6, entries("a", (1, 1, 90, 0))),
            {"ledger_id": 7, "missing": [entries("a", (5, 5, 1, 0))]},
        ],
    )
    moved = spark.createDataFrame([CHANGED, DELETED], MOVED)
    found = {each.bookie_id: each for each in find(check_id, replace(asked, moved_ledgers=moved))}
    assert {each.where for each in found.values()} == {(None, name) for name in ("a", "b", "open", "swapped")}
    confidence = {name: (each.severity, each.confidence) for name, each in found.items()}
    assert confidence == {
        "a": ("note", "confirmed"),
        "b": ("note", "confirmed"),
        "open": ("note", "suspect"),
        "swapped": ("note", "suspect"),
    }
    assert found["a"].evidence == {
        "ledgers": 2,
        "entries": 10,
        "bytes_estimate": 700,
        "doubted_ledgers": 2,  # not closed, and changed meanwhile; one that was deleted is not told
        "doubted_entries": 6,
        "doubted_bytes_estimate": 100,
        "sample": ["1", "2"],
        "rows": f"tables/judged, column {column}",
    }
    assert found["a"].message.startswith("a holds 16 entries of 4 ledgers ")
    assert "; 2 of these ledgers are unconfirmed" in found["a"].message
    assert (found["open"].evidence["ledgers"], found["open"].evidence["sample"]) == (0, ["3"])


def test_with_one_scan_nothing_has_moved(spark: SparkSession) -> None:
    asked = tables(
        spark, bookies=[{"bookie_id": "a"}], judged=[judged("surplus", 5, entries("a", (1, 1, 1, 0)))]
    )
    [found] = find("surplus-entries", asked)
    assert (found.confidence, found.evidence["ledgers"], found.evidence["doubted_ledgers"]) == (
        "confirmed",
        1,
        0,
    )


def test_entries_past_the_end_are_told_by_ledger_and_only_suspected(spark: SparkSession) -> None:
    asked = tables(
        spark,
        judged=[
            judged(
                "past_end", 1, entries("b", (10, 12, 1, 2)), entries("a", (10, 10, 3, 0)), past_end_last=12
            ),
            judged("surplus", 2, entries("a", (10, 10, 3, 0))),
        ],
    )
    [found] = find("entries-past-end", asked)
    assert (found.where, found.severity, found.confidence) == ((1, None), "error", "suspect")
    assert (found.evidence["last_entry"], found.evidence["last_held"]) == (9, 12)
    assert found.evidence["held"] == [
        {"bookie_id": "a", "count": 3, "groups": [[10, 10, 3, 0]]},
        {"bookie_id": "b", "count": 2, "groups": [[10, 12, 1, 2]]},
    ]
    assert "ends at entry 9, but 3 entries from 10 on are held by an ack quorum (2)" in found.message
    assert found.evidence["taken_over"] is False


def test_entries_past_the_end_of_a_ledger_that_was_taken_over_are_a_note(spark: SparkSession) -> None:
    held = entries("a", (10, 10, 3, 0)), entries("b", (10, 10, 3, 0))
    rows = [
        judged("past_end", ledger, *held, past_end_last=12, past_end_by_takeover=ledger == 1)
        for ledger in (1, 2)
    ]
    asked = tables(spark, judged=rows)
    found = {each.ledger_id: each for each in find("entries-past-end", asked)}
    assert {ledger: each.severity for ledger, each in found.items()} == {1: "note", 2: "error"}
    assert found[1].message.endswith("a fenced writer that closes its own ledger leaves such entries too")
    copies = count_past_end_copies(asked)
    assert copies is not None
    assert {row["bookie_id"]: row["count"] for row in copies.collect()} == {"a": 1, "b": 1}
