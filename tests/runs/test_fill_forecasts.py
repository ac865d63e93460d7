"""Tests of forecasts of full disks, which are made only if three runs agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.model.space import FileSystem
from auditor.runs.disk_forecasts import disk_totals, fill_forecasts, make_forecast
from auditor.runs.reader import RunReader
from tests.made_runs import made_run
from tests.reports.samples import report

HOUR, DAY = 3_600_000, 86_400_000
SIZE = 1_000_000


def disk_history(*points: tuple[float, int], size: int = SIZE) -> list[FileSystem]:
    """Return a file system as the runs recorded it. The points (days, free) are given oldest first."""
    return [FileSystem(7, size, free, round(when * DAY)) for when, free in reversed(points)]


def test_steadily_filling_disk_is_full_at_its_fill_rate() -> None:
    forecast = make_forecast("bk1", disk_history((0, 500_000), (1, 450_000), (2, 400_000), (4, 300_000)))
    assert forecast is not None
    assert (forecast.days, forecast.rate, forecast.runs) == (5.0, 50_000, 4)


def test_full_disk_has_zero_days_left() -> None:
    forecast = make_forecast("bk1", disk_history((0, 60_000), (1, 50_000), (2, 40_000)))
    assert forecast is not None
    assert forecast.days == 0


@pytest.mark.parametrize(
    "points",
    [
        [(0, 400), (1, 300)],  # two runs
        [(0, 400), (1, 300), (2, 350)],  # it became emptier
        [(0, 400), (1, 300), (2, 300)],  # it does not fill
        [(0, 400_000), (1, 390_000), (2, 360_000)],  # three times as fast
        [(0, 400), (0.01, 300), (0.02, 200)],  # within an hour
    ],
)
def test_no_forecast_is_made_where_three_runs_do_not_agree(points: Sequence[tuple[float, int]]) -> None:
    assert make_forecast("bk1", disk_history(*points)) is None


def test_runs_before_a_disagreeing_run_do_not_count() -> None:
    forecast = make_forecast("bk1", disk_history((0, 900_000), (1, 300_000), (2, 290_000), (3, 280_000)))
    assert forecast is not None
    assert (forecast.runs, forecast.rate) == (3, 10_000)


def test_runs_before_a_disk_was_enlarged_do_not_count() -> None:
    older = disk_history((0, 500_000), (1, 450_000), size=SIZE // 2)
    assert make_forecast("bk1", [*disk_history((2, 400_000)), *older]) is None


def run_at(directory: Path, day: int, free: dict[tuple[str, int], int]) -> RunReader:
    rows = [
        {"bookie_id": name, "device": device, "capacity_bytes": SIZE, "free_bytes": space, "seen": day * DAY}
        for (name, device), space in free.items()
    ]
    run_report = report()
    finished = replace(run_report, run=replace(run_report.run, finished=day * DAY + HOUR))
    return made_run(directory / f"day-{day}", report=finished, disks=rows)


def test_forecast_of_a_directory_of_runs_is_of_the_first_disk_to_fill(tmp_path: Path) -> None:
    """Disk 2 of bk-a fills faster than its disk 1. bk-b fills in only one of two intervals. bk-c is new."""
    for day in (1, 2, 3):
        free = {
            ("bk-a", 1): 900_000 - 10_000 * day,
            ("bk-a", 2): 900_000 - 100_000 * day,
            ("bk-b", 1): 900_000 - 100_000 * (day // 2),
        }
        run = run_at(tmp_path, day, free | ({("bk-c", 1): 5} if day == 3 else {}))
    [forecast] = fill_forecasts(run, disk_totals(run))
    assert (forecast.name, forecast.days, forecast.runs) == ("bk-a", 5.5, 3)
    # A run that is not the newest looks back only.
    run = RunReader(tmp_path / "day-2")
    assert fill_forecasts(run, disk_totals(run)) == ()
