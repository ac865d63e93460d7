"""Standard streams that are closed, full, or left by their reader, as a shell makes them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.made_runs import made_run
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD

FULL = "bkaudit: standard output: cannot be written: No space left on device\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "run"
    made_run(path, [LOST, BELOW, ORPHAN, UNREAD])
    return path


def shell(command: str, run: Path) -> subprocess.CompletedProcess[str]:
    bkaudit = f"{sys.executable} -c 'from auditor.cli import main; main()'"
    text = command.replace("bkaudit", bkaudit).replace("RUN", str(run))
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60, check=False)


def test_closed_reader_is_no_error(run: Path) -> None:
    ended = shell("bkaudit report RUN --format json | true; echo ${PIPESTATUS[0]}", run)
    assert (ended.stdout, ended.stderr) == ("0\n", "")
    ended = shell("bkaudit explain check | head -1; echo ${PIPESTATUS[0]}", run)
    assert ended.stdout.splitlines()[1:] == ["0"]
    assert ended.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["report RUN --format json", "explain check", "history RUN/.."])
def test_full_standard_output_is_a_one_line_error(run: Path, command: str) -> None:
    ended = shell(f"bkaudit {command} > /dev/full", run)
    assert (ended.returncode, ended.stderr) == (4, FULL)


def test_report_with_closed_streams_writes_only_its_files(run: Path) -> None:
    ended = shell("bkaudit report RUN --format text --format json --format markdown <&- >&- 2>&-", run)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert "entry-lost" in (run / "report.md").read_text()
    (run / "report.md").unlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("command", "code"), [("report RUN", 0), ("status RUN", 1), ("report RUN/none", 2), ("nonsense", 2)]
)
def test_a_full_standard_error_changes_no_exit_code(run: Path, command: str, code: int) -> None:
    assert shell(f"bkaudit {command} 2> /dev/full", run).returncode == code
    assert shell(f"bkaudit {command} 2< /dev/null", run).returncode == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("option", ["--help", "--version", "report --help"])
def test_unwritable_help_is_a_one_line_error(run: Path, option: str) -> None:
    ended = shell(f"bkaudit {option} > /dev/full", run)
    assert (ended.returncode, ended.stderr) == (4, FULL)
    assert shell(f"bkaudit {option} | true; echo ${{PIPESTATUS[0]}}", run).stdout == "0\n"


def test_other_broken_pipes_are_reported_as_bugs(run: Path) -> None:
    code = (
        "from auditor.cli import main\nfrom auditor.runs import history\n"
        "def broken(*_):\n    raise BrokenPipeError(32, 'Broken pipe')\n"
        "history.history = broken\n"
        f"main(['history', {str(run.parent)!r}], prog_name='bkaudit')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 70
    assert "BrokenPipeError" in ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nonblocking_pipe_gets_the_complete_output(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    code = "from auditor.cli import main\nmain(['conf', 'show', 'schemas/tables.json'])\n"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen([sys.executable, "-c", code], stdout=writer, env=environment) as child:
        os.close(writer)
        time.sleep(1)
        with os.fdopen(reader, "rb") as stream:
            shown = stream.read()
    assert child.returncode == 0
    assert shown == (Path(__file__).parents[2] / "schemas" / "tables.json").read_bytes()
