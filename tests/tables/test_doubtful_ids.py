"""Ids that a scan may have missed: as ranges that do not meet, counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from auditor.audit.ids_in_doubt import count_ids_in_doubt
from auditor.keys.ledger_tree import MAX_LEDGER_ID, MIN_LEDGER_ID
from auditor.tables.doubtful_ids import doubtful_ids
from tests.tables.rows import ledger, ledgers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


def gap(path: str, low: int | None, high: int | None, scope: int | None = 0) -> Row:
    return {"status": "gap", "path": path, "damage": "refused", "low": low, "high": high, "scope_id": scope}


def ranges(spark: SparkSession, rows: list[Row]) -> list[tuple[Any, ...]]:
    found = doubtful_ids(ledgers(spark, *rows), None).collect()
    return sorted(
        (row["scope_id"] or 0, row["low"], row["high"], row["why"].partition(":")[0]) for row in found
    )


def test_a_store_that_may_be_cut_leaves_every_id_in_doubt(spark: SparkSession) -> None:
    rows = (ledger(1, {"bk1": {0}}), gap("/ledgers/00/0000/L0007", 7, 7))
    found = doubtful_ids(ledgers(spark, *rows), None, "the dump has no LAYOUT")
    assert (None, MIN_LEDGER_ID, MAX_LEDGER_ID) in {tuple(row[1:4]) for row in found.collect()}
    reasons = ["the dump has no LAYOUT", "/ledgers/00/0000/L0007: refused"]  # the widest first
    assert count_ids_in_doubt(found) == {"ids": None, "reasons": reasons}


def test_a_healthy_tree_leaves_nothing_in_doubt(spark: SparkSession) -> None:
    found = doubtful_ids(ledgers(spark, ledger(1, {"bk1": {0}})), None)
    assert found.collect() == []
    assert count_ids_in_doubt(found) is None


def test_ranges_that_lie_in_each_other_count_once(spark: SparkSession) -> None:
    rows = [
        gap("a", 0, 99),
        gap("b", 10, 19),
        gap("c", 90, 109),
        gap("d", 5, 5, scope=7),
        gap("e", None, None),
    ]
    assert ranges(spark, rows) == [(0, 0, 99, "a"), (0, 100, 109, "c"), (7, 5, 5, "d")]
    assert count_ids_in_doubt(doubtful_ids(ledgers(spark, *rows), None)) == {
        "ids": "111",
        "reasons": ["a: refused", "c: refused", "d: refused"],
    }


def test_two_scans_that_miss_the_same_ids_count_them_once(spark: SparkSession) -> None:
    one = ledgers(spark, gap("a", 0, 9_999))
    assert count_ids_in_doubt(
        doubtful_ids(one, ledgers(spark, gap("a", 0, 9_999), gap("b", 10_000, 10_000)))
    ) == {
        "ids": "10001",
        "reasons": ["a: refused", "b: refused"],
    }


@pytest.mark.parametrize(("scope", "ids"), [(None, None), (0, str(2**64))])
def test_the_whole_tree_may_be_unseen(spark: SparkSession, scope: int | None, ids: str | None) -> None:
    found = count_ids_in_doubt(
        doubtful_ids(ledgers(spark, gap("/r", MIN_LEDGER_ID, MAX_LEDGER_ID, scope)), None)
    )
    assert found is not None
    assert found["ids"] == ids


def test_a_name_that_no_ledger_can_have_puts_nothing_in_doubt(spark: SparkSession) -> None:
    stray = {"status": "misplaced", "path": "/r/Lnotanumber"}
    read_by_server = {"status": "misplaced", "path": "/r/00/0000/X5", "ledger_id": 5}
    wrong_place = {"status": "misplaced", "path": "/r/00/0000/L7", "ledger_id": 7, "low": 7, "high": 7}
    found = doubtful_ids(ledgers(spark, stray, read_by_server), None)
    assert [(row["low"], row["high"], row["unseen"]) for row in found.collect()] == [(5, 5, False)]
    assert count_ids_in_doubt(found) is None
    assert count_ids_in_doubt(doubtful_ids(ledgers(spark, stray, read_by_server, wrong_place), None)) == {
        "ids": "1",
        "reasons": ["/r/00/0000/L7: not at the path of a ledger"],
    }
