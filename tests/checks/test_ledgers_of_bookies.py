"""Ledgers that a bookie on DbLedgerStorage refuses or does not find: one finding per bookie."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.checks.tables_builder import entries, find, ledger, tables

ONE_ENTRY = (0, 0, 1, 0)


def rows(state: str, *ledgers: int, path: str | None = None, **overrides: Any) -> list[dict[str, Any]]:
    defaults = {"bookie_id": "bk1", "state": state, "storage": "rocksdb", "path": path}
    return [{**defaults, "ledger_id": number, **overrides} for number in ledgers]


def due_ledger(number: int, *members: str, **overrides: Any) -> Any:
    """Return a ledger of which every member should have an entry."""
    replicas = [(member, entries(member, ONE_ENTRY)[1], True) for member in members]
    return {**ledger(number, **overrides), "replicas": replicas}


def test_ledgers_in_limbo_get_one_finding_per_bookie(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[
            due_ledger(1, "bk1", "bk2"),
            due_ledger(2, "bk1", "bk2"),
            ledger(3, "bk1", state="OPEN"),  # of its one segment nothing is judged
            due_ledger(4, "bk2"),
            due_ledger(6, "bk1", "bk2"),
        ],
        # Of 6 the bookie served an entry; 4 does not name it, and 5 is deleted.
        judged=[
            *({"ledger_id": number, "unknown": [("bk1", 1, "limbo")]} for number in (1, 2)),
            {"ledger_id": 3},
            {"ledger_id": 6},
        ],
        availability=[*rows("limbo", 1, 2, 3, 4, 5, 6), *rows("ok", 7)],
    )
    [finding] = find("ledgers-in-limbo", cluster_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "warning", "confirmed")
    assert (finding.unknown, finding.missing) == (["bk1"], [])
    assert finding.evidence == {"ledgers": 3, "closed": 2, "sample": ["1", "2", "3"]}
    assert finding.message == (
        "bk1 has 3 ledgers in limbo and refuses to read their entries; closed ledgers among them: 2"
    )


def test_limbo_ledgers_of_a_partially_read_bookie_are_reported(spark: SparkSession) -> None:
    """The flag for a due integrity check makes all data that the bookie lacks unknown."""
    cluster_tables = tables(
        spark,
        ledgers=[due_ledger(1, "bk1", "bk2")],
        judged=[{"ledger_id": 1, "unknown": [("bk1", 1, "unread")]}],
        availability=rows("limbo", 1),
        directories=[],
        bookies=[{"bookie_id": "bk1", "suspect": True}],
    )
    [finding] = find("ledgers-in-limbo", cluster_tables)
    assert finding.confidence == "suspect"  # whose disk it is, is not sure


def test_swapped_directories_get_one_finding_that_says_so(spark: SparkSession) -> None:
    first, second = "/d/ledgers0/current/locations", "/d/ledgers1/current/locations"
    cluster_tables = tables(
        spark,
        ledgers=[due_ledger(number, "bk1", "bk2") for number in range(20)],
        availability=[
            *rows("wrong-directory", *range(1, 20, 2), path=first),
            *rows("wrong-directory", *range(0, 20, 2), 99, path=second),
            *rows("ok", 21, path=second),  # written since
        ],
    )
    [finding] = find("ledgers-in-wrong-directory", cluster_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "error", "confirmed")
    assert finding.message == (
        "the directories /d/ledgers0, /d/ledgers1 of bk1 were swapped, so it cannot find 20 ledgers"
    )
    assert finding.evidence["directories"] == [
        {"path": "/d/ledgers0", "wrong": 10, "right": 0},
        {"path": "/d/ledgers1", "wrong": 11, "right": 1},
    ]
    assert (finding.evidence["exchanged"], finding.evidence["ledgers"]) == (True, 20)
    assert find("index-unreadable", cluster_tables) == []


def test_misplaced_ledgers_of_one_directory_are_not_called_a_swap(spark: SparkSession) -> None:
    """One directory became two, and the bookie does not find the ledgers that belong in the new one."""
    cluster_tables = tables(
        spark,
        ledgers=[due_ledger(number, "bk1") for number in range(6)],
        availability=[
            *rows("wrong-directory", 1, 3, 5, path="/d/l0/current/locations"),
            *rows("ok", 0, 2, 4, path="/d/l0/current/locations"),
            *rows("wrong-directory", 1, path="/e/l0/current/locations", bookie_id="bk3"),  # is no member
        ],
    )
    [finding] = find("ledgers-in-wrong-directory", cluster_tables)
    assert finding.message == "bk1 cannot find 3 ledgers, because they are in the wrong directory: /d/l0"
    assert finding.evidence["exchanged"] is False
