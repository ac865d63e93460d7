"""Tests of the list of runs in a directory: only finished runs, oldest first."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from auditor.audit.changes import RunsBefore
from auditor.cli import main
from auditor.errors import RunError
from auditor.model.report import Cluster
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS
from auditor.reports import history as history_table
from auditor.runs.history import PreviousRun, find_sibling_runs, history
from tests.findings.changed_runs import INSTANCE, write_run
from tests.reports.samples import CHANGES, tally

CLUSTER = Cluster(INSTANCE, "zk://h1/ledgers", "flat")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with three finished runs, whose names do not tell their order, and other content."""
    tallies = [tally("entry-lost", "critical", 2), tally("orphan-ledger", "note", 3)]
    for name, finished in (("c", 1_795_000_000_000), ("a", 1_795_100_000_000), ("b", 1_795_200_000_000)):
        write_run(tmp_path / name, [], run={"finished": finished, "tally": tallies})
    write_run(tmp_path / "other", [], instance_id="another", run={"finished": 1_795_150_000_000})
    (tmp_path / "at-work" / "tables" / "changes").mkdir(parents=True)
    (tmp_path / "at-work" / "manifest.json").write_text("{}")
    (tmp_path / "at-work" / "report.json.part").write_text("{")
    (tmp_path / "report.json").write_text("a file, and no run")
    return tmp_path


def test_finished_runs_are_ordered_by_their_end_time(runs: Path) -> None:
    finished_runs = history(runs).runs
    assert [run.name for run in finished_runs] == ["c", "a", "other", "b"]
    assert finished_runs[0].path == f"{runs}/c"
    assert finished_runs[0].severities == {"critical": 2, "error": 0, "warning": 0, "note": 3}
    assert history(f"file://{runs}").runs[0].path == f"file://{runs}/c"


def test_report_of_another_version_is_left_out_and_named(runs: Path) -> None:
    value = json.loads((runs / "a" / "report.json").read_text())
    del value["run"]["changes"]
    (runs / "a" / "report.json").write_text(json.dumps(value))
    assert [run.name for run in history(runs).runs] == ["c", "other", "b"]
    [error] = history(runs).unreadable
    assert str(error).startswith(f"{runs}/a/report.json: another version of this program wrote this report")


def test_missing_directory_of_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nothing"):
        history(tmp_path / "nothing")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_previous_run_is_the_newest_earlier_run_of_the_same_cluster(runs: Path, scheme: str) -> None:
    def before(finished: int, cluster: Cluster = CLUSTER) -> str | None:
        previous = find_sibling_runs(f"{scheme}{runs}/new", cluster).newest(finished)
        assert previous.notes == ()
        return previous.run.name if previous.run else None

    assert before(1_795_300_000_000) == "b"
    assert before(1_795_160_000_000) == "a"
    assert before(1) is None
    assert before(1_795_300_000_000, Cluster("another", "zk://h2/ledgers", "flat")) == "other"
    assert before(1_795_300_000_000, Cluster("unheard-of", "zk://h1/ledgers", "flat")) is None


def test_without_instance_id_the_metadata_uri_tells_clusters_apart(tmp_path: Path) -> None:
    write_run(tmp_path / "one", [], instance_id=None)
    for uri, is_found in (("zk://h1/ledgers", True), ("zk://h2/ledgers", False)):
        cluster = Cluster(None, uri, "flat")
        assert bool(find_sibling_runs(str(tmp_path / "new"), cluster).newest(2**62).run) == is_found


def test_runs_that_cannot_be_compared_are_notes(runs: Path) -> None:
    (runs / "b" / "tables" / "changes" / "_SUCCESS").unlink()
    (runs / "c" / "report.json").write_text("[]")
    previous = find_sibling_runs(str(runs / "new"), CLUSTER).newest(2**62)
    assert previous.run is not None
    assert previous.run.name == "a"
    assert [note.split(": ")[1] for note in previous.notes] == [
        f"{runs}/c/report.json is damaged (the file is not a report of this program",
        f"{runs}/b",
    ]
    assert "has no tables/changes, so the run cannot be compared; audit again" in previous.notes[1]
    lost = find_sibling_runs(str(runs / "no" / "where" / "new"), CLUSTER).newest(2**62)
    assert lost.run is None
    assert "not compared with any earlier run" in lost.notes[0]
    assert "root of a file system" in find_sibling_runs("s3://bucket", CLUSTER).newest(2**62).notes[0]


@pytest.mark.parametrize(
    ("ahead", "names"), [(0, []), (MAX_CLOCK_AHEAD_MS, []), (MAX_CLOCK_AHEAD_MS + 1, ["b"])]
)
def test_run_that_ended_later_is_no_earlier_run(runs: Path, ahead: int, names: list[str]) -> None:
    """A clock was wrong, so it is unknown which of the two runs read the cluster last."""
    siblings = find_sibling_runs(str(runs / "new"), CLUSTER)
    now_ms = 1_795_200_000_000 - ahead
    notes = siblings.notes_on_later_runs(now_ms)
    assert [note.split(": ")[0] for note in notes] == [f"not compared with {name}" for name in names]
    before = RunsBefore(PreviousRun(None, ()), None, siblings)
    assert before.has_later_run(now_ms) == bool(names)
    earlier = siblings.newest(now_ms).run
    assert earlier is not None
    assert earlier.name == ("a" if ahead else "b")


def bkaudit(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments, prog_name="bkaudit")


def test_history_of_a_directory_is_a_table(runs: Path) -> None:
    write_run(runs / "d", [], run={"finished": 1_795_300_000_000, "changes": CHANGES})
    (runs / "broken").mkdir()
    (runs / "broken" / "report.json").write_text("{")
    outcome = bkaudit("history", str(runs))
    lines = outcome.stdout.splitlines()
    assert lines[0].split() == [
        "finished", "verdict", "crit", "err", "warn", "note", "new", "fixed", "worse", "run",
    ]  # fmt: skip
    assert lines[1].split()[2:] == ["healthy", "2", "0", "0", "3", "-", "-", "-", "c"]
    assert lines[5].split()[7:] == ["1", "2", "1", "d"]
    assert "the runs belong to 2 clusters" in lines[6]
    assert "left out" in outcome.stderr
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [51, 60])
def test_history_on_a_narrow_terminal_has_verdict_and_name_below(runs: Path, width: int) -> None:
    write_run(runs / "20261127T080000Z", [], run={"finished": 1_795_300_000_000, "changes": CHANGES})
    summaries = history(str(runs)).runs
    lines = history_table.text(summaries, width).splitlines()
    assert lines[0].split() == ["finished", "crit", "err", "warn", "note", "new", "fixed", "worse"]
    assert lines[1].split() == ["verdict", "run"]
    assert lines[2].split()[2:] == ["2", "0", "0", "3", "-", "-", "-"]
    last = lines.index("  healthy 20261127T080000Z")
    assert lines[last - 1].split()[6:] == ["1", "2", "1"]
    assert max(map(len, lines)) <= width
    assert history_table.text(summaries, 80) == history_table.text(summaries)
    assert history_table.text(summaries).splitlines()[1].endswith(" c")


def test_history_is_available_as_csv_and_json(runs: Path) -> None:
    rows = list(csv.DictReader(bkaudit("history", str(runs), "--format", "csv").stdout.splitlines()))
    assert [row["path"].rpartition("/")[2] for row in rows] == ["c", "a", "other", "b"]
    assert (rows[0]["critical"], rows[0]["previous"], rows[0]["unseen"]) == ("2", "", "")
    values = json.loads(bkaudit("history", str(runs), "--format", "json").stdout)
    assert [value["instance_id"] for value in values] == [INSTANCE, INSTANCE, "another", INSTANCE]


def test_empty_history_names_the_audit_command(tmp_path: Path) -> None:
    assert bkaudit("history", str(tmp_path)).stdout.startswith(
        f"no finished run is in {tmp_path}. To create one, run: bkaudit audit --out "
    )
    outcome = bkaudit("history", str(tmp_path / "none"))
    assert outcome.exit_code == 2
