"""Entry logs that collection deletes, and those that a few bytes keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.collector_settings import CollectorSettings
from auditor.model.states import SpaceClass
from auditor.tables import Tables
from tests.checks.tables_builder import NOW, Row, facts, find, frame, tables

HEADERS = {"class": SpaceClass.HEADERS_AND_MAPS.value, "bytes": 1024}


def asked(spark: SparkSession, *logs: tuple[int, list[Row]], **others: Any) -> Tables:
    """Logs of bk1: each an id and rows of the table space, beside 1,024 bytes of header."""
    rows = [
        {"bookie_id": "bk1", "directory": "/l", "path": f"/l/current/{log_id:x}.log", "log_id": log_id}
        | {"kind": "log", "estimated": False, "remains": False, "scope_id": 0, **row}
        | {name: any(each.get(name) for each in of_log) for name in ("current", "unflushed")}
        for log_id, of_log in logs
        for row in [{**HEADERS, "scope_id": None}, *of_log]
    ]
    others = {"log_foresight": [], **others}
    known = tables(spark, bookies=[{"bookie_id": "bk1"}], **others)
    return known.add(space=frame(spark, "space", rows))


def live(ledger_id: int, size: int) -> Row:
    return {"ledger_id": ledger_id, "class": SpaceClass.LIVE.value, "bytes": size, "remains": True}


def gone(ledger_id: int, size: int, kind: SpaceClass = SpaceClass.SUPERSEDED) -> Row:
    return {"ledger_id": ledger_id, "class": kind.value, "bytes": size}


def test_a_log_of_which_no_ledger_is_left_is_deleted_next(spark: SparkSession) -> None:
    rows = asked(
        spark,
        (1, [gone(7, 500), gone(8, 300, SpaceClass.ORPHAN)]),
        (2, [gone(7, 500), live(9, 1)]),
        (3, [live(9, 1000)]),
        (4, [{**gone(7, 500), "class": SpaceClass.OWNER_UNKNOWN.value}]),
        (5, [{**gone(7, 500), "current": True}]),
        (6, [gone(7, 500), gone(8, 1, SpaceClass.NOT_INDEXED)]),
        (7, [gone(7, 500), gone(8, 1, SpaceClass.OWNER_NAMED)]),
    )
    [found] = find("entry-log-reclaimable", rows)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "note", "confirmed")
    assert found.evidence["logs"] == 1
    assert found.evidence["sample"][0]["path"] == "/l/current/1.log"


def test_a_deletion_that_a_collection_left_out_is_not_confirmed_again(spark: SparkSession) -> None:
    plans = [
        {"bookie_id": "bk1", "path": f"/l/current/{log}.log", "overdue": overdue}
        for log, overdue in ((1, True), (2, False), (3, True))
    ]
    logs = (1, [gone(7, 500)]), (2, [gone(8, 500)]), (3, [live(9, 1)])
    [found] = find("entry-log-reclaimable", asked(spark, *logs, log_foresight=plans))
    assert (found.confidence, found.evidence["logs"], found.evidence["overdue"]) == ("suspect", 2, 1)
    assert found.message.endswith("; a garbage collection since an earlier run did not delete 1 of them")


def test_a_deletion_that_waits_for_a_flush_is_not_confirmed(spark: SparkSession) -> None:
    orphan: Row = {**gone(7, 500, SpaceClass.ORPHAN), "unflushed": True}
    logs = (1, [orphan]), (2, [gone(8, 500)])
    [found] = find("entry-log-reclaimable", asked(spark, *logs))
    assert (found.confidence, found.evidence["unflushed"]) == ("suspect", 1)
    assert found.message.endswith("; 1 of them may still be open and waiting for a flush")
    # What a collection has left is said once.
    plans = [{"bookie_id": "bk1", "path": "/l/current/1.log", "overdue": True}]
    [left] = find("entry-log-reclaimable", asked(spark, *logs, log_foresight=plans))
    assert (left.confidence, left.evidence["unflushed"], left.evidence["overdue"]) == ("suspect", 0, 1)


def test_a_bookie_whose_every_log_is_needed_has_no_such_finding(spark: SparkSession) -> None:
    rows = asked(spark, (1, [live(9, 1000)]), (2, [live(9, 10), live(10, 5)]))
    assert find("entry-log-reclaimable", rows) == []
    assert find("entry-log-pinned", rows) == []


def test_bytes_that_a_ledger_keeps_are_told_by_the_threshold_that_frees_them(spark: SparkSession) -> None:
    rows = asked(
        spark,
        (1, [gone(7, 900), live(9, 100)]),  # a tenth is needed: minor compaction
        (2, [gone(7, 600), live(9, 400)]),  # major
        (3, [gone(7, 100), live(9, 900)]),  # none
        (4, [gone(7, 1000)]),  # nobody keeps it
        (5, [gone(7, 900), live(9, 100), gone(8, 1, SpaceClass.NOT_INDEXED)]),  # nobody should touch it
        (6, [gone(7, 900), live(9, 100), gone(8, 1, SpaceClass.OWNER_NAMED)]),
    )
    [found] = find("entry-log-pinned", rows)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "note", "confirmed")
    sizes = {name: found.evidence[f"{name}_bytes"] for name in ("held", "minor", "major", "stranded")}
    assert sizes == {"held": 1600, "minor": 900, "major": 600, "stranded": 100}
    assert found.evidence["logs"] == 3


def test_whose_disk_is_in_doubt_is_suspected_alone(spark: SparkSession) -> None:
    rows = asked(spark, (1, [gone(7, 900)]), (2, [gone(7, 900), live(9, 100)]))
    made = tables(spark, bookies=[{"bookie_id": "bk1", "suspect": True}])
    doubted = replace(rows.add(bookies=made.bookies), roster=made.roster)
    assert [each.confidence for each in find("entry-log-reclaimable", doubted)] == ["suspect"]
    assert [each.confidence for each in find("entry-log-pinned", doubted)] == ["suspect"]


def cached(log_id: int, **said: Any) -> Row:
    path = f"/l/current/{log_id:x}.log"
    return {"bookie_id": "bk1", "path": path, "log_id": log_id, "kind": "log", "state": "ok", **said}


def test_what_the_collector_remembers_wrong_of_a_log_is_critical(spark: SparkSession) -> None:
    """It has other bytes of log 1; of log 2 it forgot ledger 9, which lives, and ledger 7, which is gone."""
    known = asked(spark, (1, [live(9, 1000)]), (2, [live(9, 60), gone(7, 500)]), (3, [live(9, 5)]))
    rows = [
        cached(1, cache="wrong", cache_reason="metadata-cache has 1 bytes", bytes=2000),
        cached(2, cache="ok", bytes=2000),
        cached(2, scope_id=0, ledger_id=9, entry_bytes=60, cached_bytes=0),
        cached(2, scope_id=0, ledger_id=7, entry_bytes=500, cached_bytes=0),
        cached(3, cache="ok", bytes=2000),
        cached(3, scope_id=0, ledger_id=9, entry_bytes=5, cached_bytes=5),
        cached(4, cache="unreadable", cache_reason="metadata-cache: no database", bytes=2000),
    ]
    [found] = find("entry-log-header-wrong", known.add(entry_logs=frame(spark, "entry_logs", rows)))
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert {each["path"]: each["reason"] for each in found.evidence["sample"]} == {
        "/l/current/1.log": "metadata-cache has 1 bytes",
        "/l/current/2.log": "metadata-cache lacks ledger 9, but the log has 60 bytes of it",
    }


@pytest.mark.parametrize(
    ("settings", "confidence"),
    [
        (CollectorSettings(), ["suspect"]),
        (CollectorSettings(source="bk_server.conf"), []),
        (CollectorSettings(source="bk_server.conf", read_buffer=1024), []),
        (CollectorSettings(source="bk_server.conf", read_buffer=4096), ["confirmed"]),
    ],
)
def test_a_header_that_leads_a_large_read_buffer_astray_counts_as_the_bookies_are_set(
    spark: SparkSession, settings: CollectorSettings, confidence: list[str]
) -> None:
    rows = [
        cached(1, state="header-astray", bytes=2000, reason="a ledgers map at byte -5"),
        cached(2, state="map-unreadable", bytes=2000, reason="a ledgers map at byte 5"),
    ]
    known = replace(asked(spark, (1, [live(9, 1000)])), collector_settings=settings)
    found = find("entry-log-header-wrong", known.add(entry_logs=frame(spark, "entry_logs", rows)))
    assert [each.confidence for each in found] == confidence
    assert {each.severity for each in found} <= {"critical"}
    assert all(each.evidence["logs"] == 1 for each in found)


def test_without_bytes_there_is_nothing_to_say(spark: SparkSession) -> None:
    rows = asked(spark)
    assert find("entry-log-reclaimable", rows) == []
    assert find("entry-log-pinned", rows) == []


def test_an_index_of_a_bookie_without_any_log_is_a_suspect(spark: SparkSession) -> None:
    """Its logs were left out of a copy, perhaps; one log that is gone among others is lost."""
    points = [
        {"bookie_id": bookie, "scope_id": 0, "ledger_id": 7, "log_id": 3, "probe": "missing", "entries": 2}
        for bookie in ("bk1", "bk2")
    ]
    known = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}],
        misplaced=points,
        gone_entries=[],
        entry_logs=[{"bookie_id": "bk2", "log_id": 4}],
    )
    found = find("entry-log-missing", known)
    assert [(each.bookie_id, each.confidence, each.evidence["no_log_at_all"]) for each in found] == [
        ("bk1", "suspect", True),
        ("bk2", "confirmed", False),
    ]


def misplaced(bookie: str, **said: Any) -> Row:
    row = {"bookie_id": bookie, "scope_id": 0, "ledger_id": 7, "log_id": 3, "entries": 2, "since": NOW}
    return row | {"probe": "missing", "probe_entry": 0, "probe_offset": 1028} | said


def test_of_a_running_bookie_the_second_run_decides_and_of_one_that_stands_still_the_first(
    spark: SparkSession,
) -> None:
    """up: seen for the first time; seen: by an earlier run too; down: not registered beside a live store.

    agreed: index and list of logs were read twice; once: they were read once, as of a collection.
    """
    bookies = ("up", "seen", "down", "agreed", "once")
    known = tables(
        spark,
        facts(live=True),
        bookies=[
            {"bookie_id": each, "registered": None if each == "down" else "writable"} for each in bookies
        ],
        misplaced=[misplaced(each, since=NOW - (each == "seen")) for each in bookies],
        gone_entries=[
            {"bookie_id": state, "scope_id": 0, "ledger_id": 7, "state": state}
            for state in ("agreed", "once")
        ],
        entry_logs=[{"bookie_id": each, "log_id": 4} for each in bookies],
    )
    found = {each.bookie_id: each.confidence for each in find("entry-log-missing", known)}
    sure = dict.fromkeys(("seen", "down", "agreed"), "confirmed")
    assert found == {"up": "suspect", "once": "suspect", **sure}


def test_a_location_that_points_to_another_entry_says_to_which(spark: SparkSession) -> None:
    rows = [
        misplaced("bk1", probe="other", probe_entry=5, there_ledger_id=9, there_entry_id=2),
        misplaced("bk2", probe="other", probe_entry=5),
        misplaced("bk3"),
        misplaced("bk4", probe="misnamed", log_id=12),
    ]
    bookies = [{"bookie_id": f"bk{number}"} for number in (1, 2, 3, 4)]
    known = tables(spark, bookies=bookies, misplaced=rows, gone_entries=[], entry_logs=bookies)
    found = {each.bookie_id: each for each in find("entry-log-missing", known)}
    assert found["bk1"].message.endswith(
        "; the index locates entry 5 of ledger 7 where entry 2 of ledger 9 is"
    )
    assert found["bk2"].message.endswith("; the index locates entry 5 of ledger 7 where there is no entry")
    assert found["bk3"].message.endswith("; for example ledger 7")
    assert found["bk4"].message.endswith(
        "; 1 are in logs whose file name is the log id in decimal, such as 12.log"
    )
    assert found["bk1"].evidence["points_to"]["there_ledger"] == "9"
    assert found["bk3"].evidence["points_to"] is None
