"""Indexes that cannot be read, or that their bookie does not serve."""

from __future__ import annotations

from pyspark.sql import SparkSession

from auditor.model.states import DELETED_REASON
from tests.checks.tables_builder import find, ledger, places, tables


def test_a_damaged_index_is_told_with_its_byte(spark: SparkSession) -> None:
    asked = tables(
        spark,
        availability=[
            {
                "ledger_id": 1,
                "bookie_id": "bk1",
                "state": "unreadable",
                "path": "1.idx",
                "offset": 0,
                "reason": "empty",
            },
            {
                "ledger_id": 2,
                "bookie_id": "bk1",
                "state": "cut",
                "offset": 1030,
                "reason": "ends inside a page",
            },
            {"ledger_id": 3, "bookie_id": "bk1", "state": "ok"},
            {"ledger_id": 4, "bookie_id": "bk1", "state": "unreadable", "reason": DELETED_REASON},
            {"bookie_id": "bk1", "state": "gap", "path": "ledgers1"},
        ],
    )
    empty, cut, gone = find("index-unreadable", asked)
    # A running bookie deletes what it has collected, also while its files are read.
    assert (gone.where, gone.confidence, gone.unknown) == ((4, "bk1"), "suspect", ["bk1"])
    assert (empty.where, empty.severity, empty.confidence) == ((1, "bk1"), "error", "confirmed")
    assert empty.evidence == {"state": "unreadable", "path": "1.idx", "offset": 0, "reason": "empty"}
    assert (empty.unknown, empty.missing) == (["bk1"], [])
    assert cut.where == (2, "bk1")
    assert cut.message == "ledger 2: its index on bk1 is cut short: ends inside a page"


def test_damaged_databases_are_told_once_with_the_path_of_the_first_and_no_ledger(
    spark: SparkSession,
) -> None:
    damaged = {"scope_id": None, "bookie_id": "bk1", "state": "damaged", "storage": "rocksdb"}
    paths = ["ledgers0/current/locations", "ledgers1/current/ledgers"]
    asked = tables(
        spark,
        availability=[
            *({**damaged, "path": path, "offset": 77, "reason": "a block of wrong sum"} for path in paths),
            # The bookie did not answer: nothing is said of its index.
            {"ledger_id": 4, "bookie_id": "bk1", "state": "unreadable", "storage": "rpc"},
        ],
    )
    [found] = find("index-unreadable", asked)
    assert (found.scope_id, found.ledger_id, found.bookie_id, found.severity) == (None, None, "bk1", "error")
    assert found.message == (
        "bk1: the index at ledgers0/current/locations is damaged: a block of wrong sum; "
        "2 of its databases are damaged"
    )
    assert (found.evidence["path"], found.unknown) == (paths[0], ["bk1"])


def test_a_ledger_in_limbo_is_no_damage(spark: SparkSession) -> None:
    asked = tables(
        spark,
        ledgers=[ledger(1, "bk1", "bk2")],
        availability=[{"ledger_id": 1, "bookie_id": "bk1", "state": "limbo"}],
    )
    assert find("index-unreadable", asked) == find("ledger-not-indexed", asked) == []


def test_a_ledger_that_is_not_indexed_matters_only_to_a_member(spark: SparkSession) -> None:
    rows = [{"ledger_id": number, "bookie_id": "bk1", "state": "not-indexed"} for number in (1, 2, 3)]
    asked = tables(
        spark,
        # 3 is deleted, or of another scope.
        ledgers=[ledger(1, "bk1", "bk2"), ledger(2, "bk2"), ledger(3, "bk1", scope_id=1)],
        availability=rows,
    )
    [found] = find("ledger-not-indexed", asked)
    assert (found.where, found.severity, found.unknown) == ((1, "bk1"), "error", ["bk1"])
    assert found.confidence == "confirmed"
    assert places(find("index-unreadable", asked)) == []
