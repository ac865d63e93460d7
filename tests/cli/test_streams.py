"""Standard streams that are closed, full, or left by their reader, as a shell makes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.made_runs import made_run
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "run"
    made_run(path, [LOST, BELOW, ORPHAN, UNREAD])
    return path


def shell(command: str, run: Path) -> subprocess.CompletedProcess[str]:
    bkaudit = f"{sys.executable} -c 'from auditor.cli import main; main()'"
    text = command.replace("bkaudit", bkaudit).replace("RUN", str(run))
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60, check=False)


def test_a_reader_that_leaves_is_no_error(run: Path) -> None:
    ended = shell("bkaudit report RUN --format json | true; echo ${PIPESTATUS[0]}", run)
    assert (ended.stdout, ended.stderr) == ("0\n", "")
    ended = shell("bkaudit explain check | head -1; echo ${PIPESTATUS[0]}", run)
    assert ended.stdout.splitlines()[1:] == ["0"]
    assert ended.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["report RUN --format json", "explain check", "history RUN/.."])
def test_a_full_standard_output_is_one_line(run: Path, command: str) -> None:
    ended = shell(f"bkaudit {command} > /dev/full", run)
    said = "bkaudit: standard output cannot be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_closed_streams_go_nowhere_and_no_file_takes_their_number(run: Path) -> None:
    ended = shell("bkaudit report RUN --format text --format json --format markdown <&- >&- 2>&-", run)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert "entry-lost" in (run / "report.md").read_text()
    (run / "report.md").unlink()
