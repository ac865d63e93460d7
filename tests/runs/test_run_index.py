"""Tests of the index of a directory of runs: it changes no result and avoids reading reports twice."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditor.errors import RunError
from auditor.model.history import RunSummary
from auditor.runs import run_index
from auditor.runs.reader import RunReader
from auditor.runs.run_index import RUN_INDEX, WRITE_AFTER_READS, run_summaries
from tests.findings.changed_runs import write_run
from tests.reports.samples import CHANGES, tally

COUNT = WRITE_AFTER_READS + 4
TALLY = [tally("entry-lost", "critical", 2)]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory of finished runs with the index that an audit wrote, and one unfinished run."""
    for number in range(COUNT):
        write(tmp_path, number)
    (tmp_path / "at-work" / "tables").mkdir(parents=True)
    list(run_summaries(tmp_path, renew_index=True))
    return tmp_path


def write(runs: Path, number: int, **facts: Any) -> None:
    finished = {"finished": 1_795_000_000_000 + number, "tally": TALLY}
    changes = CHANGES if number % 2 else None
    shutil.rmtree(runs / f"run{number:03}", ignore_errors=True)
    write_run(runs / f"run{number:03}", [], run={**finished, "changes": changes, **facts})


@pytest.fixture
def read_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of each run whose report is read is appended."""
    names: list[str] = []

    def read(path: str) -> RunReader:
        names.append(Path(path).name)
        return RunReader(path)

    monkeypatch.setattr(run_index, "RunReader", read)
    return names


def summaries_without_index(runs: Path) -> list[RunSummary]:
    paths = sorted(path.parent for path in runs.glob("*/report.json"))
    return [RunSummary.from_report(str(path), RunReader(path).report) for path in paths]


def summaries(runs: Path, renew_index: bool = False) -> list[RunSummary | RunError]:
    return [summary for _, summary in run_summaries(runs, renew_index)]


def test_index_gives_the_same_summaries_as_the_reports(runs: Path, read_runs: list[str]) -> None:
    assert summaries(runs) == summaries_without_index(runs)
    assert read_runs == []


def unchanged(runs: Path) -> None:
    pass


def added(runs: Path) -> None:
    write(runs, COUNT)


def removed(runs: Path) -> None:
    shutil.rmtree(runs / "run003")


def replaced(runs: Path) -> None:
    """Replace a run by another of the same name, whose report has the same length."""
    before = (runs / "run003" / "report.json").stat()
    write(runs, 3, finished=1_795_000_000_999)
    assert (runs / "run003" / "report.json").stat().st_size == before.st_size


def renamed(runs: Path) -> None:
    (runs / "run003").rename(runs / "run900")


def exchanged(runs: Path) -> None:
    (runs / "run003").rename(runs / "other")
    (runs / "run005").rename(runs / "run003")
    (runs / "other").rename(runs / "run005")


def set_back(runs: Path) -> None:
    """Set a run back to the state and the times of a backup."""
    report = runs / "run003" / "report.json"
    write(runs, 3, finished=1)
    os.utime(report, ns=(1, 1))


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (unchanged, []),
        (added, [f"run{COUNT:03}"]),
        (removed, []),
        (replaced, ["run003"]),
        (renamed, ["run900"]),
        (exchanged, ["run003", "run005"]),
        (set_back, ["run003"]),
    ],
)
def test_only_changed_runs_are_read(
    change: Callable[[Path], None], read: list[str], runs: Path, read_runs: list[str]
) -> None:
    change(runs)
    assert summaries(runs) == summaries_without_index(runs)
    assert read_runs == read


def missing(index: Path) -> None:
    index.unlink()


def cut(index: Path) -> None:
    os.truncate(index, index.stat().st_size - 9)


def empty(index: Path) -> None:
    os.truncate(index, 0)


def flipped(index: Path) -> None:
    data = bytearray(index.read_bytes())
    data[len(data) // 2] ^= 4
    index.write_bytes(data)


def directory(index: Path) -> None:
    index.unlink()
    index.mkdir()


def other_version(index: Path) -> None:
    value = json.loads(gzip.decompress(index.read_bytes()))
    index.write_bytes(gzip.compress(json.dumps({**value, "version": "0.0.1"}).encode()))


def other_json(index: Path) -> None:
    index.write_bytes(gzip.compress(b"[1]"))


def nested_json(index: Path) -> None:
    index.write_bytes(gzip.compress(b"[" * 100_000))


@pytest.mark.parametrize(
    "spoil", [missing, cut, empty, flipped, directory, other_version, other_json, nested_json]
)
def test_missing_or_damaged_index_is_rebuilt(
    spoil: Callable[[Path], None], runs: Path, read_runs: list[str]
) -> None:
    spoil(runs / RUN_INDEX)
    for renew_index in (False, True, False):
        assert summaries(runs, renew_index) == summaries_without_index(runs)
    names = [f"run{number:03}" for number in range(COUNT)]
    again = names if spoil is directory else []  # nothing can be put in its place
    assert read_runs == [*names, *names, *again]


def test_flipped_bits_of_the_index_do_not_change_summaries(runs: Path) -> None:
    index = runs / RUN_INDEX
    data, expected = index.read_bytes(), summaries_without_index(runs)
    for place in range(0, len(data), 7):
        index.write_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
        assert summaries(runs) == expected, place


def test_unreadable_report_is_read_again_next_time(runs: Path) -> None:
    report = runs / "run003" / "report.json"
    text = report.read_text()
    report.write_text("{")
    assert sum(isinstance(summary, RunError) for summary in summaries(runs, renew_index=True)) == 1
    report.write_text(text)
    assert summaries(runs) == summaries_without_index(runs)


def test_index_is_written_only_for_many_runs_and_on_renewal(tmp_path: Path) -> None:
    for number in range(WRITE_AFTER_READS - 1):
        write(tmp_path, number)
    summaries(tmp_path, renew_index=True)
    write(tmp_path, COUNT)
    summaries(tmp_path)
    assert not (tmp_path / RUN_INDEX).exists()
    summaries(tmp_path, renew_index=True)
    assert (tmp_path / RUN_INDEX).exists()


def test_index_drops_removed_runs(runs: Path) -> None:
    for number in range(WRITE_AFTER_READS):
        shutil.rmtree(runs / f"run{number:03}")
    summaries(runs, renew_index=True)
    index = json.loads(gzip.decompress((runs / RUN_INDEX).read_bytes()))
    assert sorted(index["runs"]) == [f"run{number:03}" for number in range(WRITE_AFTER_READS, COUNT)]


def test_index_that_cannot_be_written_is_no_error(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs / RUN_INDEX).unlink()
    (runs / f"{RUN_INDEX}.part").mkdir()
    assert summaries(runs, renew_index=True) == summaries_without_index(runs)
