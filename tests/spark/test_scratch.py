"""Temporary files are private, have unique names, and do not outlive their process for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.runs.whole_file import write_whole
from auditor.spark.session import SCRATCH_MARK_FILE, scratch_directory

HOLD = """
import sys
from auditor.spark.session import scratch_directory
with scratch_directory("held") as path:
    open(path + "/file", "w").close()
    print(path, flush=True)
    sys.stdin.read()
"""

SHUFFLE = """
import sys
from auditor.spark.session import build_session
spark = build_session("local[1]")
spark.range(3).repartition(2).count()
print(spark.sparkContext._gateway.proc.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def held(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield a running process and its scratch directory, which was made long ago."""
    command, place = [sys.executable, "-c", HOLD], os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=place) as running:
        assert running.stdout is not None
        path = Path(running.stdout.readline().strip())
        os.utime(path, (0, 0))
        yield running, path
        running.kill()


def test_scratch_directories_are_unique_and_private(temporary: Path) -> None:
    with scratch_directory("a") as first_dir, scratch_directory("a") as second_dir:
        assert first_dir != second_dir
        assert {Path(path).stat().st_mode & 0o777 for path in (first_dir, second_dir)} == {0o700}
    assert not [*temporary.iterdir()]


def test_scratch_directory_of_live_process_is_kept_and_of_killed_process_removed(
    held: tuple[subprocess.Popen[str], Path], temporary: Path
) -> None:
    running, path = held
    with scratch_directory("a"):
        assert path.is_dir()
    running.kill()
    running.wait()
    assert path.is_dir()
    with scratch_directory("a"):
        assert not path.exists()


@pytest.mark.spark
def test_scratch_files_of_killed_java_are_removed(
    temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    disk = tmp_path_factory.mktemp("disk")
    place = os.environ | {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": f"{disk},{disk}/none"}
    with subprocess.Popen(
        [sys.executable, "-c", SHUFFLE], stdin=-1, stdout=-1, stderr=-3, text=True, env=place
    ) as running:
        assert running.stdout is not None
        os.kill(int(running.stdout.readline()), signal.SIGKILL)
        running.kill()
    leftovers = [*temporary.iterdir(), *(path for path in disk.iterdir() if path.name != "none")]
    assert all((path / SCRATCH_MARK_FILE).is_file() for path in leftovers)
    assert [path for leftover in leftovers for path in leftover.glob("blockmgr-*")]
    for path in leftovers:
        os.utime(path, (0, 0))
    for parent in (temporary, disk):
        with scratch_directory("a", parent):
            pass
    assert not [path for path in leftovers if path.exists()]


def test_unrelated_files_are_not_removed(temporary: Path) -> None:
    (temporary / "bkaudit-file").touch()
    (temporary / "other").mkdir()
    (temporary / "bkaudit-link").symlink_to("other")
    (temporary / "bkaudit-new").mkdir()
    (temporary / "bkaudit-runs" / "newest").mkdir(parents=True)
    (temporary / "bkaudit-runs").chmod(0o700)
    for name in ("other", "bkaudit-runs"):
        os.utime(temporary / name, (0, 0))
    with scratch_directory("a"):
        pass
    assert {path.name for path in temporary.iterdir()} == {
        "bkaudit-file",
        "bkaudit-link",
        "bkaudit-new",
        "bkaudit-runs",
        "other",
    }
    assert (temporary / "bkaudit-runs" / "newest").is_dir()


def test_stale_partial_file_is_removed_by_next_write_of_same_file(tmp_path: Path) -> None:
    old, new, other_file = (
        tmp_path / f".{name}.part" for name in ("a.html.01234567", "a.html.89abcdef", "b.01234567")
    )
    for path in (old, new, other_file):
        path.touch()
    for path in (old, other_file):
        os.utime(path, (time.time() - 90_000,) * 2)
    write_whole(str(tmp_path / "a.html"), lambda out: out.write(b"whole"))
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", new.name, other_file.name}
