"""Entry logs that garbage collection deletes, and entry logs that a few needed bytes keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.collector_settings import CollectorSettings
from auditor.model.states import SpaceClass
from auditor.tables import Tables
from tests.checks.tables_builder import NOW_MS, Row, facts, find, frame, tables

HEADERS = {"class": SpaceClass.HEADERS_AND_MAPS.value, "bytes": 1024}


def log_tables(spark: SparkSession, *logs: tuple[int, list[Row]], **other_rows: Any) -> Tables:
    """Return logs of bk1: each has an id, rows of the table space, and a header of 1,024 bytes."""
    rows = [
        {"bookie_id": "bk1", "directory": "/l", "path": f"/l/current/{log_id:x}.log", "log_id": log_id}
        | {"kind": "log", "estimated": False, "remains": False, "scope_id": 0, **row}
        | {name: any(log_row.get(name) for log_row in log_rows) for name in ("current", "unflushed")}
        for log_id, log_rows in logs
        for row in [{**HEADERS, "scope_id": None}, *log_rows]
    ]
    other_rows = {"log_foresight": [], **other_rows}
    cluster_tables = tables(spark, bookies=[{"bookie_id": "bk1"}], **other_rows)
    return cluster_tables.add(space=frame(spark, "space", rows))


def live(ledger_id: int, size: int) -> Row:
    return {"ledger_id": ledger_id, "class": SpaceClass.LIVE.value, "bytes": size, "remains": True}


def garbage(ledger_id: int, size: int, kind: SpaceClass = SpaceClass.SUPERSEDED) -> Row:
    return {"ledger_id": ledger_id, "class": kind.value, "bytes": size}


def test_log_without_remaining_ledgers_is_reclaimable(spark: SparkSession) -> None:
    rows = log_tables(
        spark,
        (1, [garbage(7, 500), garbage(8, 300, SpaceClass.ORPHAN)]),
        (2, [garbage(7, 500), live(9, 1)]),
        (3, [live(9, 1000)]),
        (4, [{**garbage(7, 500), "class": SpaceClass.OWNER_UNKNOWN.value}]),
        (5, [{**garbage(7, 500), "current": True}]),
        (6, [garbage(7, 500), garbage(8, 1, SpaceClass.NOT_INDEXED)]),
        (7, [garbage(7, 500), garbage(8, 1, SpaceClass.OWNER_NAMED)]),
    )
    [finding] = find("entry-log-reclaimable", rows)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "note", "confirmed")
    assert finding.evidence["logs"] == 1
    assert finding.evidence["sample"][0]["path"] == "/l/current/1.log"


def test_deletion_that_a_past_collection_skipped_is_suspect(spark: SparkSession) -> None:
    plans = [
        {"bookie_id": "bk1", "path": f"/l/current/{log}.log", "overdue": overdue}
        for log, overdue in ((1, True), (2, False), (3, True))
    ]
    logs = (1, [garbage(7, 500)]), (2, [garbage(8, 500)]), (3, [live(9, 1)])
    [finding] = find("entry-log-reclaimable", log_tables(spark, *logs, log_foresight=plans))
    assert (finding.confidence, finding.evidence["logs"], finding.evidence["overdue"]) == ("suspect", 2, 1)
    assert finding.message.endswith("; a garbage collection since an earlier run did not delete 1 of them")


def test_deletion_that_waits_for_a_flush_is_suspect(spark: SparkSession) -> None:
    orphan: Row = {**garbage(7, 500, SpaceClass.ORPHAN), "unflushed": True}
    logs = (1, [orphan]), (2, [garbage(8, 500)])
    [finding] = find("entry-log-reclaimable", log_tables(spark, *logs))
    assert (finding.confidence, finding.evidence["unflushed"]) == ("suspect", 1)
    assert finding.message.endswith("; 1 of them may still be open and waiting for a flush")
    # What a collection has left is said once.
    plans = [{"bookie_id": "bk1", "path": "/l/current/1.log", "overdue": True}]
    [overdue] = find("entry-log-reclaimable", log_tables(spark, *logs, log_foresight=plans))
    assert (overdue.confidence, overdue.evidence["unflushed"], overdue.evidence["overdue"]) == (
        "suspect",
        0,
        1,
    )


def test_bookie_with_only_needed_logs_has_no_log_finding(spark: SparkSession) -> None:
    rows = log_tables(spark, (1, [live(9, 1000)]), (2, [live(9, 10), live(10, 5)]))
    assert find("entry-log-reclaimable", rows) == []
    assert find("entry-log-pinned", rows) == []


def test_pinned_bytes_are_counted_by_the_threshold_that_frees_them(spark: SparkSession) -> None:
    rows = log_tables(
        spark,
        (1, [garbage(7, 900), live(9, 100)]),  # a tenth is needed: minor compaction
        (2, [garbage(7, 600), live(9, 400)]),  # major
        (3, [garbage(7, 100), live(9, 900)]),  # none
        (4, [garbage(7, 1000)]),  # nobody keeps it
        (5, [garbage(7, 900), live(9, 100), garbage(8, 1, SpaceClass.NOT_INDEXED)]),  # nobody should touch it
        (6, [garbage(7, 900), live(9, 100), garbage(8, 1, SpaceClass.OWNER_NAMED)]),
    )
    [finding] = find("entry-log-pinned", rows)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "note", "confirmed")
    sizes = {name: finding.evidence[f"{name}_bytes"] for name in ("held", "minor", "major", "stranded")}
    assert sizes == {"held": 1600, "minor": 900, "major": 600, "stranded": 100}
    assert finding.evidence["logs"] == 3


def test_log_findings_of_a_suspect_bookie_are_suspect(spark: SparkSession) -> None:
    rows = log_tables(spark, (1, [garbage(7, 900)]), (2, [garbage(7, 900), live(9, 100)]))
    suspects = tables(spark, bookies=[{"bookie_id": "bk1", "suspect": True}])
    doubted = replace(rows.add(bookies=suspects.bookies), roster=suspects.roster)
    assert [finding.confidence for finding in find("entry-log-reclaimable", doubted)] == ["suspect"]
    assert [finding.confidence for finding in find("entry-log-pinned", doubted)] == ["suspect"]


def cached(log_id: int, **overrides: Any) -> Row:
    path = f"/l/current/{log_id:x}.log"
    return {"bookie_id": "bk1", "path": path, "log_id": log_id, "kind": "log", "state": "ok", **overrides}


def test_wrong_cached_metadata_of_a_log_is_critical(spark: SparkSession) -> None:
    """The cache has other bytes of log 1. Of log 2 it lacks ledger 9, which is live, and deleted ledger 7."""
    cluster_tables = log_tables(
        spark, (1, [live(9, 1000)]), (2, [live(9, 60), garbage(7, 500)]), (3, [live(9, 5)])
    )
    rows = [
        cached(1, cache="wrong", cache_reason="metadata-cache has 1 bytes", bytes=2000),
        cached(2, cache="ok", bytes=2000),
        cached(2, scope_id=0, ledger_id=9, entry_bytes=60, cached_bytes=0),
        cached(2, scope_id=0, ledger_id=7, entry_bytes=500, cached_bytes=0),
        cached(3, cache="ok", bytes=2000),
        cached(3, scope_id=0, ledger_id=9, entry_bytes=5, cached_bytes=5),
        cached(4, cache="unreadable", cache_reason="metadata-cache: no database", bytes=2000),
    ]
    [finding] = find(
        "entry-log-header-wrong", cluster_tables.add(entry_logs=frame(spark, "entry_logs", rows))
    )
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert {log["path"]: log["reason"] for log in finding.evidence["sample"]} == {
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
def test_finding_of_a_misleading_log_header_depends_on_the_read_buffer(
    spark: SparkSession, settings: CollectorSettings, confidence: list[str]
) -> None:
    rows = [
        cached(1, state="header-astray", bytes=2000, reason="a ledgers map at byte -5"),
        cached(2, state="map-unreadable", bytes=2000, reason="a ledgers map at byte 5"),
    ]
    cluster_tables = replace(log_tables(spark, (1, [live(9, 1000)])), collector_settings=settings)
    findings = find("entry-log-header-wrong", cluster_tables.add(entry_logs=frame(spark, "entry_logs", rows)))
    assert [finding.confidence for finding in findings] == confidence
    assert {finding.severity for finding in findings} <= {"critical"}
    assert all(finding.evidence["logs"] == 1 for finding in findings)


def test_logs_without_bytes_have_no_finding(spark: SparkSession) -> None:
    rows = log_tables(spark)
    assert find("entry-log-reclaimable", rows) == []
    assert find("entry-log-pinned", rows) == []


def test_missing_logs_of_a_bookie_without_any_log_are_suspect(spark: SparkSession) -> None:
    """A copy may omit all logs of a bookie, but a single log that is missing among others is lost."""
    points = [
        {"bookie_id": bookie, "scope_id": 0, "ledger_id": 7, "log_id": 3, "probe": "missing", "entries": 2}
        for bookie in ("bk1", "bk2")
    ]
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}],
        misplaced=points,
        gone_entries=[],
        entry_logs=[{"bookie_id": "bk2", "log_id": 4}],
    )
    findings = find("entry-log-missing", cluster_tables)
    assert [
        (finding.bookie_id, finding.confidence, finding.evidence["no_log_at_all"]) for finding in findings
    ] == [
        ("bk1", "suspect", True),
        ("bk2", "confirmed", False),
    ]


def misplaced(bookie: str, **overrides: Any) -> Row:
    row = {"bookie_id": bookie, "scope_id": 0, "ledger_id": 7, "log_id": 3, "entries": 2, "since": NOW_MS}
    return row | {"probe": "missing", "probe_entry": 0, "probe_offset": 1028} | overrides


def test_missing_log_is_confirmed_by_a_second_reading_or_a_stopped_bookie(
    spark: SparkSession,
) -> None:
    """up: seen for the first time; seen: also by an earlier run; down: not registered in a live store.

    agreed: the index and the list of logs were read twice; once: they were read once, as in a collection.
    """
    bookies = ("up", "seen", "down", "agreed", "once")
    cluster_tables = tables(
        spark,
        facts(live=True),
        bookies=[
            {"bookie_id": bookie, "registered": None if bookie == "down" else "writable"}
            for bookie in bookies
        ],
        misplaced=[misplaced(bookie, since=NOW_MS - (bookie == "seen")) for bookie in bookies],
        gone_entries=[
            {"bookie_id": state, "scope_id": 0, "ledger_id": 7, "state": state}
            for state in ("agreed", "once")
        ],
        entry_logs=[{"bookie_id": bookie, "log_id": 4} for bookie in bookies],
    )
    confidences = {
        bookie.bookie_id: bookie.confidence for bookie in find("entry-log-missing", cluster_tables)
    }
    sure = dict.fromkeys(("seen", "down", "agreed"), "confirmed")
    assert confidences == {"up": "suspect", "once": "suspect", **sure}


def test_misplaced_location_message_names_the_entry_found_there(spark: SparkSession) -> None:
    rows = [
        misplaced("bk1", probe="other", probe_entry=5, there_ledger_id=9, there_entry_id=2),
        misplaced("bk2", probe="other", probe_entry=5),
        misplaced("bk3"),
        misplaced("bk4", probe="misnamed", log_id=12),
    ]
    bookies = [{"bookie_id": f"bk{number}"} for number in (1, 2, 3, 4)]
    cluster_tables = tables(spark, bookies=bookies, misplaced=rows, gone_entries=[], entry_logs=bookies)
    findings = {finding.bookie_id: finding for finding in find("entry-log-missing", cluster_tables)}
    assert findings["bk1"].message.endswith(
        "; the index locates entry 5 of ledger 7 where entry 2 of ledger 9 is"
    )
    assert findings["bk2"].message.endswith("; the index locates entry 5 of ledger 7 where there is no entry")
    assert findings["bk3"].message.endswith("; for example ledger 7")
    assert findings["bk4"].message.endswith(
        "; 1 are in logs whose file name is the log id in decimal, such as 12.log"
    )
    assert findings["bk1"].evidence["points_to"]["there_ledger"] == "9"
    assert findings["bk3"].evidence["points_to"] is None
