"""Tests of changes since the last complete run: an incomplete run in between is skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.report import EXIT_USAGE, Report
from auditor.runs.history import changes_since_complete
from tests.findings.changed_runs import row, write_run

A = "bk-a:3181"


def run(folder: Path, name: str, finished: int, *ids: str, complete: bool = True) -> Report:
    """Write a finished run that has a finding of each given check about ledger 1, and return its report."""
    path = folder / name
    write_run(
        path,
        [row(id, 1) for id in ids] + [row("orphan-ledger", 9, A, suppressed="known")],
        classes=[(1, "healthy", "healthy")],
        bookies=[(A, "read")],
    )
    file = path / "report.json"
    value = json.loads(file.read_text("utf-8"))
    value["run"].update(finished=finished, bookie_sources=["/bookies"], gaps=[] if complete else ["/ledgers"])
    file.write_text(json.dumps(value), "utf-8")
    return Report.from_json(file.read_bytes())


def test_run_is_compared_with_the_newest_complete_run_before_it(tmp_path: Path) -> None:
    assert run(tmp_path, "a", 1000, "entry-lost").complete
    run(tmp_path, "b", 2000, "below-ack-quorum", "mark-stuck")
    run(tmp_path, "c", 3000, "mark-stuck", complete=False)
    report = run(tmp_path, "d", 4000, "recovery-stuck", "below-ack-quorum")
    run(tmp_path, "e", 5000)
    since = changes_since_complete(f"{tmp_path}/d/", report)
    assert since.run is not None
    assert since.run.name == "b"
    assert [(change.change, change.id, change.count) for change in since.groups] == [
        ("new", "recovery-stuck", 1),
        ("fixed", "mark-stuck", 1),
    ]
    assert since.count("new") == since.count("fixed") == 1
    assert [change.ledger_id for change in since.groups[0].first] == [1]


def test_without_complete_run_the_newest_earlier_run_is_compared(tmp_path: Path) -> None:
    run(tmp_path, "a", 1000, complete=False)
    run(tmp_path, "b", 2000, "mark-stuck", complete=False)
    since = changes_since_complete(str(tmp_path / "c"), run(tmp_path, "c", 3000, "mark-stuck"))
    assert since.run is not None
    assert (since.run.name, since.groups) == ("b", ())
    assert since.warnings[0] == "no earlier run was complete: compared with the newest earlier run"


def test_run_that_cannot_be_compared_leaves_a_warning(tmp_path: Path) -> None:
    report = run(tmp_path, "b", 2000, "entry-lost")
    assert changes_since_complete(str(tmp_path / "b"), report).run is None
    run(tmp_path, "a", 1000)
    (tmp_path / "a" / "tables" / "changes" / "_SUCCESS").unlink()
    [warning] = changes_since_complete(str(tmp_path / "b"), report).warnings
    assert warning.startswith(
        f"not compared: {tmp_path}/a: has no tables/changes, so the run cannot be compared"
    )


def report_of(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", str(path), *arguments], prog_name="bkaudit")


def test_since_last_prints_the_plain_or_slack_message(tmp_path: Path) -> None:
    run(tmp_path, "a", 1000)
    run(tmp_path, "b", 2000, "entry-lost")
    result = report_of(tmp_path / "b", "--since-last")
    assert result.exit_code == 0, result.stderr
    assert "\nnew        " in result.stdout
    assert result.stdout == report_of(tmp_path / "b", "--format", "plain").stdout
    slack = report_of(tmp_path / "b", "--since-last", "--format", "slack")
    assert "entry-lost 1: ledger 1" in json.loads(slack.stdout)["text"]
    pair = report_of(tmp_path / "b", "--since-last", "--format", f"slack={tmp_path}/m", "--format", "plain")
    assert pair.stdout == result.stdout
    assert (tmp_path / "m").read_text("utf-8") == slack.stdout


@pytest.mark.parametrize("arguments", [("--format", "html"), ("--format", "plain", "--format", "text")])
def test_since_last_accepts_only_plain_and_slack_forms(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    run(tmp_path, "a", 1000)
    result = report_of(tmp_path / "a", "--since-last", *arguments)
    assert (result.exit_code, result.stdout) == (EXIT_USAGE, "")
    assert result.stderr == "bkaudit: --since-last: requires --format plain or slack\n"
