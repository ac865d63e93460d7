"""The Java process of a session: its end is reported with evidence, and a failed start leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from auditor.errors import SparkError
from auditor.spark import java_process
from auditor.spark.java_process import deferred_interrupts
from auditor.spark.tasks import translate_run_errors

JAVA_END_ERRORS = (BrokenPipeError(32, "Broken pipe"), RuntimeError("Answer from Java side is empty"))


def ended_gateway(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    process = subprocess.Popen(["sh", "-c", script])
    process.wait()
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))


@pytest.mark.parametrize("error", JAVA_END_ERRORS)
@pytest.mark.parametrize(
    ("script", "log", "message"),
    [
        (
            "kill -9 $$",
            "started\nERROR the last line\n\n",
            "Spark: its Java process was ended by signal 9 (SIGKILL). LOG: ERROR the last line. "
            "Run the same command again to continue this run.",
        ),
        (
            "exit 3",
            "java.lang.OutOfMemoryError: Java heap space\n\tat a.b\n",
            "Spark: its Java process ended with status 3. LOG: java.lang.OutOfMemoryError: Java heap space. "
            "Give Java more memory with --driver-memory. Run the same command again to continue this run.",
        ),
        ("exit 0", "", "Spark: its Java process ended with status 0. LOG is empty. Run the same command"),
        ("exit 0", None, "Spark: its Java process ended with status 0. LOG cannot be read: No such file"),
    ],
)
def test_end_of_java_is_reported_with_status_and_log(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: Exception,
    script: str,
    log: str | None,
    message: str,
) -> None:
    file = tmp_path / "spark.log"
    if log is not None:
        file.write_text(log)
    monkeypatch.setattr(java_process, "_log_files", [file])
    ended_gateway(monkeypatch, script)
    with pytest.raises(SparkError) as raised, translate_run_errors("/r"):
        raise error
    assert str(raised.value).replace(str(file), "LOG").startswith(message)


def test_broken_pipe_while_java_runs_is_reraised_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_process, "_END_TIMEOUT_SECONDS", 0.1)
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        with pytest.raises(BrokenPipeError), translate_run_errors("/r"):
            raise BrokenPipeError(32, "Broken pipe")
        process.kill()


@contextmanager
def interrupt_handler(handler: Any) -> Iterator[None]:
    """Set the SIGINT handler within the block; a PySpark session of another test left its own handler."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_interrupt_is_deferred_to_the_end_of_the_block() -> None:
    steps = []

    def interrupted_step() -> None:
        with deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            steps.append("after the signal")

    with interrupt_handler(signal.default_int_handler):
        with pytest.raises(KeyboardInterrupt):
            interrupted_step()
        assert steps == ["after the signal"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_interrupt_stays_ignored_after_the_block() -> None:
    with interrupt_handler(signal.SIG_IGN):
        with deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


STUCK_SPARK = """#!/bin/sh
echo $$ > "$0.pid"
exec sleep 300
"""
"""A Spark whose Java writes no port, as one whose directory for it was removed."""

BUILD = "from auditor.spark.session import build_session; print('go', flush=True); build_session('local[1]')"


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_start_leaves_no_process(tmp_path: Path, number: int) -> None:
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(STUCK_SPARK)
    script.chmod(0o755)
    environment = os.environ | {"SPARK_HOME": str(tmp_path)}
    code = "import signal; signal.signal(signal.SIGTERM, signal.default_int_handler)\n" + BUILD
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as starter:
        pid = wait_for_pid(Path(f"{script}.pid"))
        starter.send_signal(number)
        starter.wait(30)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.spark
def test_failed_start_leaves_no_process_and_can_be_repeated(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    code = (
        "from auditor.spark.session import build_session\nfrom auditor.errors import SparkError\n"
        "from pyspark import SparkContext, java_gateway\nimport subprocess\n"
        "for _ in range(2):\n    try:\n        build_session('local[1]')\n    except SparkError as error:\n"
        "        print(SparkContext._gateway, java_gateway.Popen is subprocess.Popen)\n"
    )
    environment = os.environ | {"SPARK_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "None True\n" * 2, ended.stderr


def wait_for_pid(file: Path) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError("Spark was not started")
