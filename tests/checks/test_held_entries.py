"""Entries that a member holds besides its own: stale ones and surplus ones."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from auditor.checks.finding_rows import GROUPS_SHOWN
from tests.checks.tables_builder import entries, find, tables


@pytest.mark.parametrize(("check_id", "column"), [("stale-segment", "stale"), ("surplus-entries", "surplus")])
def test_held_entries_are_told_by_ledger_and_bookie(spark: SparkSession, check_id: str, column: str) -> None:
    large = (2**40, 2**40 + 9 * (2**31 - 1), 2**31 - 2, 2**31 - 1)
    asked = tables(
        spark,
        bookies=[{"bookie_id": "a"}, {"bookie_id": "b", "suspect": True}],
        judged=[
            {
                "ledger_id": 1,
                column: [entries("a", (0, 8, 2, 4), (20, 20, 1, 0)), entries("b", (5, 5, 1, 0))],
            },
            {"ledger_id": 2, column: [entries("a", large)], "state": "OPEN"},
            {"ledger_id": 3, "missing": [entries("a", (5, 5, 1, 0))]},
            {
                "ledger_id": 4,
                column: [entries("a", *[(7 * n, 7 * n, 1, 0) for n in range(GROUPS_SHOWN + 1)])],
            },
        ],
    )
    several, suspect, still_open, holed = find(check_id, asked)
    assert (several.where, several.severity, several.confidence) == ((1, "a"), "note", "confirmed")
    assert several.evidence["groups"] == [[0, 8, 2, 4], [20, 20, 1, 0]]
    assert (several.evidence["count"], several.missing) == (7, [])
    assert (suspect.where, suspect.confidence) == ((1, "b"), "suspect")
    assert (still_open.where, still_open.confidence) == ((2, "a"), "suspect")
    assert still_open.evidence["groups"] == [[*large]]
    assert (len(holed.evidence["groups"]), holed.evidence["group_count"]) == (GROUPS_SHOWN, GROUPS_SHOWN + 1)
    assert holed.evidence["count"] == GROUPS_SHOWN + 1
