"""Tests of the search for the newest complete run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from auditor.model.report import Cluster, Report
from auditor.runs.siblings import find_last_complete
from tests.reports.samples import coverage, report


def finished_report(finished: int, complete: bool, cluster: str | None = "one") -> Report:
    run_report = report([], (), coverage(complete))
    run = replace(run_report.run, finished=finished)
    return replace(run_report, run=run, cluster=Cluster(cluster, "zk://h/ledgers", "flat"))


def write_runs(directory: Path, **runs: Report) -> None:
    for name, run_report in runs.items():
        (directory / name).mkdir()
        (directory / name / "report.json").write_text(run_report.to_json())


def test_complete_run_is_its_own_last_complete_run(tmp_path: Path) -> None:
    assert find_last_complete(str(tmp_path / "nowhere" / "run"), finished_report(7, True)) == 7


def test_newest_earlier_complete_run_of_the_cluster_counts(tmp_path: Path) -> None:
    write_runs(
        tmp_path,
        a=finished_report(1, True),
        b=finished_report(3, True),
        c=finished_report(5, False),
        other=finished_report(6, True, "two"),
        nameless=finished_report(6, True, None),
        later=finished_report(9, True),
    )
    (tmp_path / "unfinished").mkdir()
    assert find_last_complete(f"{tmp_path}/c/", finished_report(7, False)) == 3
    assert find_last_complete(f"file://{tmp_path}/c", finished_report(7, False)) == 3
    assert find_last_complete(f"{tmp_path}/c", finished_report(7, False, "three")) is None


def test_runs_beside_a_relative_path_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_runs(tmp_path, a=finished_report(1, True), c=finished_report(5, False))
    monkeypatch.chdir(tmp_path)
    assert find_last_complete("c", finished_report(5, False)) == 1
