"""What a replication worker leaves in the queue: locks without a mark, directories without marks."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from auditor.tables import Tables
from auditor.tables.marks import empty_directories
from tests.checks.tables_builder import HOUR, NOW, facts, find, places, tables

QUEUE = "/ledgers/underreplication/ledgers"
MANY = 100


def test_an_old_lock_without_a_mark_says_who_holds_it_and_since_when(spark: SparkSession) -> None:
    old = NOW - HOUR - 1
    asked = tables(
        spark,
        marks=[
            {"ledger_id": 2},
            {"ledger_id": 4, "misplaced": True},
            {"ledger_id": 5, "damage": "no text protobuf"},
        ],
        locks=[
            {"ledger_id": 1, "owner": "host-a", "ctime": old},
            {"ledger_id": 2, "owner": "host-a", "ctime": old},  # a worker at work
            {"ledger_id": 3, "owner": "host-a", "ctime": NOW - HOUR},  # a lock for a moment
            {"ledger_id": 4, "ctime": old - HOUR},  # no worker finds that mark
            {"ledger_id": 5, "ctime": old},  # it is marked, whatever for
            {"ledger_id": 6, "ctime": old, "damage": "no text protobuf"},  # another check's
        ],
    )
    found = find("lock-without-mark", asked)
    assert places(found) == [(1, None), (4, None)]
    assert {(each.severity, each.confidence) for each in found} == {("note", "suspect")}
    assert (
        found[0].message
        == "ledger 1 has been locked by host-a for 60 minutes, but is not marked for re-replication"
    )
    assert found[0].evidence == {"path": "lock", "owner": "host-a", "since": old, "minutes": 60}
    assert "by a worker without a name for 120 minutes" in found[1].message


def test_where_not_all_marks_were_listed_no_lock_is_without_one(spark: SparkSession) -> None:
    locks = [{"ledger_id": 1, "ctime": NOW - 9 * HOUR}]
    assert find("lock-without-mark", tables(spark, facts(has_marks=False), locks=locks)) == []


def directories(spark: SparkSession, count: int, live: bool = False, has_marks: bool = True) -> Tables:
    rows = [
        {"path": f"{QUEUE}/0000/0000/0000/{number:04x}", "ctime": NOW - number} for number in range(count)
    ]
    return tables(spark, facts(live=live, has_marks=has_marks), empty_directories=rows)


def test_many_directories_without_marks_are_one_finding(spark: SparkSession) -> None:
    [found] = find("mark-directory-empty", directories(spark, MANY))
    assert (found.where, found.severity, found.confidence) == ((None, None), "note", "confirmed")
    assert found.evidence["directories"] == MANY
    assert found.evidence["oldest"] == NOW - MANY + 1
    assert found.evidence["sample"] == [f"{QUEUE}/0000/0000/0000/{number:04x}" for number in range(10)]
    assert found.message.startswith("100 directories in the replication queue contain no mark, such as")


@pytest.mark.parametrize("count", [0, MANY - 1])
def test_a_few_directories_without_marks_are_everyday_life(spark: SparkSession, count: int) -> None:
    assert find("mark-directory-empty", directories(spark, count)) == []


def test_directories_of_a_running_store_may_be_in_use_for_a_moment(spark: SparkSession) -> None:
    [found] = find("mark-directory-empty", directories(spark, MANY, live=True))
    assert found.confidence == "suspect"
    assert find("mark-directory-empty", directories(spark, MANY, has_marks=False)) == []


def test_a_directory_is_empty_where_nothing_lies_in_it(spark: SparkSession) -> None:
    marks = spark.createDataFrame(
        [
            ("directory", f"{QUEUE}/0000", 1),
            ("directory", f"{QUEUE}/0000/0000", 2),  # has the next one only
            ("directory", f"{QUEUE}/0000/0000/0000", 3),
            ("mark", f"{QUEUE}/0000/0000/0000/0001/urL0000000001", None),  # its directory was not seen
            ("directory", f"{QUEUE}/0000/0000/0000/0002", 4),
            ("mark", f"{QUEUE}/0000/0000/0000/0002/urL0000000002", None),
            ("directory", f"{QUEUE}/0000/0000/0000/0003", 5),  # empty
            ("directory", f"{QUEUE}/0001", 6),  # empty, higher up
            ("directory", f"{QUEUE}/0002", 7),  # could not be listed
            ("gap", f"{QUEUE}/0002", None),
            ("directory", f"{QUEUE}/0003", 8),  # has a child that could not be read
            ("gap", f"{QUEUE}/0003/0000", None),
            ("directory", f"{QUEUE}/0004", 10),  # read without the directories below it
            ("directory", f"{QUEUE}/0004/0000", 11),
            ("mark", f"{QUEUE}/0004/0000/0000/0001/urL0004000000000001", None),
            ("lock", "/ledgers/underreplication/locks/urL0000000003", 9),
        ],
        "kind string, path string, ctime long",
    )
    found = empty_directories(marks)
    assert sorted(map(tuple, found.collect())) == [
        (f"{QUEUE}/0000/0000/0000/0003", 5),
        (f"{QUEUE}/0001", 6),
    ]
    asked = tables(spark).add(empty_directories=found)
    assert find("mark-directory-empty", asked) == []
