"""Counts of leftover entries: one finding per bookie, with uncertain entries counted separately."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from auditor.actions.fact_holds import count_past_end_copies
from tests.checks.tables_builder import Row, entries, find, tables

MOVED = "scope_id long, ledger_id long, listed boolean, version long, version_again long, doubt string"
CHANGED, DELETED = (0, 5, True, 1, 2, None), (0, 6, True, 1, None, None)


def judged(column: str, ledger_id: int, *copies: tuple[str, bytes, int], **overrides: object) -> Row:
    return {"ledger_id": ledger_id, column: list(copies), "last_entry_id": 9, "length": 1000, **overrides}


@pytest.mark.parametrize(("check_id", "column"), [("stale-segment", "stale"), ("surplus-entries", "surplus")])
def test_extra_entries_are_counted_by_bookie(spark: SparkSession, check_id: str, column: str) -> None:
    cluster_tables = tables(
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
    by_bookie = {
        finding.bookie_id: finding for finding in find(check_id, replace(cluster_tables, moved_ledgers=moved))
    }
    assert {finding.where for finding in by_bookie.values()} == {
        (None, name) for name in ("a", "b", "open", "swapped")
    }
    confidence = {name: (finding.severity, finding.confidence) for name, finding in by_bookie.items()}
    assert confidence == {
        "a": ("note", "confirmed"),
        "b": ("note", "confirmed"),
        "open": ("note", "suspect"),
        "swapped": ("note", "suspect"),
    }
    assert by_bookie["a"].evidence == {
        "ledgers": 2,
        "entries": 10,
        "bytes_estimate": 700,
        "doubted_ledgers": 2,  # not closed, and changed meanwhile; one that was deleted is not told
        "doubted_entries": 6,
        "doubted_bytes_estimate": 100,
        "sample": ["1", "2"],
        "rows": f"tables/judged, column {column}",
    }
    assert by_bookie["a"].message.startswith("a holds 16 entries of 4 ledgers ")
    assert "; 2 of these ledgers are unconfirmed" in by_bookie["a"].message
    assert (by_bookie["open"].evidence["ledgers"], by_bookie["open"].evidence["sample"]) == (0, ["3"])


def test_single_scan_confirms_surplus_entries(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark, bookies=[{"bookie_id": "a"}], judged=[judged("surplus", 5, entries("a", (1, 1, 1, 0)))]
    )
    [finding] = find("surplus-entries", cluster_tables)
    assert (finding.confidence, finding.evidence["ledgers"], finding.evidence["doubted_ledgers"]) == (
        "confirmed",
        1,
        0,
    )


def test_entries_past_the_end_get_one_suspect_finding_per_ledger(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        judged=[
            judged(
                "past_end", 1, entries("b", (10, 12, 1, 2)), entries("a", (10, 10, 3, 0)), past_end_last=12
            ),
            judged("surplus", 2, entries("a", (10, 10, 3, 0))),
        ],
    )
    [finding] = find("entries-past-end", cluster_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((1, None), "error", "suspect")
    assert (finding.evidence["last_entry"], finding.evidence["last_held"]) == (9, 12)
    assert finding.evidence["held"] == [
        {"bookie_id": "a", "count": 3, "groups": [[10, 10, 3, 0]]},
        {"bookie_id": "b", "count": 2, "groups": [[10, 12, 1, 2]]},
    ]
    assert "ends at entry 9, but 3 entries from 10 on are held by an ack quorum (2)" in finding.message
    assert finding.evidence["taken_over"] is False


def test_entries_past_the_end_of_a_taken_over_ledger_are_a_note(spark: SparkSession) -> None:
    late_entries = entries("a", (10, 10, 3, 0)), entries("b", (10, 10, 3, 0))
    rows = [
        judged("past_end", ledger, *late_entries, past_end_last=12, past_end_by_takeover=ledger == 1)
        for ledger in (1, 2)
    ]
    cluster_tables = tables(spark, judged=rows)
    by_ledger = {finding.ledger_id: finding for finding in find("entries-past-end", cluster_tables)}
    assert {ledger: finding.severity for ledger, finding in by_ledger.items()} == {1: "note", 2: "error"}
    assert by_ledger[1].message.endswith("a fenced writer that closes its own ledger leaves such entries too")
    copies = count_past_end_copies(cluster_tables)
    assert copies is not None
    assert {row["bookie_id"]: row["count"] for row in copies.collect()} == {"a": 1, "b": 1}
