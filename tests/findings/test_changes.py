"""The table changes of an audit, made by Spark, equals the output of `bkaudit diff` on the finished runs."""

from __future__ import annotations

import json
import random
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from auditor.checks import ALL_CHECKS, Basis
from auditor.findings.changes import RunCoverage, findings_with_changes
from auditor.findings.suppress import SuppressionEntry, apply_suppressions
from auditor.runs.history import RunDifference
from auditor.tables.run_tables import TABLES
from tests.findings.changed_runs import INSTANCE, Row, row, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = "bk-a:3181", "bk-b:3181", "bk-c:3181"
TODAY = date(2026, 11, 21)
STAGES = ("below-write-quorum", "below-ack-quorum", "entry-lost")
CONFIDENCES = ("confirmed", "confirmed", "confirmed", "suspect")
CLASSES = ("healthy", "healthy", "below-write-quorum", "undecided")
OF_ENTRY_LOGS = [check.id for check in ALL_CHECKS if check.rests_on is Basis.ENTRY_LOGS]
OF_LOGS = [*OF_ENTRY_LOGS, "gc-would-delete-live"]
FINDINGS = (
    "id string, urgency string, severity string, confidence string, scope_id bigint, ledger_id bigint, "
    "bookie_id string, missing array<struct<bookie_id:string,groups:binary,count:bigint>>, fingerprint string"
)


def _random_rows(dice: random.Random) -> list[Row]:
    rows = [
        row(dice.choice(STAGES), ledger, missing=dice.randint(1, 3), confidence=dice.choice(CONFIDENCES))
        for ledger in dice.sample(range(30), 20)
    ]
    rows += [row("orphan-ledger", ledger, dice.choice((A, B, C))) for ledger in dice.sample(range(30), 15)]
    rows += [row("surplus-entries", ledger, dice.choice((A, C))) for ledger in dice.sample(range(30), 10)]
    rows += [row("index-unreadable", ledger, A) for ledger in dice.sample(range(30), 3)]
    rows += [row("mark-stuck", ledger) for ledger in dice.sample(range(30), 5)]
    rows += [row("bookie-down", bookie=bookie) for bookie in dice.sample((A, B, C), 2)]
    rows += [row("disk-shared")] * dice.randint(0, 1)
    return rows


def _finding(finding: Row) -> tuple[Any, ...]:
    parts = [(A, b"", finding["missing"])] if finding["missing"] else []
    names = ("id", "urgency", "severity", "confidence", "scope_id", "ledger_id", "bookie_id")
    return (*(finding[name] for name in names), parts, finding["fingerprint"])


@pytest.mark.parametrize(
    ("seed", "gaps", "reads", "logs", "unread_logs", "unread_records"),
    [
        (1, False, ("read", "partial"), True, set(), set()),
        (2, True, ("read", "read"), False, set(), set()),
        (3, False, ("read", "read"), True, {B}, set()),
        (4, False, ("read", "read"), True, set(), set()),
        (5, False, ("read", "read"), True, set(), {B}),
    ],
)
def test_spark_and_diff_give_the_same_changes(
    spark: SparkSession,
    tmp_path: Path,
    seed: int,
    gaps: bool,
    reads: tuple[str, str],
    logs: bool,
    unread_logs: set[str],
    unread_records: set[str],
) -> None:
    dice = random.Random(seed)
    older, newer = _random_rows(dice), _random_rows(dice)
    for diff in older:
        diff["change"] = dice.choice(("new", "same", "unseen", "fixed"))
        diff["first_seen"] = dice.randint(1, 9)
        diff["known_confidence"] = dice.choice(CONFIDENCES)
    # Of a bookie whose ledgers' copies are counted: one that stays, one that goes, one that comes.
    older += [row("mark-stale", bookie=bookie) for bookie in (A, B)]
    newer += [row("mark-stale", bookie=bookie) for bookie in (A, C)]
    # Of entry logs: only a run that reads them says that one is gone, and only of a bookie that it read.
    older += [row(id, bookie=bookie) for id in OF_LOGS for bookie in (A, B)]
    classes = [(ledger, dice.choice(CLASSES), dice.choice(CLASSES)) for ledger in range(25)]
    bookies = [(A, reads[0]), (B, reads[1])]
    run = {"gaps": ["x"] if gaps else []}
    write_run(tmp_path / "old", older)
    parts: dict[str, Any] = {"classes": classes, "bookies": bookies, "logs": logs}
    parts |= {"unread_logs": unread_logs, "unread_records": unread_records}
    write_run(tmp_path / "seen", [], **parts)
    coverage = RunCoverage(
        spark.read.parquet(str(tmp_path / "seen" / "tables" / "verdicts")),
        spark.read.parquet(str(tmp_path / "seen" / "tables" / "bookies")),
        gaps,
        "partial" in reads,
        requested_tables={"entry_logs"} if logs else set(),
        unread_logs=unread_logs,
        unread_records=unread_records,
    )
    findings = spark.createDataFrame([_finding(diff) for diff in newer], FINDINGS)
    before = spark.read.parquet(str(tmp_path / "old" / "tables" / "changes"))
    compared = findings_with_changes(findings, before, coverage, INSTANCE, 77)
    rows = apply_suppressions(compared, (), {}, {}, TODAY)
    new_rows = [diff.asDict() for diff in rows.collect()]
    write_run(tmp_path / "new", new_rows, run=run, **parts)

    difference = RunDifference(str(tmp_path / "old"), str(tmp_path / "new"))
    by_diff = {diff.fingerprint: diff.change for diff in difference.changes()}
    by_spark = {diff["fingerprint"]: diff["change"] for diff in new_rows if diff["change"] != "same"}
    assert by_diff == by_spark
    assert {"new", "worse", "better", "fixed", "unseen"} <= set(by_spark.values())
    of_logs = {(diff["id"], diff["bookie_id"]): diff["change"] for diff in new_rows if diff["id"] in OF_LOGS}
    whole = {A: reads[0] == "read", B: reads[1] == "read"}

    def is_looked_at(id: str, bookie: str) -> bool:
        has_logs = logs or id not in OF_ENTRY_LOGS
        # A has ledgers whose index cannot be read: the collector's next deletions are not all known.
        # The record of a ledger on another bookie cannot be decoded: its ensembles are not known.
        has_all_copies = bookie not in {A, *unread_records} or id != "gc-would-delete-live"
        return has_logs and has_all_copies and whole[bookie] and bookie not in unread_logs

    assert of_logs == {
        (id, bookie): "fixed" if is_looked_at(id, bookie) else "unseen" for id in OF_LOGS for bookie in (A, B)
    }
    assert difference.summary.counts["same"] == sum(diff["change"] == "same" for diff in new_rows) > 0
    first_seen = {diff["trouble"]: diff["first_seen"] for diff in older if diff["change"] != "fixed"}
    assert all(diff["first_seen"] == first_seen.get(diff["trouble"], 77) for diff in new_rows)
    assert all((diff["last_seen"] == 77) != (diff["change"] in ("fixed", "unseen")) for diff in new_rows)


def test_suspect_loss_that_is_now_confirmed_is_worse_only_once(spark: SparkSession, tmp_path: Path) -> None:
    """Cases: known and found (id, missing, confidence), the change, and the known confidence afterwards."""
    cases = [
        (("entry-lost", 2, "suspect"), ("entry-lost", 2, "confirmed"), "worse", "confirmed"),
        (("entry-lost", 2, "unknown"), ("entry-lost", 2, "confirmed"), "worse", "confirmed"),
        (("entry-lost", 2, "suspect"), ("below-ack-quorum", 1, "confirmed"), "worse", "confirmed"),
        (("entry-lost", 2, "suspect"), ("entry-lost", 1, "confirmed"), "worse", "confirmed"),
        (("entry-lost", 2, "suspect"), ("entry-lost", 2, "suspect"), "same", "suspect"),
        (("entry-lost", 2, "suspect"), ("entry-lost", 2, "unknown"), "same", "unknown"),
        # A doubt in what was once confirmed wakes nobody when it goes again.
        (("entry-lost", 2, "confirmed"), ("entry-lost", 2, "suspect"), "same", "confirmed"),
        (("entry-lost", 2, "confirmed"), ("entry-lost", 2, "confirmed"), "same", "confirmed"),
        # What got worse or better was not confirmed as it is.
        (("entry-lost", 2, "confirmed"), ("entry-lost", 3, "suspect"), "worse", "suspect"),
        (("entry-lost", 2, "confirmed"), ("below-ack-quorum", 2, "suspect"), "better", "suspect"),
    ]
    older = [
        row(id, ledger, missing=missing, confidence=confidence)
        for ledger, ((id, missing, confidence), *_) in enumerate(cases)
    ]
    newer = [
        row(id, ledger, missing=missing, confidence=confidence)
        for ledger, (_, (id, missing, confidence), *_) in enumerate(cases)
    ]
    classes = [(ledger, "entry-lost", "entry-lost") for ledger in range(len(cases))]
    write_run(tmp_path / "old", older)
    write_run(tmp_path / "seen", [], classes=classes)
    coverage = RunCoverage(
        spark.read.parquet(str(tmp_path / "seen" / "tables" / "verdicts")),
        spark.read.parquet(str(tmp_path / "seen" / "tables" / "bookies")),
        False,
        False,
    )
    findings = spark.createDataFrame([_finding(diff) for diff in newer], FINDINGS)
    before = spark.read.parquet(str(tmp_path / "old" / "tables" / "changes"))
    compared = findings_with_changes(findings, before, coverage, INSTANCE, 77)
    rows = apply_suppressions(compared, (), {}, {}, TODAY)
    diffs = {diff["ledger_id"]: diff.asDict() for diff in rows.collect()}
    assert [(diffs[place]["change"], diffs[place]["known_confidence"]) for place in range(len(cases))] == [
        case[2:] for case in cases
    ]
    write_run(tmp_path / "new", diffs.values(), classes=classes)
    difference = RunDifference(str(tmp_path / "old"), str(tmp_path / "new"))
    by_diff = {diff.ledger_id: (diff.change, diff.previous_confidence) for diff in difference.changes()}
    assert by_diff == {
        ledger: (change, was[2]) for ledger, (was, _, change, _) in enumerate(cases) if change != "same"
    }


def test_first_matching_suppression_entry_names_the_reason(spark: SparkSession) -> None:
    rows = [
        row("orphan-ledger", 1, "bk.1:3181"),
        row("orphan-ledger", 1, "bk-1:3181"),
        row("orphan-ledger-deleting", 2, "bk.1:3181"),
        row("below-write-quorum", 3, missing=2),
        row("below-write-quorum", 4, missing=2),
        row("below-ack-quorum", 5, missing=1),
        row("entry-lost", 1, scope=7),
        row("bookie-down", bookie="bk.1:3181"),
        row("orphan-ledger", 9, "bk.1:3181", change="fixed"),
    ]
    baseline = [
        row("below-write-quorum", 3, missing=2),
        row("below-write-quorum", 4, missing=1),
        row("entry-lost", 5, missing=9),
        row("bookie-down", bookie="bk.1:3181", change="unseen"),
    ]
    until = date(2026, 11, 21)
    entries = (
        SuppressionEntry("over", date(2026, 11, 20), {"id": "*"}),
        SuppressionEntry("dot", until, {"id": "orphan-ledger*", "bookie_id": "bk.?:3181"}),
        SuppressionEntry("all orphans", until, {"id": "orphan-ledger"}),
        SuppressionEntry("known", until, {}, "there"),
        SuppressionEntry("scope", until, {"scope_id": 7, "ledger_id": 1}),
    )
    schema = pa.schema([TABLES["changes"].columns.field(name) for name in TABLES["changes"].columns.names])
    tables = [pa.Table.from_pylist(data, schema=schema) for data in (rows, baseline)]
    frames = [spark.createDataFrame(table).drop("suppression", "suppressed") for table in tables]
    results = apply_suppressions(frames[0], entries, {"there": frames[1]}, {}, TODAY).collect()
    by = {(data["id"], data["ledger_id"], data["bookie_id"]): data for data in results}
    assert {key: (data["suppression"], data["suppressed"]) for key, data in by.items()} == {
        ("orphan-ledger", 1, "bk.1:3181"): (2, "dot"),
        ("orphan-ledger", 1, "bk-1:3181"): (3, "all orphans"),
        ("orphan-ledger-deleting", 2, "bk.1:3181"): (2, "dot"),
        ("below-write-quorum", 3, None): (4, "known"),
        ("below-write-quorum", 4, None): (None, None),
        ("below-ack-quorum", 5, None): (4, "known"),
        ("entry-lost", 1, None): (5, "scope"),
        ("bookie-down", None, "bk.1:3181"): (None, None),
        ("orphan-ledger", 9, "bk.1:3181"): (None, None),
    }


def test_confirmed_milder_finding_of_a_partial_run_keeps_the_known_severity(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A suspect lost entry is surely below ack quorum now, while one of its bookies is unread."""
    write_run(tmp_path / "old", [row("entry-lost", 7, missing=3, confidence="suspect")])
    write_run(tmp_path / "seen", [], classes=[(7, "below-ack-quorum", "entry-lost")])
    coverage = RunCoverage(
        spark.read.parquet(str(tmp_path / "seen" / "tables" / "verdicts")),
        spark.read.parquet(str(tmp_path / "seen" / "tables" / "bookies")),
        False,
        True,
    )
    findings = spark.createDataFrame([_finding(row("below-ack-quorum", 7, missing=2))], FINDINGS)
    before = spark.read.parquet(str(tmp_path / "old" / "tables" / "changes"))
    [change] = findings_with_changes(findings, before, coverage, INSTANCE, 77).collect()
    assert (change["change"], change["severity"], change["known_severity"]) == ("worse", "error", "critical")
    assert (change["known_missing"], change["known_confidence"]) == (3, "confirmed")


INPUT_FINDINGS = [
    row("index-incomplete", 7, A),
    row("gc-would-delete-live", bookie=A),
    row("surplus-entries", 7, A),
]
INPUTS = {"live": True, "witness_asked": True, "entry_logs": True}


def changes_to(
    tmp_path: Path, facts: dict[str, Any], old_given: dict[str, Any] = INPUTS, **options: Any
) -> dict[str, str]:
    """Return changes by check, from a run with three findings to one with none that has inputs ``facts``."""
    older = [finding | options.get("old", {}) for finding in INPUT_FINDINGS]
    write_run(tmp_path / "old", older, run=old_given)
    manifest = {"known_inputs": options["inputs"]} if "inputs" in options else {}
    (tmp_path / "old" / "manifest.json").write_text(json.dumps(manifest))
    write_run(tmp_path / "new", [], classes=[(7, "healthy", "healthy")], bookies=[(A, "read")], run=facts)
    difference = RunDifference(str(tmp_path / "old"), str(tmp_path / "new"))
    return {finding.id: finding.change for finding in difference.changes()}


@pytest.mark.parametrize(
    ("facts", "unseen"),
    [
        ({}, set()),
        ({"witness_asked": False}, {"index-incomplete"}),
        ({"entry_logs": False}, {"gc-would-delete-live"}),
        ({"keeps_times": False}, {"index-incomplete"}),
        ({"directories_read": 0, "bookie_sources": ["rpc:"]}, {"index-incomplete", "gc-would-delete-live"}),
    ],
)
def test_findings_whose_input_was_not_given_are_unseen_instead_of_fixed(
    facts: dict[str, Any], unseen: set[str], tmp_path: Path
) -> None:
    changes = changes_to(tmp_path, INPUTS | facts)
    assert {id for id, change in changes.items() if change == "unseen"} == unseen
    assert {*changes.values()} <= {"fixed", "unseen"}


@pytest.mark.parametrize(("change", "expected"), [("unseen", "unseen"), ("same", "fixed")])
def test_unseen_finding_stays_unseen_without_its_input(change: str, expected: str, tmp_path: Path) -> None:
    """The old run read no entry logs either, so a finding that it made itself does not depend on them."""
    less = INPUTS | {"entry_logs": False}
    known_inputs = {"entry_logs": 1, "answers": 1, "owner_stores": 0}
    changes = changes_to(tmp_path, less, less, inputs=known_inputs, old={"change": change})
    assert changes["gc-would-delete-live"] == expected
