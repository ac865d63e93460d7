"""Ids that a scan may have missed, as disjoint ranges in which each id is counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from auditor.audit.metadata_scan import MAX_MISPLACED_LEDGERS, count_doubtful_ids, find_wrong_tree
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID
from auditor.tables.scans import doubtful_ids
from tests.tables.rows import ledger, ledgers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


def gap(path: str, low: int | None, high: int | None, scope: int | None = 0) -> Row:
    return {"status": "gap", "path": path, "damage": "refused", "low": low, "high": high, "scope_id": scope}


def ranges(spark: SparkSession, rows: list[Row]) -> list[tuple[Any, ...]]:
    doubt_rows = doubtful_ids(ledgers(spark, *rows), None).collect()
    return sorted(
        (row["scope_id"] or 0, row["low"], row["high"], row["why"].partition(":")[0]) for row in doubt_rows
    )


def test_store_that_may_be_incomplete_puts_every_id_in_doubt(spark: SparkSession) -> None:
    rows = (ledger(1, {"bk1": {0}}), gap("/ledgers/00/0000/L0007", 7, 7))
    doubts = doubtful_ids(ledgers(spark, *rows), None, "the dump has no LAYOUT")
    assert (None, MIN_LEDGER_ID, MAX_LEDGER_ID) in {tuple(row[1:4]) for row in doubts.collect()}
    reasons = ["the dump has no LAYOUT", "/ledgers/00/0000/L0007: refused"]  # the widest first
    assert count_doubtful_ids(doubts) == {"ids": None, "reasons": reasons}


def test_complete_tree_puts_no_id_in_doubt(spark: SparkSession) -> None:
    doubts = doubtful_ids(ledgers(spark, ledger(1, {"bk1": {0}})), None)
    assert doubts.collect() == []
    assert count_doubtful_ids(doubts) is None


def test_overlapping_ranges_are_counted_once(spark: SparkSession) -> None:
    rows = [
        gap("a", 0, 99),
        gap("b", 10, 19),
        gap("c", 90, 109),
        gap("d", 5, 5, scope=7),
        gap("e", None, None),
    ]
    assert ranges(spark, rows) == [(0, 0, 99, "a"), (0, 100, 109, "c"), (7, 5, 5, "d")]
    assert count_doubtful_ids(doubtful_ids(ledgers(spark, *rows), None)) == {
        "ids": "111",
        "reasons": ["a: refused", "c: refused", "d: refused"],
    }


def test_ids_missed_by_two_scans_are_counted_once(spark: SparkSession) -> None:
    first_scan = ledgers(spark, gap("a", 0, 9_999))
    assert count_doubtful_ids(
        doubtful_ids(first_scan, ledgers(spark, gap("a", 0, 9_999), gap("b", 10_000, 10_000)))
    ) == {
        "ids": "10001",
        "reasons": ["a: refused", "b: refused"],
    }


@pytest.mark.parametrize(("scope", "ids"), [(None, None), (0, str(2**64))])
def test_gap_over_whole_tree_counts_ids_of_known_scope(
    spark: SparkSession, scope: int | None, ids: str | None
) -> None:
    doubts = count_doubtful_ids(
        doubtful_ids(ledgers(spark, gap("/r", MIN_LEDGER_ID, MAX_LEDGER_ID, scope)), None)
    )
    assert doubts is not None
    assert doubts["ids"] == ids


def test_name_impossible_for_a_ledger_puts_no_id_in_doubt(spark: SparkSession) -> None:
    stray = {"status": "misplaced", "path": "/r/Lnotanumber"}
    read_by_server = {"status": "misplaced", "path": "/r/00/0000/X5", "ledger_id": 5}
    wrong_place = {"status": "misplaced", "path": "/r/00/0000/L7", "ledger_id": 7, "low": 7, "high": 7}
    doubts = doubtful_ids(ledgers(spark, stray, read_by_server), None)
    assert [(row["low"], row["high"], row["unseen"]) for row in doubts.collect()] == [(5, 5, False)]
    assert count_doubtful_ids(doubts) is None
    assert count_doubtful_ids(doubtful_ids(ledgers(spark, stray, read_by_server, wrong_place), None)) == {
        "ids": "1",
        "reasons": ["/r/00/0000/L7: not at the path of a ledger"],
    }


def misplaced_row(ledger_id: int, layout: str = "hierarchical") -> Row:
    path, damage = f"/r/{layout}/{ledger_id}", f"a path of layout {layout}"
    values = {"scope_id": 0, "low": ledger_id, "high": ledger_id}
    return {"status": "misplaced", "path": path, "damage": damage, **values}


def test_tree_at_paths_of_another_layout_puts_every_id_in_doubt(spark: SparkSession) -> None:
    own = [ledger(number, {"bk1": {0}}) for number in (1, 2)]
    lost = [misplaced_row(3), misplaced_row(4, "flat")]
    scan = ledgers(spark, *own, *lost)
    why = find_wrong_tree(scan, "LAYOUT says longhierarchical")
    assert why == (
        "LAYOUT says longhierarchical, but 2 ledgers are at paths of layout flat and hierarchical; "
        "2 are at paths of the layout in use"
    )
    doubts = doubtful_ids(scan, scan, why)
    assert [tuple(row)[:5] for row in doubts.collect()] == [(1, None, MIN_LEDGER_ID, MAX_LEDGER_ID, True)]
    assert count_doubtful_ids(doubts) == {"ids": None, "reasons": [why]}
    lone_reason = find_wrong_tree(ledgers(spark, misplaced_row(3)), "LAYOUT says flat")
    assert lone_reason == (
        "LAYOUT says flat, but 1 ledger is at paths of layout hierarchical; 0 are at paths of the layout "
        "in use"
    )


def test_few_ledgers_at_paths_of_another_layout_put_only_their_ids_in_doubt(spark: SparkSession) -> None:
    own = [dict(ledger(number, {"bk1": {0}})) for number in (1, 2)]
    # The first is in its own place too: a copy that was left behind.
    scan = ledgers(spark, *own, misplaced_row(1), misplaced_row(3))
    assert find_wrong_tree(scan, "LAYOUT says flat") is None
    assert ranges(spark, [*own, misplaced_row(1), misplaced_row(3)]) == [(0, 3, 3, "/r/hierarchical/3")]
    assert count_doubtful_ids(doubtful_ids(scan, None)) == {
        "ids": "1",
        "reasons": ["/r/hierarchical/3: a path of layout hierarchical"],
    }
    leftover_copies = ledgers(spark, *own, misplaced_row(1), misplaced_row(2))
    assert find_wrong_tree(leftover_copies, "LAYOUT says flat") is None
    assert doubtful_ids(leftover_copies, None).collect() == []
    assert find_wrong_tree(ledgers(spark, *own), "LAYOUT says flat") is None


def test_more_misplaced_ledgers_than_limit_are_a_wrong_tree(
    spark: SparkSession,
) -> None:
    own = spark.range(30_000).selectExpr(
        "'ok' as status", "0L as scope_id", "id as ledger_id", "null as damage"
    )
    own = own.selectExpr("*", "cast(null as long) as low")

    def with_strays(number: int) -> str | None:
        strays = spark.range(number).selectExpr(
            "'misplaced' as status", "0L as scope_id", "cast(null as long) as ledger_id",
            "'a path of layout flat' as damage", "50000 + id as low",
        )  # fmt: skip
        return find_wrong_tree(own.unionByName(strays), "LAYOUT says hierarchical")

    assert with_strays(MAX_MISPLACED_LEDGERS) is None
    assert "10,001 ledgers are" in (with_strays(MAX_MISPLACED_LEDGERS + 1) or "")
