"""Marks that are stale, stuck, or of deleted or empty ledgers. Each mark has at most one of these states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.check_settings import CheckSettings
from auditor.tables import Tables
from auditor.tables.marks import stale_marks
from tests.checks.tables_builder import HOUR, NOW_MS, Row, find, ledger, places, tables


def mark(ledger_id: int, *replicas: str, **overrides: object) -> Row:
    return {
        "ledger_id": ledger_id,
        "replicas": list(replicas),
        "ctime": NOW_MS - HOUR,
        "mtime": NOW_MS,
        **overrides,
    }


BOOKIES: list[Row] = [
    {"bookie_id": "up"},
    {"bookie_id": "also-up", "registered": "readonly"},
    {"bookie_id": "down", "registered": None},
]
OLD = NOW_MS - 25 * HOUR


def with_stale_marks(spark: SparkSession, **rows: Any) -> Tables:
    """Return the tables and the table of stale marks, which is computed from them as in an audit."""
    cluster_tables = tables(spark, **rows)
    stale = stale_marks(
        cluster_tables.marks, cluster_tables.verdicts, cluster_tables.ledgers, cluster_tables.bookies
    )
    return cluster_tables.add(stale_marks=stale)


def test_mark_of_a_healthy_ledger_is_stale(spark: SparkSession) -> None:
    whole = {"class": "healthy", "potential_class": "healthy"}
    cluster_tables = with_stale_marks(
        spark,
        bookies=BOOKIES,
        ledgers=[ledger(number, "up", "also-up") for number in (1, 2, 4, 5, 6, 7)]
        + [ledger(3, "up", "down")],
        verdicts=[{"ledger_id": number, **whole} for number in (1, 2, 3, 5, 6, 7)]
        + [{"ledger_id": 4, "class": "healthy", "potential_class": "below-write-quorum"}],
        marks=[
            mark(1, "up", "also-up"),  # returned
            mark(2, "down", ctime=OLD),  # repaired: down is in no ensemble any more
            mark(3, "down"),  # rightly marked
            mark(4, "up"),  # not known to be whole
            mark(5),  # a placement mark
            mark(6, "up", damage="no text protobuf"),
            mark(7, "up", misplaced=True),
        ],
        locks=[{"ledger_id": 1}],
    )
    by_bookie = {finding.bookie_id: finding for finding in find("mark-stale", cluster_tables)}
    assert set(by_bookie) == {"up", "also-up", "down"}
    assert {(finding.ledger_id, finding.severity, finding.confidence) for finding in by_bookie.values()} == {
        (None, "note", "confirmed")
    }
    counts = {
        name: (finding.evidence["returned"], finding.evidence["repaired"])
        for name, finding in by_bookie.items()
    }
    assert counts == {"up": (1, 0), "also-up": (1, 0), "down": (0, 1)}
    assert [by_bookie[name].evidence["sample"] for name in ("up", "down")] == [["1"], ["2"]]
    why = {row["ledger_id"]: row["why"] for row in cluster_tables.stale_marks.collect()}
    assert why == {1: "returned", 2: "repaired"}
    assert find("mark-stuck", cluster_tables) == []


def test_stale_marks_of_changed_ledgers_are_doubted(spark: SparkSession) -> None:
    whole = {"class": "healthy", "potential_class": "healthy"}
    cluster_tables = with_stale_marks(
        spark,
        bookies=BOOKIES,
        ledgers=[ledger(number, "up") for number in (1, 2, 3)],
        verdicts=[{"ledger_id": number, **whole} for number in (1, 2, 3)],
        marks=[mark(number, "up") for number in (1, 2, 3)],
    )
    scheme = "scope_id long, ledger_id long, listed boolean, version long, version_again long, doubt string"
    moved = spark.createDataFrame([(0, 2, True, 1, 2, None), (0, 3, True, 1, None, None)], scheme)
    [finding] = find("mark-stale", replace(cluster_tables, moved_ledgers=moved))
    assert (finding.confidence, finding.evidence["ledgers"], finding.evidence["doubted_ledgers"]) == (
        "confirmed",
        1,
        1,
    )
    moved = spark.createDataFrame([(0, number, True, 1, 2, None) for number in (1, 2, 3)], scheme)
    [finding] = find("mark-stale", replace(cluster_tables, moved_ledgers=moved))
    assert (finding.confidence, finding.evidence["ledgers"], finding.evidence["doubted_ledgers"]) == (
        "suspect",
        0,
        3,
    )


def test_mark_without_a_ledger_is_reported_unless_the_ledger_may_be_hidden(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=BOOKIES,
        ledgers=[
            ledger(1, "down"),
            {"ledger_id": 2, "status": "unreadable"},
            {"status": "gap", "low": 10, "high": 19},
            {"status": "misplaced", "low": None, "high": None},
        ],
        marks=[mark(number, "down", ctime=OLD) for number in (1, 2, 3, 10, 20)] + [mark(21)],
    )
    [deleted] = find("mark-of-deleted-ledger", cluster_tables)
    assert (deleted.where, deleted.severity, deleted.confidence) == ((None, "down"), "note", "confirmed")
    assert deleted.evidence == {"ledgers": 2, "sample": ["3", "20"], "rows": "tables/marks"}
    assert (
        deleted.message == "down: 2 ledgers are marked for it, but have no metadata; for example ledger 3, 20"
    )
    stuck = find("mark-stuck", cluster_tables)
    assert [(finding.ledger_id, finding.confidence) for finding in stuck] == [
        (1, "confirmed"),
        (2, "confirmed"),
        (10, "suspect"),  # it may be gone, and its mark left over
    ]


def test_marks_of_deleted_ledgers_get_one_finding_per_bookie(spark: SparkSession) -> None:
    marks = [mark(number, "down", "up") if number < 3 else mark(number, "down") for number in range(20)]
    findings = find(
        "mark-of-deleted-ledger", tables(spark, bookies=BOOKIES, marks=[*marks, mark(30, "also-up")])
    )
    assert [(finding.bookie_id, finding.evidence["ledgers"]) for finding in findings] == [
        ("also-up", 1), ("down", 20), ("up", 3),
    ]  # fmt: skip
    assert findings[1].evidence["sample"] == [str(number) for number in range(10)]
    assert findings[0].message == "also-up: 1 ledger is marked for it, but has no metadata: 30"


def test_a_mark_is_stuck_after_a_day_without_a_worker(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=BOOKIES,
        ledgers=[ledger(number, "down", write_quorum=2) for number in (1, 2, 3, 4, 5)]
        + [ledger(6, "down", write_quorum=1), ledger(7, "down", write_quorum=1, depends=False)],
        marks=[
            mark(1, "down", ctime=OLD),
            mark(2, "down", ctime=NOW_MS - 24 * HOUR),
            mark(3, "down", ctime=OLD),  # locked
            mark(4, ctime=OLD),  # a placement mark
            mark(5, "down", ctime=None, mtime=OLD),  # a server that keeps no times in marks
            mark(6, "down", ctime=OLD),
            mark(7, "down", ctime=OLD),
        ],
        locks=[{"ledger_id": 3}],
    )
    by_ledger = {finding.ledger_id: finding for finding in find("mark-stuck", cluster_tables)}
    assert {number: finding.severity for number, finding in by_ledger.items()} == {
        1: "warning",
        5: "warning",
        6: "error",
        7: "warning",
    }
    assert by_ledger[1].evidence["hours"] == 25
    assert "for 25 hours" in by_ledger[1].message
    assert by_ledger[6].evidence["unrecoverable"] is True


@pytest.mark.parametrize(("grace_hours", "elapsed"), [(1, [1, 2]), (1_000, [])])
def test_stuck_marks_match_the_auditors_grace_period_gauge(
    spark: SparkSession, grace_hours: int, elapsed: list[int]
) -> None:
    """`AuditorPlacementPolicyCheckTest`: NUM_UNDERREPLICATED_LEDGERS_ELAPSED_RECOVERY_GRACE_PERIOD."""
    cluster_tables = tables(
        spark,
        bookies=BOOKIES,
        ledgers=[ledger(1, "up", "down"), ledger(2, "up", "down", state="OPEN"), ledger(3, "up", "down")],
        marks=[mark(number, "down", ctime=NOW_MS - 5 * HOUR) for number in (1, 2)],
    )
    cluster = replace(cluster_tables.cluster, settings=CheckSettings(stuck_hours=grace_hours))
    assert [
        finding.ledger_id for finding in find("mark-stuck", replace(cluster_tables, cluster=cluster))
    ] == elapsed


def test_an_old_mark_of_a_ledger_without_entries_is_not_stuck(spark: SparkSession) -> None:
    empty: dict[str, Any] = {"last_entry_id": -1, "depends": False}
    cluster_tables = with_stale_marks(
        spark,
        bookies=[*BOOKIES, {"bookie_id": "also-down", "registered": None}],
        ledgers=[
            *(ledger(number, "up", "down", **empty) for number in (1, 2, 3, 4, 5)),
            ledger(6, "up", "down", state="OPEN", **empty),  # its end is not known
            ledger(7, "up", "down", last_entry_id=0, depends=False),  # one entry, on others
            ledger(8, "up", "down", undecidable=True, status="broken", **empty),
            ledger(9, "up", **empty),  # repaired
            ledger(10, "down", "also-down", **empty),
        ],
        verdicts=[{"ledger_id": number} for number in range(1, 11)],
        marks=[
            mark(1, "down", ctime=OLD),
            mark(2, "down", ctime=OLD),  # locked
            mark(3, "down"),  # an hour: a worker will come
            mark(4, ctime=OLD),  # a placement mark
            mark(5, "up", ctime=OLD),  # stale: it returned
            *(mark(number, "down", ctime=OLD) for number in (6, 7, 8, 9)),
            mark(10, "down", "also-down", ctime=OLD),
            mark(11, "down", ctime=OLD),  # of a ledger that is gone
        ],
        locks=[{"ledger_id": 2}],
    )
    by_bookie = {finding.bookie_id: finding for finding in find("mark-of-empty-ledger", cluster_tables)}
    assert {name: finding.evidence["sample"] for name, finding in by_bookie.items()} == {
        "down": ["1", "10"],
        "also-down": ["10"],
    }
    assert {(finding.ledger_id, finding.severity, finding.confidence) for finding in by_bookie.values()} == {
        (None, "note", "confirmed")
    }
    assert by_bookie["down"].message.startswith(
        "down: 2 closed ledgers without entries have been marked for it"
    )
    assert places(find("mark-stuck", cluster_tables)) == [(6, None), (7, None), (8, None)]


def test_empty_ledger_that_changed_makes_the_finding_suspect(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=BOOKIES,
        ledgers=[ledger(1, "down", last_entry_id=-1, depends=False)],
        marks=[mark(1, "down", ctime=OLD)],
    )
    scheme = "scope_id long, ledger_id long, listed boolean, version long, version_again long, doubt string"
    moved = spark.createDataFrame([(0, 1, True, 1, 2, None)], scheme)
    [finding] = find("mark-of-empty-ledger", replace(cluster_tables, moved_ledgers=moved))
    assert (finding.confidence, finding.evidence["ledgers"], finding.evidence["doubted_ledgers"]) == (
        "suspect",
        0,
        1,
    )
