"""Collections that come next, and those that are overdue: the three checks of the forecast tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from auditor.model.collector_settings import CollectorSettings
from auditor.tables import Tables
from tests.checks.tables_builder import NOW_MS, Row, facts, find, frame, tables

MINUTE = 60_000
HOUR = 60 * MINUTE
PLAN: Row = {
    "scope_id": 0, "bookie_id": "bk1", "pass": "listing", "action": "delete", "cause": "not-listed",
    "verdict": "right", "reason": "no-metadata", "since": NOW_MS,
}  # fmt: skip
OUT_OF_PLACE: Row = {**PLAN, "cause": "listed-out-of-order", "verdict": "wrong", "reason": "in-its-ensembles"}
LOG: Row = {
    "bookie_id": "bk1", "directory": "/l", "log_id": 1, "bytes": 1000, "entries": 900, "remain": 90,
    "usage": 0.1, "action": "minor", "frees": 910,
}  # fmt: skip


def plans(spark: SparkSession, *rows: Row, **bookie: object) -> Tables:
    plan_rows = [{**PLAN, "ledger_id": number, **row} for number, row in enumerate(rows)]
    bookies = [{"bookie_id": "bk1", "index_time": NOW_MS, **bookie}]
    return tables(spark, facts(live=True), gc_foresight=plan_rows, bookies=bookies)


def logs(spark: SparkSession, *rows: Row, **bookie: object) -> Tables:
    log_rows = [{**LOG, "path": f"/l/{number}.log", **row} for number, row in enumerate(rows)]
    return tables(spark, log_foresight=log_rows, bookies=[{"bookie_id": "bk1", **bookie}])


def test_deletion_of_a_needed_ledger_is_critical(spark: SparkSession) -> None:
    rows = plans(
        spark,
        OUT_OF_PLACE,
        {**OUT_OF_PLACE, "pass": "over-replicated", "cause": "in-no-ensemble", "reason": "last-copy"},
        {**OUT_OF_PLACE, "action": "keep", "reason": "not-collected"},
        {**OUT_OF_PLACE, "reason": "under-another-id"},
        {**OUT_OF_PLACE, "verdict": "unknown", "reason": "metadata-unreadable"},
        {},
    )
    [finding] = find("gc-would-delete-live", rows)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert (finding.evidence["ledgers"], finding.evidence["sample"]) == (2, ["0", "1"])
    assert finding.evidence["reasons"] == ["in-its-ensembles", "last-copy"]
    assert finding.message == (
        "bk1: the next garbage collection deletes 2 live ledgers (0, 1), because the bookie has the last "
        "copy, but is in no ensemble, and the server's ledger listing is not in order"
    )


def test_foresight_findings_of_a_suspect_bookie_are_suspect(spark: SparkSession) -> None:
    [finding] = find("gc-would-delete-live", plans(spark, OUT_OF_PLACE, suspect=True))
    assert finding.confidence == "suspect"
    old = {"since": NOW_MS - 2 * HOUR}
    [stuck] = find("orphan-stuck", plans(spark, old, suspect=True))
    assert stuck.confidence == "suspect"
    [late] = find("compaction-stopped", logs(spark, {"minor_since": NOW_MS - 3 * HOUR}, suspect=True))
    assert late.confidence == "suspect"


def test_garbage_that_outlives_two_collector_waits_is_stuck(spark: SparkSession) -> None:
    rows = plans(
        spark,
        {"since": NOW_MS - 61 * MINUTE},
        {"since": NOW_MS - 59 * MINUTE},
        {"since": NOW_MS - 5 * HOUR},
        {
            "since": NOW_MS - 4 * HOUR,
            "action": "keep",
            "cause": "listing-breaks-off",
            "reason": "not-collected",
        },
        {"since": NOW_MS - 5 * HOUR, "action": "keep", "reason": "kept"},
        {"since": NOW_MS - 5 * HOUR, "pass": "over-replicated", "reason": "copies-elsewhere"},
        {"since": NOW_MS - 5 * HOUR, "verdict": "unknown", "reason": "newer-than-scan"},
    )
    [finding] = find("orphan-stuck", rows)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "warning", "confirmed")
    assert (finding.evidence["ledgers"], finding.evidence["since"]) == (3, NOW_MS - 5 * HOUR)
    assert finding.evidence["causes"] == ["listing-breaks-off", "not-listed"]
    assert finding.message == (
        "bk1 still has 3 ledgers that its garbage collector should have deleted within 1.0 h (2 passes); "
        "the first has been known since 1970-02-11 11:00:00 UTC"
    )


def test_configured_collector_wait_decides_when_garbage_is_stuck(spark: SparkSession) -> None:
    rows = plans(spark, {"since": NOW_MS - 21 * MINUTE})
    assert find("orphan-stuck", rows) == []
    [finding] = find("orphan-stuck", replace(rows, collector_settings=CollectorSettings(source="bk.conf")))
    assert (finding.evidence["within_ms"], finding.evidence["settings"]) == (20 * MINUTE, "bk.conf")
    slow = CollectorSettings(wait_ms=11 * MINUTE, source="bk.conf")
    assert find("orphan-stuck", replace(rows, collector_settings=slow)) == []


@pytest.mark.parametrize(
    ("bookie", "row", "confidence"),
    [
        ({"registered": None}, {}, None),
        ({"index_time": None}, {}, "suspect"),
        ({"index_time": NOW_MS - 3 * HOUR}, {}, "suspect"),
        ({}, {"verdict": "unknown", "reason": "metadata-suspect"}, "suspect"),
    ],
    ids=["does-not-run", "index-of-no-time", "index-older-than-the-first-run", "store-in-doubt"],
)
def test_stuck_garbage_is_not_confirmed_on_incomplete_evidence(
    spark: SparkSession, bookie: Row, row: Row, confidence: str | None
) -> None:
    findings = find("orphan-stuck", plans(spark, {"since": NOW_MS - 2 * HOUR, **row}, **bookie))
    assert [finding.confidence for finding in findings] == ([] if confidence is None else [confidence])


def test_logs_that_compaction_skipped_for_two_intervals_are_reported(spark: SparkSession) -> None:
    rows = logs(
        spark,
        {"minor_since": NOW_MS - 3 * HOUR, "major_since": NOW_MS - 3 * HOUR},
        {"minor_since": NOW_MS - HOUR, "major_since": NOW_MS - 49 * HOUR},
        {"minor_since": NOW_MS - HOUR, "major_since": NOW_MS - 47 * HOUR},
        {"action": "keep"},
    )
    [finding] = find("compaction-stopped", rows)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "warning", "confirmed")
    evidence = {key: finding.evidence[key] for key in ("logs", "minor_logs", "frees", "since", "sample")}
    assert evidence == {
        "logs": 2, "minor_logs": 1, "frees": 1820, "since": NOW_MS - 49 * HOUR,
        "sample": ["/l/0.log", "/l/1.log"],
    }  # fmt: skip
    assert find("compaction-stopped", logs(spark, {"minor_since": NOW_MS - 3 * HOUR}, registered=None)) == []


def test_compaction_suspended_by_a_full_disk_is_reported_as_such(spark: SparkSession) -> None:
    """The finding still has the bytes that compaction would free."""
    [finding] = find(
        "compaction-stopped",
        logs(spark, {"minor_since": NOW_MS - 3 * HOUR, "frees": 0, "full_disk": "full"}),
    )
    assert (finding.evidence["suspended_logs"], finding.evidence["frees"]) == (1, 910)
    assert finding.message.endswith("; compaction is suspended by a full disk")


BYTES: Row = {
    "bookie_id": "bk1", "directory": "/l", "log_id": 1, "kind": "log", "scope_id": 0, "class": "live",
    "bytes": 5, "remains": False,
}  # fmt: skip


def test_collected_log_with_a_ledger_missing_from_the_index_is_critical(spark: SparkSession) -> None:
    """Ledger 1 is in a log that is deleted, 2 in one that is rewritten, 3 in one that stays.

    A full disk suspends compaction of ledger 4's log. Ledger 5 is indexed, and 6 is gone from the metadata.
    """
    space = [
        {**BYTES, "ledger_id": ledger, "path": f"/l/{path}.log", **overrides}
        for ledger, path, overrides in (
            (1, 0, {}), (2, 1, {}), (3, 2, {}), (4, 3, {}), (5, 0, {"remains": True}),
            (6, 0, {"class": "superseded"}),
        )
    ]  # fmt: skip
    cluster_tables = logs(
        spark,
        {"action": "delete"},
        {"action": "major"},
        {"action": "keep"},
        {"action": "major", "full_disk": "almost-full"},
    )
    index_rows = [
        {"bookie_id": "bk1", "scope_id": 0, "ledger_id": ledger, "state": state}
        for ledger, state in [*((ledger_id, "not-indexed") for ledger_id in (1, 2, 3, 4, 6)), (5, "ok")]
    ]
    full_tables = cluster_tables.add(
        space=frame(spark, "space", space),
        availability=frame(spark, "availability", index_rows),
        log_entries=frame(spark, "log_entries", []),
    )
    [finding] = find("gc-would-delete-live", full_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert (finding.evidence["ledgers"], finding.evidence["reasons"]) == (2, ["not-indexed"])
    assert finding.evidence["causes"] == ["log-delete", "log-major"]


@pytest.mark.parametrize(("groups", "confidence"), [(b"", "confirmed"), (None, "suspect")])
def test_deleted_log_with_entries_missing_from_every_index_is_critical(
    spark: SparkSession, groups: bytes | None, confidence: str
) -> None:
    """The bookie has nothing else of ledger 1. It lists 2, so its collector keeps the log. 3's log stays.

    A log that was not read for the entries may have others.
    """
    lacking = [
        {**BYTES, "class": "not-indexed", "ledger_id": ledger, "path": f"/l/{path}.log", **overrides}
        for ledger, path, overrides in ((1, 0, {}), (2, 0, {"remains": True}), (3, 1, {}))
    ]
    cluster_tables = logs(spark, {"action": "delete"}, {"action": "keep"})
    rows = [{"path": row["path"], "scope_id": 0, "ledger_id": row["ledger_id"]} for row in lacking]
    full_tables = cluster_tables.add(
        space=frame(spark, "space", lacking),
        availability=frame(spark, "availability", []),
        log_entries=frame(spark, "log_entries", [{**row, "groups": groups} for row in rows]),
    )
    [finding] = find("gc-would-delete-live", full_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "critical", confidence)
    assert (finding.evidence["sample"], finding.evidence["causes"]) == (["1"], ["log-delete"])


def test_log_with_needed_bytes_is_not_reported_as_uncompacted(spark: SparkSession) -> None:
    assert find("compaction-stopped", logs(spark, {"minor_since": NOW_MS - 3 * HOUR, "needed": 5})) == []
