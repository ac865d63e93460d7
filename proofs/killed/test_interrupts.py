"""An audit interrupted at any moment of its start leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.corpora.corpora import unpack

MOMENTS_SECONDS = [0.2 * number for number in range(1, 21)]
ENDED_LIMIT_SECONDS = 30
"""Longest wait for processes to end.

A Java that has started ends a few seconds after the program, when its standard input ends.
"""

MARK = "BKAUDIT_TEST_MARK"
PROGRAM = "from auditor.cli import main; main(prog_name='bkaudit')"


def marked_processes(mark: str) -> list[int]:
    """Return the ids of the processes whose environment contains ``mark``."""
    process_ids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue  # the process has ended, or belongs to another user
        if mark.encode() in environment:
            process_ids.append(int(process.name))
    return process_ids


def interrupt(arguments: list[str], place: Path, seconds: float) -> tuple[float, int, list[int], str]:
    """Interrupt a command after some seconds.

    Returns those seconds, the exit code, the ids of the remaining processes, and the standard error.
    """
    mark = uuid.uuid4().hex
    environment = os.environ | {MARK: mark, "XDG_CACHE_HOME": str(place / "cache")}
    # Each run has its own parent directory, because audits of one cluster in a directory wait for each other.
    command = [sys.executable, "-c", PROGRAM, *arguments, "--out", str(place / f"{seconds:.1f}" / "run")]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A shell makes its background commands ignore SIGINT, and child processes would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)  # like Ctrl-C in a terminal: Java gets it too
    _, stderr = process.communicate(timeout=120)
    deadline = time.monotonic() + ENDED_LIMIT_SECONDS
    while (process_ids := marked_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in process_ids:
        os.kill(pid, signal.SIGKILL)
    return seconds, process.returncode, process_ids, stderr.decode()


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_interrupt_at_any_moment_leaves_no_process(tmp_path: Path) -> None:
    corpus = unpack("flat-v1", tmp_path)
    arguments = ["audit", "--metadata", f"dump://{corpus.dump}", "--bookies", str(corpus.bookies)]
    with ThreadPoolExecutor(4) as pool:
        ends = [*pool.map(lambda seconds: interrupt(arguments, tmp_path, seconds), MOMENTS_SECONDS)]
    for seconds, code, process_ids, stderr in ends:
        assert not process_ids, (seconds, stderr)
        # Before the program has begun, the signal ends Python itself.
        assert code in (130, -signal.SIGINT), (seconds, code, stderr)
        assert "internal error" not in stderr, (seconds, stderr)
