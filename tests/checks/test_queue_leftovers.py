"""Leftovers of replication workers in the queue: locks without a mark, directories without marks."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from auditor.tables import Tables
from auditor.tables.marks import find_empty_directories
from tests.checks.tables_builder import HOUR, NOW_MS, facts, find, places, tables

QUEUE = "/ledgers/underreplication/ledgers"
MANY = 100


def test_old_lock_without_a_mark_is_reported_with_its_owner_and_time(spark: SparkSession) -> None:
    old = NOW_MS - HOUR - 1
    cluster_tables = tables(
        spark,
        marks=[
            {"ledger_id": 2},
            {"ledger_id": 4, "misplaced": True},
            {"ledger_id": 5, "damage": "no text protobuf"},
        ],
        locks=[
            {"ledger_id": 1, "owner": "host-a", "ctime": old},
            {"ledger_id": 2, "owner": "host-a", "ctime": old},  # a worker at work
            {"ledger_id": 3, "owner": "host-a", "ctime": NOW_MS - HOUR},  # a lock for a moment
            {"ledger_id": 4, "ctime": old - HOUR},  # no worker finds that mark
            {"ledger_id": 5, "ctime": old},  # it is marked, whatever for
            {"ledger_id": 6, "ctime": old, "damage": "no text protobuf"},  # another check's
        ],
    )
    findings = find("lock-without-mark", cluster_tables)
    assert places(findings) == [(1, None), (4, None)]
    assert {(finding.severity, finding.confidence) for finding in findings} == {("note", "suspect")}
    assert (
        findings[0].message
        == "ledger 1 has been locked by host-a for 60 minutes, but is not marked for re-replication"
    )
    assert findings[0].evidence == {"path": "lock", "owner": "host-a", "since": old, "minutes": 60}
    assert "by a worker without a name for 120 minutes" in findings[1].message


def test_incomplete_list_of_marks_gives_no_lock_without_mark_finding(spark: SparkSession) -> None:
    locks = [{"ledger_id": 1, "ctime": NOW_MS - 9 * HOUR}]
    assert find("lock-without-mark", tables(spark, facts(has_marks=False), locks=locks)) == []


def directories(spark: SparkSession, count: int, live: bool = False, has_marks: bool = True) -> Tables:
    rows = [
        {"path": f"{QUEUE}/0000/0000/0000/{number:04x}", "ctime": NOW_MS - number} for number in range(count)
    ]
    return tables(spark, facts(live=live, has_marks=has_marks), empty_directories=rows)


def test_many_directories_without_marks_get_one_finding(spark: SparkSession) -> None:
    [finding] = find("mark-directory-empty", directories(spark, MANY))
    assert (finding.where, finding.severity, finding.confidence) == ((None, None), "note", "confirmed")
    assert finding.evidence["directories"] == MANY
    assert finding.evidence["oldest"] == NOW_MS - MANY + 1
    assert finding.evidence["sample"] == [f"{QUEUE}/0000/0000/0000/{number:04x}" for number in range(10)]
    assert finding.message.startswith("100 directories in the replication queue contain no mark, such as")


@pytest.mark.parametrize("count", [0, MANY - 1])
def test_a_few_directories_without_marks_get_no_finding(spark: SparkSession, count: int) -> None:
    assert find("mark-directory-empty", directories(spark, count)) == []


def test_empty_directories_of_a_live_store_are_suspect(spark: SparkSession) -> None:
    [finding] = find("mark-directory-empty", directories(spark, MANY, live=True))
    assert finding.confidence == "suspect"
    assert find("mark-directory-empty", directories(spark, MANY, has_marks=False)) == []


def test_directory_without_marks_or_unread_children_is_empty(spark: SparkSession) -> None:
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
    empty_rows = find_empty_directories(marks)
    assert sorted(map(tuple, empty_rows.collect())) == [
        (f"{QUEUE}/0000/0000/0000/0003", 5),
        (f"{QUEUE}/0001", 6),
    ]
    cluster_tables = tables(spark).add(empty_directories=empty_rows)
    assert find("mark-directory-empty", cluster_tables) == []
