"""Successive runs of one cluster: new findings, fixed findings, and findings that were not checked again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from auditor.model.finding import Severity
from auditor.model.report import exit_code
from auditor.model.run_facts import sentence_of
from auditor.runs.history import history
from tests.corpora.audited import FinishedRun, audit
from tests.corpora.cluster import INSTANCE, Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C, D = (f"bk{letter}.example:3181" for letter in "abcd")
ALL_ENTRIES = range(10)
SUPPRESSIONS = """\
[[suppress]]
id = "orphan-*"
bookie_id = "bk?.example:3181"
reason = "being emptied"
until = 2999-12-31

[[suppress]]
id = "*"
reason = "no longer"
until = 2020-01-01

[[baseline]]
run = "runs/1"
reason = "known"
until = 2999-12-31
"""


def _cluster(later: bool) -> Cluster:
    """Return the cluster with the missing entries of each ledger, before or after the change."""
    cluster = Cluster()
    for bookie in (A, B, C, D):
        cluster.bookie(bookie)
    shared_gaps: dict[int, dict[str, list[int]]] = {1: {C: [4]}, 6: {}}
    first: dict[int, dict[str, list[int]]] = {
        2: {C: [4]},
        3: {},
        4: {C: [4]},
        5: {A: [4], B: [4], C: [4]},
        7: {C: [4, 5]},
        8: {C: [4]},
    }
    second: dict[int, dict[str, list[int]]] = {
        2: {},
        3: {B: [1]},
        4: {A: [4], B: [4], C: [4]},
        5: {A: [4], B: [4]},
        7: {C: [4]},
        8: {C: [4, 5, 6]},
    }
    for ledger, without in {**shared_gaps, **(second if later else first)}.items():
        cluster.ledger(ledger, {0: [A, B, C]}, (3, 2), 9, without=without)
    for ledger in (10, 11):
        # Of 10 all copies but those of D are whole; of 11 those of A and D are not.
        cluster.ledger(ledger, {0: [A, B, D]}, (3, 2), 9, without={D: [2], A: [2] if ledger == 11 else []})
    cluster.hold(20, D, ALL_ENTRIES)
    cluster.hold(21, C, ALL_ENTRIES)
    if later:
        cluster.hold(22, B, ALL_ENTRIES)
    return cluster


class ThreeRuns(NamedTuple):
    """Three runs: the second of a cluster that changed, without D's disks; the third with them."""

    first: FinishedRun
    second: FinishedRun
    third: FinishedRun
    home: Path


@pytest.fixture(scope="module")
def times(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ThreeRuns:
    home = tmp_path_factory.mktemp("time")
    before, after = _cluster(False).write(home / "before"), _cluster(True).write(home / "after")
    shutil.copytree(after, home / "blind")
    shutil.rmtree(home / "blind" / "bookies" / D.replace(":", "_"))
    (home / "suppressions.toml").write_text(SUPPRESSIONS)

    def run(name: str, root: Path, **options: Any) -> FinishedRun:
        where = home / "runs" / name
        return audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", where, **options)

    first = run("1", before)
    # None of these is a run to compare with.
    (home / "runs" / "0-crashed" / "tables").mkdir(parents=True)
    (home / "runs" / "4-of-another-cluster").mkdir()
    report = json.loads((home / "runs" / "1" / "report.json").read_text())
    report["cluster"]["instance_id"] = "another"
    report["run"]["finished"] += 1
    (home / "runs" / "4-of-another-cluster" / "report.json").write_text(json.dumps(report))
    (home / "runs" / "5-broken").mkdir()
    (home / "runs" / "5-broken" / "report.json").write_text("{")
    second = run("2", home / "blind")
    return ThreeRuns(first, second, run("3", after, suppressions=str(home / "suppressions.toml")), home)


def _changes(run: FinishedRun) -> dict[tuple[str, int | None, str | None], Any]:
    return {(row["id"], row["ledger_id"], row["bookie_id"]): row for row in run.table("changes")}


def _kinds(run: FinishedRun) -> dict[tuple[str, int | None, str | None], str]:
    return {key: row["change"] for key, row in _changes(run).items()}


def test_every_finding_is_new_in_a_first_run(times: ThreeRuns) -> None:
    assert times.first.report.run.changes is None
    assert set(_kinds(times.first).values()) == {"new"}
    assert sum(tally["new"] + tally["worse"] for tally in times.first.report.run.tally) == 0
    finished = times.first.report.run.finished
    assert {(row["first_seen"], row["last_seen"]) for row in times.first.table("changes")} == {
        (finished, finished)
    }


def test_each_finding_is_compared_with_the_previous_run(times: ThreeRuns) -> None:
    assert _kinds(times.second) == {
        ("below-write-quorum", 1, None): "same",
        ("below-write-quorum", 2, None): "fixed",
        ("below-write-quorum", 3, None): "new",
        ("below-write-quorum", 7, None): "better",
        ("below-write-quorum", 8, None): "worse",
        # Another id, and the same trouble: neither new nor fixed.
        ("entry-lost", 4, None): "worse",
        ("below-ack-quorum", 5, None): "better",
        # D was not read: nothing on it is fixed, and a class is no better for not knowing.
        ("below-write-quorum", 10, None): "unseen",
        ("below-write-quorum", 11, None): "same",
        ("orphan-ledger", 20, D): "unseen",
        ("bookie-unread", None, D): "new",
        ("orphan-ledger", 21, C): "same",
        ("orphan-ledger", 22, B): "new",
    }
    assert times.second.report.run.changes == {
        "previous": "1",
        "finished": times.first.report.run.finished,
        "new": 3,
        "fixed": 1,
        "worse": 2,
        "better": 2,
        "same": 3,
        "unseen": 2,
    }
    worse = _changes(times.second)["entry-lost", 4, None]
    assert (worse["previous_severity"], worse["severity"]) == ("warning", "critical")


def test_finding_unseen_in_one_run_is_the_same_and_not_new_in_the_next_run(times: ThreeRuns) -> None:
    kinds = _kinds(times.third)
    assert kinds.pop(("bookie-unread", None, D)) == "fixed"
    assert set(kinds.values()) == {"same"}
    assert {("below-ack-quorum", 11, None), ("orphan-ledger", 20, D)} <= set(kinds)


def test_first_and_last_seen_span_the_runs(times: ThreeRuns) -> None:
    ends = [run.report.run.finished for run in (times.first, times.second, times.third)]
    unseen = _changes(times.second)["orphan-ledger", 20, D]
    assert (unseen["first_seen"], unseen["last_seen"]) == (ends[0], ends[0])
    old, new = _changes(times.third)["orphan-ledger", 20, D], _changes(times.third)["orphan-ledger", 22, B]
    assert (old["first_seen"], old["last_seen"]) == (ends[0], ends[2])
    assert (new["first_seen"], new["last_seen"]) == (ends[1], ends[2])


def test_previous_run_is_a_finished_run_of_the_same_cluster(times: ThreeRuns) -> None:
    assert times.second.report.run.changes["previous"] == "1"
    assert times.third.report.run.changes["previous"] == "2"
    [note] = [note for note in map(sentence_of, times.second.report.run.remarks) if "not compared" in note]
    assert "5-broken" in note
    runs = history(times.home / "runs").runs
    assert [run.name for run in runs] == ["1", "4-of-another-cluster", "2", "3"]
    assert [run.instance_id for run in runs] == [INSTANCE, "another", INSTANCE, INSTANCE]
    assert runs[-1].changes == times.third.report.run.changes


def test_suppressed_findings_are_kept_with_the_reason_and_counted_separately(times: ThreeRuns) -> None:
    run = times.third.report.run
    assert [(rule["reason"], rule["count"], rule["expired"]) for rule in run.suppressions] == [
        ("being emptied", 3, False),
        ("no longer", 0, True),
        ("known", 5, False),
    ]
    by = {key: row["suppressed"] for key, row in _changes(times.third).items()}
    assert by["orphan-ledger", 20, D] == "being emptied"
    assert by["below-write-quorum", 1, None] == "known"
    # Worse than in the baseline, or not in it.
    assert by["entry-lost", 4, None] is by["below-write-quorum", 8, None] is None
    assert by["below-write-quorum", 3, None] is None
    # What is fixed needs no patience.
    assert by["bookie-unread", None, D] is None
    counts = {tally["id"]: (tally["count"], tally["suppressed"]) for tally in run.tally}
    assert counts == {
        "entry-lost": (1, 0),
        "below-ack-quorum": (2, 2),
        "below-write-quorum": (5, 3),
        "orphan-ledger": (3, 3),
    }
    assert times.third.report.verdict == "not-healthy"


def test_exit_code_depends_on_unsuppressed_findings(times: ThreeRuns) -> None:
    first, second, third = (run.report for run in (times.first, times.second, times.third))
    assert [exit_code(report, "new") for report in (first, second)] == [1, 1]
    # Nothing is new in the third, but ledger 4 still lacks an entry, and a baseline does not accept that.
    assert exit_code(third, "new") == 1
    assert exit_code(third, Severity.NOTE) == 1
