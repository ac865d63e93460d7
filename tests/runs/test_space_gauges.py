"""A run's figures of disks for its metrics."""

from __future__ import annotations

from pathlib import Path

from auditor.runs.load_space import space_gauges
from tests.made_runs import made_run


def test_what_comes_free_is_added_up_by_bookie_and_action_and_zeros_are_said(tmp_path: Path) -> None:
    logs = [
        {"bookie_id": "bk1", "action": action, "frees": frees}
        for action, frees in (("delete", 5), ("delete", 6), ("minor", 7), ("keep", 0))
    ]
    space = [{"bookie_id": "bk1", "class": "live", "bytes": 9}]
    run = made_run(tmp_path / "run", space=space, log_foresight=[*logs, {**logs[3], "bookie_id": "bk2"}])
    found = space_gauges(run)
    assert found.reclaimable == {
        "bk1": {"delete": 11, "minor": 7, "major": 0},
        "bk2": {"delete": 0, "minor": 0, "major": 0},
    }
    assert [(each.name, each.classes) for each in found.totals] == [("bk1", {"live": 9})]
    assert found.forecasts == ()
    assert run.space_gauges() == found


def test_a_run_without_entry_logs_has_no_figures(tmp_path: Path) -> None:
    assert space_gauges(made_run(tmp_path / "run")).totals == ()
