"""Runs of a cluster with the same parent directory do not overlap; the lock ends with its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor.audit import lock as lock_module
from auditor.audit.audit import Audit
from auditor.audit.lock import lock_file, read_lock_holder, run_lock
from auditor.errors import FileSystemError, UsageError
from tests.servers.nobody import as_nobody

CLUSTER = "zk://h1:2181;h2:2181/ledgers"
HOLD = (
    "import sys; from auditor.audit.lock import run_lock\n"
    "with run_lock(*sys.argv[1:]): print('locked', flush=True); sys.stdin.read()"
)


@contextmanager
def other_process(out: Path, metadata: str = CLUSTER) -> Iterator[subprocess.Popen[str]]:
    """Yield another process in the middle of a run."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, metadata, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def test_second_run_is_refused_and_the_error_names_the_running_process(tmp_path: Path) -> None:
    with other_process(tmp_path / "first") as process:
        with pytest.raises(
            UsageError, match=f"process {process.pid} on .*, writing to {tmp_path}/first"
        ) as refused:
            Audit("zk://h2:2181,h1:2181/ledgers", [], str(tmp_path / "second")).run()
        assert "the same command" not in str(refused.value)
        assert not (tmp_path / "second").exists()
        with pytest.raises(UsageError, match=f"process {process.pid} on "):
            Audit(CLUSTER, [], str(tmp_path / "third")).scan()


def test_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    with other_process(tmp_path / "first") as process:
        assert read_lock_holder(CLUSTER, str(tmp_path / "second")) is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert read_lock_holder(CLUSTER, str(tmp_path / "second")) is None
        with run_lock(CLUSTER, str(tmp_path / "second")):
            lock_holder = read_lock_holder(CLUSTER, str(tmp_path / "third"))
            assert lock_holder is not None
            assert (lock_holder.pid, lock_holder.run) == (os.getpid(), str(tmp_path / "second"))


def test_other_clusters_and_other_directories_have_separate_locks(tmp_path: Path) -> None:
    with (
        other_process(tmp_path / "runs" / "first"),
        run_lock("zk://h1:2181;h2:2181/other", str(tmp_path / "runs" / "second")),
        run_lock(CLUSTER, str(tmp_path / "elsewhere" / "second")),
    ):
        assert len(list(tmp_path.glob("*/.bkaudit-*.lock"))) == 3


def test_lock_is_released_after_a_run_ends_or_fails(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    for error in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(error), run_lock(CLUSTER, out):
            raise error
    with run_lock(CLUSTER, out):
        pass
    assert read_lock_holder(CLUSTER, out) is None
    assert list(tmp_path.iterdir()) == []  # locks do not pile up


def test_looking_up_a_lock_holder_creates_no_file(tmp_path: Path) -> None:
    assert read_lock_holder(CLUSTER, str(tmp_path / "runs" / "first")) is None
    assert list(tmp_path.iterdir()) == []


def test_lock_with_an_empty_file_still_refuses_a_second_run(tmp_path: Path) -> None:
    with other_process(tmp_path / "first"):
        path = lock_file(CLUSTER, str(tmp_path / "first"))
        assert path is not None
        assert json.loads(path.read_text())["host"]
        path.write_text("")
        with pytest.raises(UsageError, match=str(path)), run_lock(CLUSTER, str(tmp_path / "second")):
            pass


def test_unwritable_run_directory_is_reported_with_its_path(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with (
        as_nobody(),
        pytest.raises(FileSystemError, match=f"--out {tmp_path}/run: .*Permission denied"),
        run_lock(CLUSTER, str(tmp_path / "run")),
    ):
        pass
    tmp_path.chmod(0o755)


def test_lock_file_that_is_deleted_while_locking_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens if old runs and idle locks are pruned at the moment when a run begins."""
    path = lock_file(CLUSTER, str(tmp_path / "run"))
    assert path is not None
    lock, times = lock_module._try_lock, []

    def pruned(descriptor: int, kind: int) -> bool:
        times.append(kind)
        if len(times) == 1:
            path.unlink()
        return lock(descriptor, kind)

    monkeypatch.setattr(lock_module, "_try_lock", pruned)
    with run_lock(CLUSTER, str(tmp_path / "run")):
        assert len(times) == 2
        assert read_lock_holder(CLUSTER, str(tmp_path / "run")) is not None


def test_lock_file_that_cannot_be_reopened_is_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file descriptor that is closed twice may by then belong to another thread's file."""
    path = lock_file(CLUSTER, str(tmp_path / "runs" / "run"))
    assert path is not None
    lock, close, closed = lock_module._try_lock, os.close, []

    def removed(descriptor: int, kind: int) -> bool:
        locked = lock(descriptor, kind)
        path.unlink()
        path.parent.rmdir()
        path.parent.write_text("no directory")
        return locked

    def close_once(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(lock_module, "_try_lock", removed)
    monkeypatch.setattr(os, "close", close_once)
    with pytest.raises(UsageError, match="--out"), run_lock(CLUSTER, str(tmp_path / "runs" / "run")):
        pass
    assert len(closed) == 1
