"""Tests of a run's disk metrics."""

from __future__ import annotations

from pathlib import Path

from auditor.runs.load_space import space_gauges
from tests.made_runs import made_run


def test_reclaimable_bytes_are_summed_by_bookie_and_action_with_zeros(tmp_path: Path) -> None:
    logs = [
        {"bookie_id": "bk1", "action": action, "frees": frees}
        for action, frees in (("delete", 5), ("delete", 6), ("minor", 7), ("keep", 0))
    ]
    space = [{"bookie_id": "bk1", "class": "live", "bytes": 9}]
    run = made_run(tmp_path / "run", space=space, log_foresight=[*logs, {**logs[3], "bookie_id": "bk2"}])
    gauges = space_gauges(run)
    assert gauges.reclaimable == {
        "bk1": {"delete": 11, "minor": 7, "major": 0},
        "bk2": {"delete": 0, "minor": 0, "major": 0},
    }
    assert [(total.name, total.classes) for total in gauges.totals] == [("bk1", {"live": 9})]
    assert gauges.forecasts == ()
    assert run.space_gauges() == gauges


def test_run_without_entry_logs_has_no_space_totals(tmp_path: Path) -> None:
    assert space_gauges(made_run(tmp_path / "run")).totals == ()
