"""The newest run that saw everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from auditor.model.report import Cluster, Report
from auditor.runs.siblings import find_last_complete
from tests.reports.samples import coverage, report


def done(at: int, complete: bool, cluster: str | None = "one") -> Report:
    made = report([], (), coverage(complete))
    run = replace(made.run, finished=at)
    return replace(made, run=run, cluster=Cluster(cluster, "zk://h/ledgers", "flat"))


def kept(directory: Path, **runs: Report) -> None:
    for name, made in runs.items():
        (directory / name).mkdir()
        (directory / name / "report.json").write_text(made.to_json())


def test_a_complete_run_is_its_own(tmp_path: Path) -> None:
    assert find_last_complete(str(tmp_path / "nowhere" / "run"), done(7, True)) == 7


def test_of_earlier_runs_of_the_cluster_the_newest_complete_one_counts(tmp_path: Path) -> None:
    kept(
        tmp_path,
        a=done(1, True),
        b=done(3, True),
        c=done(5, False),
        other=done(6, True, "two"),
        nameless=done(6, True, None),
        later=done(9, True),
    )
    (tmp_path / "unfinished").mkdir()
    assert find_last_complete(f"{tmp_path}/c/", done(7, False)) == 3
    assert find_last_complete(f"file://{tmp_path}/c", done(7, False)) == 3
    assert find_last_complete(f"{tmp_path}/c", done(7, False, "three")) is None


def test_a_relative_path_has_a_directory_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path, a=done(1, True), c=done(5, False))
    monkeypatch.chdir(tmp_path)
    assert find_last_complete("c", done(5, False)) == 1
