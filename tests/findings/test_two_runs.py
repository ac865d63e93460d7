"""What two runs of a live store confirm, and what a second look leaves as suspect as it was."""

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


def found(
    *reasons: Doubt,
    ledger: int = LEDGER,
    id: str = "entry-lost",
    confidence: str = "suspect",
    version: int | None = 3,
    bookie_id: str | None = None,
    missing: dict[str, bytes] | None = None,
    **evidence: Any,
) -> Row:
    """A finding of one of the three classes, as the checks give it."""
    said = {
        "doubts": [each.text for each in reasons],
        "lasting_doubts": [each.text for each in reasons if not each.is_transient],
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
        "evidence": json.dumps(said, separators=(",", ":")),
    }


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    names = ("ledger_qualified_name", "fingerprint")
    table = pa.Table.from_pylist([{**dict.fromkeys(names), **row} for row in rows], schema=FINDINGS_SCHEMA)
    return spark.createDataFrame(table, from_arrow_schema(FINDINGS_SCHEMA)).drop(*names)


def judged(
    spark: SparkSession,
    now: list[Row],
    then: list[Row],
    times: dict[str, int | None] | None = None,
) -> dict[int, Row]:
    """The findings of this run by ledger, once the earlier ones have been looked at; evidence parsed."""
    bookies = spark.createDataFrame(
        list((TIMES if times is None else times).items()), "bookie_id string, index_time long"
    )
    earlier = EarlierFindings(frame(spark, then), "monday", END)
    rows = confirm_by_two_runs(frame(spark, now), earlier, moves(spark), bookies, GRACE).collect()
    assert len(rows) == len(now)
    return {row["ledger_id"]: {**row.asDict(), "evidence": json.loads(row["evidence"])} for row in rows}


HEALING = (
    doubts.index_too_old(A),
    doubts.reads_unanswered(A, "refused"),
    doubts.bookie_not_asked("the bound"),
)
LASTING = (
    doubts.in_misplaced_directory(A), doubts.ledger_not_closed(), doubts.only_in_listing(A),
    doubts.index_without_time(A), doubts.sets_too_irregular("too much"),
)  # fmt: skip


def test_a_suspect_that_time_heals_is_confirmed_and_says_by_which_run(spark: SparkSession) -> None:
    now = [found(doubt, ledger=number) for number, doubt in enumerate(HEALING, 10)]
    said = judged(spark, now, [{**each, "confidence": "suspect"} for each in now])
    assert [each["confidence"] for each in said.values()] == ["confirmed"] * 3
    one = said[10]
    assert one["message"] == (
        "it is lost; also seen by the run of 2026-11-21 05:07:49 UTC, for the same ledger version and with "
        "an older index"
    )
    assert one["evidence"]["earlier_run"] == {"name": "monday", "finished": END}
    assert one["evidence"]["doubts"] == [HEALING[0].text]
    assert len(one["missing"]) == 2


def test_a_doubt_that_lasts_is_not_healed_by_looking_twice(spark: SparkSession) -> None:
    assert all(doubt.is_transient for doubt in HEALING)
    now = [found(*HEALING, doubt, ledger=number) for number, doubt in enumerate(LASTING, 10)]
    assert suspects_without_lasting_doubt(frame(spark, now)).isEmpty()
    said = judged(spark, now, now)
    assert {each["confidence"] for each in said.values()} == {"suspect"}
    assert all("earlier_run" not in each["evidence"] for each in said.values())


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ([], "nobody saw it"),
        ([found(*HEALING, version=2)], "the ledger moved"),
        ([found(*HEALING, version=None)], "the version is not known"),
        ([found(*HEALING, ledger=8)], "another ledger"),
        ([found(*HEALING, id="below-ack-quorum")], "another finding"),
        ([found(*HEALING, missing={A: b"1", B: b"3"})], "other entries"),
        ([found(*HEALING, missing={A: b"1"})], "one bookie lost them since"),
        ([found(*HEALING, confidence="unknown")], "it was unknown"),
    ],
)
def test_what_the_run_before_did_not_see_so_is_not_confirmed(
    spark: SparkSession, then: list[Row], why: str
) -> None:
    said = judged(spark, [found(*HEALING)], then)[LEDGER]
    assert (said["confidence"], said["message"]) == ("suspect", "it is lost"), why
    assert "earlier_run" not in said["evidence"]


@pytest.mark.parametrize(
    "times", [{A: END + GRACE + 1, B: END + GRACE}, {A: END + GRACE + 1}, {A: END + GRACE + 1, B: None}, {}]
)
def test_an_index_that_is_no_newer_than_the_run_before_confirms_nothing(
    spark: SparkSession, times: dict[str, int | None]
) -> None:
    said = judged(spark, [found(*HEALING)], [found(*HEALING)], times)[LEDGER]
    assert (said["confidence"], said["message"]) == ("suspect", "it is lost")
    # The next run counts from here.
    assert said["evidence"]["earlier_run"]["finished"] == END


def test_fewer_copies_missing_than_before_are_what_both_have_seen(spark: SparkSession) -> None:
    said = judged(spark, [found(*HEALING, missing={B: b"2"})], [found(*HEALING)], {B: TIMES[B]})
    assert said[LEDGER]["confidence"] == "confirmed"


def test_the_first_of_a_row_of_runs_counts(spark: SparkSession) -> None:
    first = {"name": "sunday", "finished": END - 1_000_000}
    times: dict[str, int | None] = dict.fromkeys((A, B), END - 1_000_000 + GRACE + 1)
    for confidence in ("suspect", "confirmed"):
        then = [found(*HEALING, confidence=confidence, earlier_run=first)]
        said = judged(spark, [found(*HEALING)], then, times)[LEDGER]
        assert said["confidence"] == "confirmed"
        assert said["evidence"]["earlier_run"] == first
        assert "the run of 2026-11-21 04:51:09 UTC" in said["message"]


def test_what_moved_between_the_scans_of_this_run_stays_suspect(spark: SparkSession) -> None:
    moved = found(*HEALING, ledger=CHANGED)
    said = judged(spark, [moved, found(*HEALING)], [moved, found(*HEALING)])
    assert (said[CHANGED]["confidence"], said[LEDGER]["confidence"]) == ("suspect", "confirmed")


def test_other_findings_stay_as_they_are(spark: SparkSession) -> None:
    orphan = {"doubts": ["newer-than-scan"], "doubt": None}
    now = [
        {**found(ledger=1, id="orphan-ledger", bookie_id=A), "evidence": json.dumps(orphan)},
        {**found(ledger=2, id="entries-past-end"), "evidence": '{"metadata_version":3}'},
        found(ledger=4),  # suspect for what no doubt says, such as two scans that differ
        found(*HEALING, ledger=5, confidence="confirmed"),
        found(*HEALING, ledger=6, confidence="unknown"),
    ]
    said = judged(spark, now, now)
    assert {ledger: each["confidence"] for ledger, each in said.items()} == {
        1: "suspect",
        2: "suspect",
        4: "suspect",
        5: "confirmed",
        6: "unknown",
    }
    assert {each["message"] for each in said.values()} == {"it is lost"}
