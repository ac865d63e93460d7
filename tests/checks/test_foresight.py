"""What collectors do next, and what they should have done: the three checks of the tables of foresight."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from auditor.model.collector_settings import CollectorSettings
from auditor.tables import Tables
from tests.checks.tables_builder import NOW, Row, facts, find, frame, tables

MINUTE = 60_000
HOUR = 60 * MINUTE
PLAN: Row = {
    "scope_id": 0, "bookie_id": "bk1", "pass": "listing", "action": "delete", "cause": "not-listed",
    "verdict": "right", "reason": "no-metadata", "since": NOW,
}  # fmt: skip
OUT_OF_PLACE: Row = {**PLAN, "cause": "listed-out-of-order", "verdict": "wrong", "reason": "in-its-ensembles"}
LOG: Row = {
    "bookie_id": "bk1", "directory": "/l", "log_id": 1, "bytes": 1000, "entries": 900, "remain": 90,
    "usage": 0.1, "action": "minor", "frees": 910,
}  # fmt: skip


def plans(spark: SparkSession, *rows: Row, **bookie: object) -> Tables:
    given = [{**PLAN, "ledger_id": number, **row} for number, row in enumerate(rows)]
    bookies = [{"bookie_id": "bk1", "index_time": NOW, **bookie}]
    return tables(spark, facts(live=True), gc_foresight=given, bookies=bookies)


def logs(spark: SparkSession, *rows: Row, **bookie: object) -> Tables:
    given = [{**LOG, "path": f"/l/{number}.log", **row} for number, row in enumerate(rows)]
    return tables(spark, log_foresight=given, bookies=[{"bookie_id": "bk1", **bookie}])


def test_what_a_ledger_needs_and_a_collector_deletes_is_critical(spark: SparkSession) -> None:
    rows = plans(
        spark,
        OUT_OF_PLACE,
        {**OUT_OF_PLACE, "pass": "over-replicated", "cause": "in-no-ensemble", "reason": "last-copy"},
        {**OUT_OF_PLACE, "action": "keep", "reason": "not-collected"},
        {**OUT_OF_PLACE, "reason": "under-another-id"},
        {**OUT_OF_PLACE, "verdict": "unknown", "reason": "metadata-unreadable"},
        {},
    )
    [found] = find("gc-would-delete-live", rows)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert (found.evidence["ledgers"], found.evidence["sample"]) == (2, ["0", "1"])
    assert found.evidence["reasons"] == ["in-its-ensembles", "last-copy"]
    assert found.message == (
        "bk1: the next garbage collection deletes 2 live ledgers (0, 1), because the bookie has the last "
        "copy, but is in no ensemble, and the server's ledger listing is not in order"
    )


def test_whose_disk_is_in_doubt_is_no_more_than_suspect(spark: SparkSession) -> None:
    [found] = find("gc-would-delete-live", plans(spark, OUT_OF_PLACE, suspect=True))
    assert found.confidence == "suspect"
    old = {"since": NOW - 2 * HOUR}
    [stuck] = find("orphan-stuck", plans(spark, old, suspect=True))
    assert stuck.confidence == "suspect"
    [late] = find("compaction-stopped", logs(spark, {"minor_since": NOW - 3 * HOUR}, suspect=True))
    assert late.confidence == "suspect"


def test_garbage_that_outlives_two_waits_is_stuck(spark: SparkSession) -> None:
    rows = plans(
        spark,
        {"since": NOW - 61 * MINUTE},
        {"since": NOW - 59 * MINUTE},
        {"since": NOW - 5 * HOUR},
        {"since": NOW - 4 * HOUR, "action": "keep", "cause": "listing-breaks-off", "reason": "not-collected"},
        {"since": NOW - 5 * HOUR, "action": "keep", "reason": "kept"},
        {"since": NOW - 5 * HOUR, "pass": "over-replicated", "reason": "copies-elsewhere"},
        {"since": NOW - 5 * HOUR, "verdict": "unknown", "reason": "newer-than-scan"},
    )
    [found] = find("orphan-stuck", rows)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "warning", "confirmed")
    assert (found.evidence["ledgers"], found.evidence["since"]) == (3, NOW - 5 * HOUR)
    assert found.evidence["causes"] == ["listing-breaks-off", "not-listed"]
    assert found.message == (
        "bk1 still has 3 ledgers that its garbage collector should have deleted within 1.0 h (2 passes); "
        "the first has been known since 1970-02-11 11:00:00 UTC"
    )


def test_the_bookies_own_wait_counts_where_it_is_known(spark: SparkSession) -> None:
    rows = plans(spark, {"since": NOW - 21 * MINUTE})
    assert find("orphan-stuck", rows) == []
    [found] = find("orphan-stuck", replace(rows, collector_settings=CollectorSettings(source="bk.conf")))
    assert (found.evidence["within_ms"], found.evidence["settings"]) == (20 * MINUTE, "bk.conf")
    slow = CollectorSettings(wait_ms=11 * MINUTE, source="bk.conf")
    assert find("orphan-stuck", replace(rows, collector_settings=slow)) == []


@pytest.mark.parametrize(
    ("bookie", "row", "confidence"),
    [
        ({"registered": None}, {}, None),
        ({"index_time": None}, {}, "suspect"),
        ({"index_time": NOW - 3 * HOUR}, {}, "suspect"),
        ({}, {"verdict": "unknown", "reason": "metadata-suspect"}, "suspect"),
    ],
    ids=["does-not-run", "index-of-no-time", "index-older-than-the-first-run", "store-in-doubt"],
)
def test_stuck_is_no_more_than_what_is_known(
    spark: SparkSession, bookie: Row, row: Row, confidence: str | None
) -> None:
    found = find("orphan-stuck", plans(spark, {"since": NOW - 2 * HOUR, **row}, **bookie))
    assert [each.confidence for each in found] == ([] if confidence is None else [confidence])


def test_logs_that_two_intervals_did_not_rewrite(spark: SparkSession) -> None:
    rows = logs(
        spark,
        {"minor_since": NOW - 3 * HOUR, "major_since": NOW - 3 * HOUR},
        {"minor_since": NOW - HOUR, "major_since": NOW - 49 * HOUR},
        {"minor_since": NOW - HOUR, "major_since": NOW - 47 * HOUR},
        {"action": "keep"},
    )
    [found] = find("compaction-stopped", rows)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "warning", "confirmed")
    said = {key: found.evidence[key] for key in ("logs", "minor_logs", "frees", "since", "sample")}
    assert said == {
        "logs": 2, "minor_logs": 1, "frees": 1820, "since": NOW - 49 * HOUR,
        "sample": ["/l/0.log", "/l/1.log"],
    }  # fmt: skip
    assert find("compaction-stopped", logs(spark, {"minor_since": NOW - 3 * HOUR}, registered=None)) == []


def test_compaction_that_a_full_disk_suspends_says_so(spark: SparkSession) -> None:
    """What it would free is said all the same."""
    [found] = find(
        "compaction-stopped",
        logs(spark, {"minor_since": NOW - 3 * HOUR, "frees": 0, "full_disk": "full"}),
    )
    assert (found.evidence["suspended_logs"], found.evidence["frees"]) == (1, 910)
    assert found.message.endswith("; compaction is suspended by a full disk")


BYTES: Row = {
    "bookie_id": "bk1", "directory": "/l", "log_id": 1, "kind": "log", "scope_id": 0, "class": "live",
    "bytes": 5, "remains": False,
}  # fmt: skip


def test_a_log_that_goes_with_a_ledger_that_the_index_lacks_is_critical(spark: SparkSession) -> None:
    """Ledger 1 in a log that is deleted, 2 in one that is rewritten, 3 in one that stays, 4 in one whose
    compaction a full disk suspends; 5 is indexed, and 6 is gone from the metadata."""
    space = [
        {**BYTES, "ledger_id": ledger, "path": f"/l/{path}.log", **said}
        for ledger, path, said in (
            (1, 0, {}), (2, 1, {}), (3, 2, {}), (4, 3, {}), (5, 0, {"remains": True}),
            (6, 0, {"class": "superseded"}),
        )
    ]  # fmt: skip
    known = logs(
        spark,
        {"action": "delete"},
        {"action": "major"},
        {"action": "keep"},
        {"action": "major", "full_disk": "almost-full"},
    )
    held = [
        {"bookie_id": "bk1", "scope_id": 0, "ledger_id": ledger, "state": state}
        for ledger, state in [*((each, "not-indexed") for each in (1, 2, 3, 4, 6)), (5, "ok")]
    ]
    asked = known.add(
        space=frame(spark, "space", space),
        availability=frame(spark, "availability", held),
        log_entries=frame(spark, "log_entries", []),
    )
    [found] = find("gc-would-delete-live", asked)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert (found.evidence["ledgers"], found.evidence["reasons"]) == (2, ["not-indexed"])
    assert found.evidence["causes"] == ["log-delete", "log-major"]


@pytest.mark.parametrize(("groups", "confidence"), [(b"", "confirmed"), (None, "suspect")])
def test_a_log_that_goes_with_entries_that_no_index_has_is_critical(
    spark: SparkSession, groups: bytes | None, confidence: str
) -> None:
    """Of ledger 1 the bookie has nothing else; 2 it lists, so that its collector keeps the log; 3 stays.

    A log that was not read for the entries may have others.
    """
    lacking = [
        {**BYTES, "class": "not-indexed", "ledger_id": ledger, "path": f"/l/{path}.log", **said}
        for ledger, path, said in ((1, 0, {}), (2, 0, {"remains": True}), (3, 1, {}))
    ]
    known = logs(spark, {"action": "delete"}, {"action": "keep"})
    rows = [{"path": row["path"], "scope_id": 0, "ledger_id": row["ledger_id"]} for row in lacking]
    asked = known.add(
        space=frame(spark, "space", lacking),
        availability=frame(spark, "availability", []),
        log_entries=frame(spark, "log_entries", [{**row, "groups": groups} for row in rows]),
    )
    [found] = find("gc-would-delete-live", asked)
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "critical", confidence)
    assert (found.evidence["sample"], found.evidence["causes"]) == (["1"], ["log-delete"])


def test_logs_with_bytes_that_are_needed_are_not_what_compaction_missed(spark: SparkSession) -> None:
    assert find("compaction-stopped", logs(spark, {"minor_since": NOW - 3 * HOUR, "needed": 5})) == []
