"""Indexes that cannot be read, or that their bookie does not serve."""

from __future__ import annotations

from pyspark.sql import SparkSession

from auditor.model.states import DELETED_REASON
from tests.checks.tables_builder import find, ledger, places, tables


def test_damaged_index_finding_has_the_byte_offset(spark: SparkSession) -> None:
    cluster_tables = tables(
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
    empty, cut, deleted = find("index-unreadable", cluster_tables)
    # A running bookie deletes what it has collected, also while its files are read.
    assert (deleted.where, deleted.confidence, deleted.unknown) == ((4, "bk1"), "suspect", ["bk1"])
    assert (empty.where, empty.severity, empty.confidence) == ((1, "bk1"), "error", "confirmed")
    assert empty.evidence == {"state": "unreadable", "path": "1.idx", "offset": 0, "reason": "empty"}
    assert (empty.unknown, empty.missing) == (["bk1"], [])
    assert cut.where == (2, "bk1")
    assert cut.message == "ledger 2: its index on bk1 is cut short: ends inside a page"


def test_damaged_databases_get_one_finding_with_the_first_path(
    spark: SparkSession,
) -> None:
    damaged = {"scope_id": None, "bookie_id": "bk1", "state": "damaged", "storage": "rocksdb"}
    paths = ["ledgers0/current/locations", "ledgers1/current/ledgers"]
    cluster_tables = tables(
        spark,
        availability=[
            *({**damaged, "path": path, "offset": 77, "reason": "a block of wrong sum"} for path in paths),
            # The bookie did not answer: nothing is said of its index.
            {"ledger_id": 4, "bookie_id": "bk1", "state": "unreadable", "storage": "rpc"},
        ],
    )
    [finding] = find("index-unreadable", cluster_tables)
    assert (finding.scope_id, finding.ledger_id, finding.bookie_id, finding.severity) == (
        None,
        None,
        "bk1",
        "error",
    )
    assert finding.message == (
        "bk1: the index at ledgers0/current/locations is damaged: a block of wrong sum; "
        "2 of its databases are damaged"
    )
    assert (finding.evidence["path"], finding.unknown) == (paths[0], ["bk1"])


def test_ledger_in_limbo_is_not_reported_as_damaged(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[ledger(1, "bk1", "bk2")],
        availability=[{"ledger_id": 1, "bookie_id": "bk1", "state": "limbo"}],
    )
    assert find("index-unreadable", cluster_tables) == find("ledger-not-indexed", cluster_tables) == []


def test_unindexed_ledger_is_reported_only_on_its_members(spark: SparkSession) -> None:
    rows = [{"ledger_id": number, "bookie_id": "bk1", "state": "not-indexed"} for number in (1, 2, 3)]
    cluster_tables = tables(
        spark,
        # 3 is deleted, or of another scope.
        ledgers=[ledger(1, "bk1", "bk2"), ledger(2, "bk2"), ledger(3, "bk1", scope_id=1)],
        availability=rows,
    )
    [finding] = find("ledger-not-indexed", cluster_tables)
    assert (finding.where, finding.severity, finding.unknown) == ((1, "bk1"), "error", ["bk1"])
    assert finding.confidence == "confirmed"
    assert places(find("index-unreadable", cluster_tables)) == []
