"""Ledgers that a bookie on DbLedgerStorage refuses or does not find: one finding a bookie."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.checks.tables_builder import entries, find, ledger, tables

ONE = (0, 0, 1, 0)


def rows(state: str, *ledgers: int, path: str | None = None, **said: Any) -> list[dict[str, Any]]:
    usual = {"bookie_id": "bk1", "state": state, "storage": "rocksdb", "path": path}
    return [{**usual, "ledger_id": number, **said} for number in ledgers]


def due(number: int, *members: str, **said: Any) -> Any:
    """A ledger of which every member should have an entry."""
    replicas = [(member, entries(member, ONE)[1], True) for member in members]
    return {**ledger(number, **said), "replicas": replicas}


def test_a_bookie_with_ledgers_in_limbo_is_one_finding(spark: SparkSession) -> None:
    asked = tables(
        spark,
        ledgers=[
            due(1, "bk1", "bk2"),
            due(2, "bk1", "bk2"),
            ledger(3, "bk1", state="OPEN"),  # of its one segment nothing is judged
            due(4, "bk2"),
            due(6, "bk1", "bk2"),
        ],
        # Of 6 the bookie served an entry; 4 does not name it, and 5 is deleted.
        judged=[
            *({"ledger_id": number, "unknown": [("bk1", 1, "limbo")]} for number in (1, 2)),
            {"ledger_id": 3},
            {"ledger_id": 6},
        ],
        availability=[*rows("limbo", 1, 2, 3, 4, 5, 6), *rows("ok", 7)],
    )
    [found] = find("ledgers-in-limbo", asked)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "warning", "confirmed")
    assert (found.unknown, found.missing) == (["bk1"], [])
    assert found.evidence == {"ledgers": 3, "closed": 2, "sample": ["1", "2", "3"]}
    assert found.message == (
        "bk1 has 3 ledgers in limbo and refuses to read their entries; closed ledgers among them: 2"
    )


def test_the_copies_of_a_bookie_that_was_read_in_part_are_in_limbo_too(spark: SparkSession) -> None:
    """The flag that a check is due leaves all that a bookie lacks unknown."""
    asked = tables(
        spark,
        ledgers=[due(1, "bk1", "bk2")],
        judged=[{"ledger_id": 1, "unknown": [("bk1", 1, "unread")]}],
        availability=rows("limbo", 1),
        directories=[],
        bookies=[{"bookie_id": "bk1", "suspect": True}],
    )
    [found] = find("ledgers-in-limbo", asked)
    assert found.confidence == "suspect"  # whose disk it is, is not sure


def test_exchanged_directories_are_one_finding_and_say_so(spark: SparkSession) -> None:
    first, second = "/d/ledgers0/current/locations", "/d/ledgers1/current/locations"
    asked = tables(
        spark,
        ledgers=[due(number, "bk1", "bk2") for number in range(20)],
        availability=[
            *rows("wrong-directory", *range(1, 20, 2), path=first),
            *rows("wrong-directory", *range(0, 20, 2), 99, path=second),
            *rows("ok", 21, path=second),  # written since
        ],
    )
    [found] = find("ledgers-in-wrong-directory", asked)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "error", "confirmed")
    assert found.message == (
        "the directories /d/ledgers0, /d/ledgers1 of bk1 were swapped, so it cannot find 20 ledgers"
    )
    assert found.evidence["directories"] == [
        {"path": "/d/ledgers0", "wrong": 10, "right": 0},
        {"path": "/d/ledgers1", "wrong": 11, "right": 1},
    ]
    assert (found.evidence["exchanged"], found.evidence["ledgers"]) == (True, 20)
    assert find("index-unreadable", asked) == []


def test_other_ledgers_in_the_wrong_directory_are_no_exchange(spark: SparkSession) -> None:
    """One directory was made two: those that belong in the new one are not found."""
    asked = tables(
        spark,
        ledgers=[due(number, "bk1") for number in range(6)],
        availability=[
            *rows("wrong-directory", 1, 3, 5, path="/d/l0/current/locations"),
            *rows("ok", 0, 2, 4, path="/d/l0/current/locations"),
            *rows("wrong-directory", 1, path="/e/l0/current/locations", bookie_id="bk3"),  # is no member
        ],
    )
    [found] = find("ledgers-in-wrong-directory", asked)
    assert found.message == "bk1 cannot find 3 ledgers, because they are in the wrong directory: /d/l0"
    assert found.evidence["exchanged"] is False
