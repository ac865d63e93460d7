"""``bkaudit prune``: the runs that it removes or always keeps. Without --yes it removes none."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.amounts import size
from auditor.model.history import RunSummary
from auditor.runs.siblings import RetentionRules, decide_retention
from tests.reports.samples import coverage, report

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday


def summary(days_ago: float, complete: bool = True, instance: str = "one") -> RunSummary:
    base = report([], coverage=coverage(complete), changes=None)
    when = int((NOON - timedelta(days=days_ago)).timestamp() * 1000)
    run_report = replace(
        base, run=replace(base.run, finished=when), cluster=replace(base.cluster, instance_id=instance)
    )
    return RunSummary.from_report(f"runs/{instance}-{days_ago}", run_report)


def kept_names(runs: list[RunSummary], keep: RetentionRules, pinned: tuple[str, ...] = ()) -> list[str]:
    reasons = dict.fromkeys(pinned, "something rests on it")
    return [decision.run.name for decision in decide_retention(runs, keep, reasons) if decision.reasons]


def test_last_daily_weekly_and_monthly_keep_the_newest_of_each() -> None:
    runs = [summary(days) for days in (0, 0.25, 1, 2, 3, 7, 14, 21, 40)]
    assert kept_names(runs, RetentionRules(last=2)) == ["one-0.25", "one-0"]
    assert kept_names(runs, RetentionRules(daily=3)) == ["one-2", "one-1", "one-0"]
    assert kept_names(runs, RetentionRules(weekly=3)) == ["one-14", "one-7", "one-0"]
    assert kept_names(runs, RetentionRules(monthly=2)) == ["one-21", "one-0"]
    assert kept_names(runs, RetentionRules(last=1, daily=2, weekly=2)) == ["one-7", "one-1", "one-0"]


def test_newest_complete_pinned_and_other_clusters_runs_are_kept() -> None:
    runs = [summary(9, complete=False), summary(8), summary(1, complete=False), summary(0, complete=False)]
    assert kept_names(runs, RetentionRules(last=1)) == ["one-8", "one-0"]
    assert kept_names(runs, RetentionRules(last=1), ("runs/one-9",)) == ["one-9", "one-8", "one-0"]
    foreign = summary(30, instance="two")
    assert kept_names([*runs, foreign], RetentionRules(last=1)) == ["two-30", "one-8", "one-0"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for days in range(5):
        base = report([], coverage=coverage(True), changes=None)
        when = int((NOON - timedelta(days=days)).timestamp() * 1000)
        (tmp_path / f"run-{days}" / "tables").mkdir(parents=True)
        (tmp_path / f"run-{days}" / "tables" / "part").write_bytes(b"x" * 1000)
        text = replace(base, run=replace(base.run, finished=when)).to_json()
        (tmp_path / f"run-{days}" / "report.json").write_text(text)
    (tmp_path / "unfinished" / "tables").mkdir(parents=True)
    (tmp_path / "mine.txt").touch()
    for name in ("idle", "held"):
        (tmp_path / f".bkaudit-{name}.lock").touch()
    return tmp_path


def prune(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["prune", *(str(argument) for argument in arguments)])


def names(runs: Path) -> set[str]:
    return {path.name for path in runs.iterdir()}


def test_only_reported_runs_are_removed_and_only_with_yes(runs: Path) -> None:
    before = names(runs)
    dry = prune(runs, "--keep-last", 2)
    assert dry.exit_code == 0, dry.stderr
    assert "remove     2026-11-16 12:00:00 UTC  run-4" in dry.stdout
    assert "keep       2026-11-20 12:00:00 UTC  run-0 (last, the newest complete run)" in dry.stdout
    assert "3 runs of 5, " in dry.stdout
    assert "would be removed. Pass --yes to remove them" in dry.stdout
    assert names(runs) == before
    descriptor = os.open(runs / ".bkaudit-held.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        done = prune(runs, "--keep-last", 2, "--yes")
    finally:
        os.close(descriptor)
    assert done.stdout.splitlines()[-1].endswith("and 1 lock removed")
    assert ".bkaudit-held.lock has been locked since" in done.stderr
    assert before - names(runs) == {"run-2", "run-3", "run-4", ".bkaudit-idle.lock"}


@pytest.mark.parametrize("directory", ["{}", "{}/", "file://{}"])
@pytest.mark.parametrize("baseline", ["run-4", "file://{}/run-4"])
def test_baseline_is_kept_for_every_spelling_of_its_path(runs: Path, directory: str, baseline: str) -> None:
    file, runs_path = runs / "suppressions.toml", directory.format(runs)
    file.write_text(f'[[baseline]]\nrun = "{baseline.format(runs)}"\nreason = "r"\nuntil = 2020-01-01\n')
    assert prune(runs_path, "--keep-last", 1, "--suppressions", file, "--yes").exit_code == 0
    assert {name for name in names(runs) if name.startswith("run")} == {"run-0", "run-4"}


def test_baseline_named_in_the_configuration_is_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs / "suppressions.toml").write_text('[[baseline]]\nrun = "run-4"\nreason = "r"\nuntil = 2020-01-01\n')
    (runs / "audit.toml").write_text(f'suppressions = "{runs}/suppressions.toml"\n')
    monkeypatch.setenv("BKAUDIT_CONF", str(runs / "audit.toml"))
    monkeypatch.setenv("BKAUDIT_RUNS", str(runs))
    assert "run-4 (the baseline of a suppression)" in prune("--keep-last", 1).stdout
    assert prune("--keep-last", 1, "--yes").exit_code == 0
    assert {name for name in names(runs) if name.startswith("run")} == {"run-0", "run-4"}


def test_run_named_by_the_since_option_is_kept(runs: Path) -> None:
    file = runs / "audit.toml"
    file.write_text(f'since = "{runs}/run-3"\n')
    assert "run-3 (the option since names this run)" in prune(runs, "--keep-last", 1, "--conf", file).stdout
    assert prune(runs, "--keep-last", 1, "--conf", file, "--yes").exit_code == 0
    assert {name for name in names(runs) if name.startswith("run")} == {"run-0", "run-3"}
    file.write_text('since = "last"\n')
    assert prune(runs, "--keep-last", 1, "--conf", file, "--yes").exit_code == 0
    assert {name for name in names(runs) if name.startswith("run")} == {"run-0"}


def test_unreadable_suppressions_file_removes_nothing(runs: Path) -> None:
    (runs / "audit.toml").write_text('suppressions = "/nowhere/suppressions.toml"\n')
    refused = prune(runs, "--keep-last", 1, "--yes", "--conf", runs / "audit.toml")
    assert (refused.exit_code, "/nowhere/suppressions.toml" in refused.stderr) == (2, True)
    assert (runs / "run-4").exists()


def test_missing_retention_rule_is_wrong_usage(runs: Path) -> None:
    refused = prune(runs, "--yes")
    assert (refused.exit_code, "no retention rule was given" in refused.stderr) == (2, True)
    assert (runs / "run-4").exists()


def test_missing_runs_directory_is_reported_with_advice(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(main, ["prune", str(tmp_path / "none"), "--keep-last", "1"])
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(f"bkaudit: {tmp_path}/none: no such directory; bkaudit audit creates it")
    assert len(outcome.stderr.splitlines()) == 1


def test_prune_by_uri_removes_no_lock(runs: Path) -> None:
    old = [file for day in (2, 3, 4) for file in (runs / f"run-{day}").rglob("*") if file.is_file()]
    freed = size(sum(file.stat().st_size for file in old))
    done = prune(f"file://{runs}", "--keep-last", 2, "--yes")
    assert done.stdout.splitlines()[-1] == f"3 runs of 5, {freed}, and 0 locks removed"
    assert names(runs) >= {"run-0", "run-1", "unfinished", ".bkaudit-idle.lock"}
    assert not names(runs) & {"run-2", "run-3", "run-4"}
