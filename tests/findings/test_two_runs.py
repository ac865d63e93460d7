"""Suspect findings of a live store: a second run confirms some, and leaves others suspect."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.findings.confirm import EarlierFindings, confirm_by_two_runs, suspects_without_lasting_doubt
from auditor.findings.table import FINDINGS_SCHEMA
from auditor.tables import doubts
from auditor.tables.doubts import Doubt
from tests.findings.test_confirm import CHANGED, moves

END = 1_795_237_669_000  # 2026-11-21 05:07:49 UTC: of the earlier run
GRACE = 60_000
A, B = "bk-a:3181", "bk-b:3181"
TIMES = {A: END + GRACE + 1, B: END + GRACE + 1}
LEDGER = 7
Row = dict[str, Any]


def finding(
    *reasons: Doubt,
    ledger: int = LEDGER,
    id: str = "entry-lost",
    confidence: str = "suspect",
    version: int | None = 3,
    bookie_id: str | None = None,
    missing: dict[str, bytes] | None = None,
    **evidence: Any,
) -> Row:
    """Return a finding of one of the three classes, as the checks return it."""
    details = {
        "doubts": [doubt.text for doubt in reasons],
        "lasting_doubts": [doubt.text for doubt in reasons if not doubt.is_transient],
        "metadata_version": version,
        **evidence,
    }
    parts = {A: b"1", B: b"2"} if missing is None else missing
    return {
        "id": id,
        "severity": "critical",
        "confidence": confidence,
        "scope_id": 0,
        "ledger_id": ledger,
        "bookie_id": bookie_id,
        "missing": [{"bookie_id": name, "groups": groups, "count": 1} for name, groups in parts.items()],
        "unknown": [],
        "message": "it is lost",
        "evidence": json.dumps(details, separators=(",", ":")),
    }


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    names = ("ledger_qualified_name", "fingerprint")
    table = pa.Table.from_pylist([{**dict.fromkeys(names), **row} for row in rows], schema=FINDINGS_SCHEMA)
    return spark.createDataFrame(table, from_arrow_schema(FINDINGS_SCHEMA)).drop(*names)


def judge(
    spark: SparkSession,
    new_rows: list[Row],
    old_rows: list[Row],
    times: dict[str, int | None] | None = None,
) -> dict[int, Row]:
    """Return this run's findings by ledger, after comparison with the earlier ones; evidence is parsed."""
    bookies = spark.createDataFrame(
        list((TIMES if times is None else times).items()), "bookie_id string, index_time long"
    )
    earlier = EarlierFindings(frame(spark, old_rows), "monday", END)
    rows = confirm_by_two_runs(frame(spark, new_rows), earlier, moves(spark), bookies, GRACE).collect()
    assert len(rows) == len(new_rows)
    return {row["ledger_id"]: {**row.asDict(), "evidence": json.loads(row["evidence"])} for row in rows}


TRANSIENT = (
    doubts.index_too_old(A),
    doubts.reads_unanswered(A, "refused"),
    doubts.bookie_not_asked("the bound"),
)
LASTING = (
    doubts.in_misplaced_directory(A), doubts.ledger_not_closed(), doubts.only_in_listing(A),
    doubts.index_without_time(A), doubts.sets_too_irregular("too much"),
)  # fmt: skip


def test_suspect_with_transient_doubts_is_confirmed_and_names_the_earlier_run(spark: SparkSession) -> None:
    rows = [finding(doubt, ledger=number) for number, doubt in enumerate(TRANSIENT, 10)]
    by_ledger = judge(spark, rows, [{**row, "confidence": "suspect"} for row in rows])
    assert [row["confidence"] for row in by_ledger.values()] == ["confirmed"] * 3
    first = by_ledger[10]
    assert first["message"] == (
        "it is lost; also seen by the run of 2026-11-21 05:07:49 UTC, for the same ledger version and with "
        "an older index"
    )
    assert first["evidence"]["earlier_run"] == {"name": "monday", "finished": END}
    assert first["evidence"]["doubts"] == [TRANSIENT[0].text]
    assert len(first["missing"]) == 2


def test_suspect_with_a_lasting_doubt_is_not_confirmed_by_a_second_run(spark: SparkSession) -> None:
    assert all(doubt.is_transient for doubt in TRANSIENT)
    rows = [finding(*TRANSIENT, doubt, ledger=number) for number, doubt in enumerate(LASTING, 10)]
    assert suspects_without_lasting_doubt(frame(spark, rows)).isEmpty()
    by_ledger = judge(spark, rows, rows)
    assert {row["confidence"] for row in by_ledger.values()} == {"suspect"}
    assert all("earlier_run" not in row["evidence"] for row in by_ledger.values())


@pytest.mark.parametrize(
    ("old_rows", "why"),
    [
        ([], "nobody saw it"),
        ([finding(*TRANSIENT, version=2)], "the ledger moved"),
        ([finding(*TRANSIENT, version=None)], "the version is not known"),
        ([finding(*TRANSIENT, ledger=8)], "another ledger"),
        ([finding(*TRANSIENT, id="below-ack-quorum")], "another finding"),
        ([finding(*TRANSIENT, missing={A: b"1", B: b"3"})], "other entries"),
        ([finding(*TRANSIENT, missing={A: b"1"})], "one bookie lost them since"),
        ([finding(*TRANSIENT, confidence="unknown")], "it was unknown"),
    ],
)
def test_finding_that_differs_in_the_earlier_run_is_not_confirmed(
    spark: SparkSession, old_rows: list[Row], why: str
) -> None:
    row = judge(spark, [finding(*TRANSIENT)], old_rows)[LEDGER]
    assert (row["confidence"], row["message"]) == ("suspect", "it is lost"), why
    assert "earlier_run" not in row["evidence"]


@pytest.mark.parametrize(
    "times", [{A: END + GRACE + 1, B: END + GRACE}, {A: END + GRACE + 1}, {A: END + GRACE + 1, B: None}, {}]
)
def test_index_not_newer_than_the_earlier_run_does_not_confirm(
    spark: SparkSession, times: dict[str, int | None]
) -> None:
    row = judge(spark, [finding(*TRANSIENT)], [finding(*TRANSIENT)], times)[LEDGER]
    assert (row["confidence"], row["message"]) == ("suspect", "it is lost")
    # The next run counts from here.
    assert row["evidence"]["earlier_run"]["finished"] == END


def test_finding_with_fewer_missing_copies_than_before_is_confirmed(spark: SparkSession) -> None:
    by_ledger = judge(spark, [finding(*TRANSIENT, missing={B: b"2"})], [finding(*TRANSIENT)], {B: TIMES[B]})
    assert by_ledger[LEDGER]["confidence"] == "confirmed"


def test_first_of_several_earlier_runs_counts(spark: SparkSession) -> None:
    first = {"name": "sunday", "finished": END - 1_000_000}
    times: dict[str, int | None] = dict.fromkeys((A, B), END - 1_000_000 + GRACE + 1)
    for confidence in ("suspect", "confirmed"):
        old_rows = [finding(*TRANSIENT, confidence=confidence, earlier_run=first)]
        row = judge(spark, [finding(*TRANSIENT)], old_rows, times)[LEDGER]
        assert row["confidence"] == "confirmed"
        assert row["evidence"]["earlier_run"] == first
        assert "the run of 2026-11-21 04:51:09 UTC" in row["message"]


def test_ledger_changed_between_the_scans_stays_suspect(spark: SparkSession) -> None:
    moved = finding(*TRANSIENT, ledger=CHANGED)
    by_ledger = judge(spark, [moved, finding(*TRANSIENT)], [moved, finding(*TRANSIENT)])
    assert (by_ledger[CHANGED]["confidence"], by_ledger[LEDGER]["confidence"]) == ("suspect", "confirmed")


def test_findings_not_subject_to_two_runs_keep_their_confidence(spark: SparkSession) -> None:
    orphan = {"doubts": ["newer-than-scan"], "doubt": None}
    rows = [
        {**finding(ledger=1, id="orphan-ledger", bookie_id=A), "evidence": json.dumps(orphan)},
        {**finding(ledger=2, id="entries-past-end"), "evidence": '{"metadata_version":3}'},
        finding(ledger=4),  # suspect for what no doubt says, such as two scans that differ
        finding(*TRANSIENT, ledger=5, confidence="confirmed"),
        finding(*TRANSIENT, ledger=6, confidence="unknown"),
    ]
    by_ledger = judge(spark, rows, rows)
    assert {ledger: row["confidence"] for ledger, row in by_ledger.items()} == {
        1: "suspect",
        2: "suspect",
        4: "suspect",
        5: "confirmed",
        6: "unknown",
    }
    assert {row["message"] for row in by_ledger.values()} == {"it is lost"}
