"""The Java process of a Spark session: how to end it after a failed start, and why it ended by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_END_TIMEOUT_SECONDS = 2.0
"""Longest wait for the end of the Java process, in seconds. Its connections break before it ends."""

_LOG_TAIL_BYTES = 65_536
_MAX_LINE_CHARACTERS = 300
_log_files: list[Path] = []
"""List with the file to which the Java process writes its output; empty if it writes to no file."""

_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Delay an interrupt until the end of the block, so that a process started in the block is not lost.

    In the main thread, Python may raise KeyboardInterrupt between any two instructions. This includes the
    moment between the start of a process and the assignment of its process id.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending_signals: list[int] = []
    earlier_handler = signal.signal(
        signal.SIGINT, lambda signal_number, _: pending_signals.append(signal_number)
    )
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier_handler)
        if pending_signals:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def java_ends_with_failure() -> Iterator[None]:
    """If the block fails or is interrupted, kill the Java process that PySpark started in the block.

    If PySpark is interrupted while it waits for Java, it forgets the process. It also removes the directory
    in which Java is about to write its port. Java then fails, but its process never ends, because its other
    threads keep running.
    """
    from pyspark import SparkContext, java_gateway

    started_processes: list[subprocess.Popen[bytes]] = []

    class RecordedProcess(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            started_processes.append(self)
            with deferred_interrupts():
                super().__init__(*arguments, **options)

    setattr(java_gateway, "Popen", RecordedProcess)  # noqa: B010
    try:
        yield
    except BaseException:
        for process in started_processes:
            _kill_process(process)
        if started_processes:
            # A later session of this process would use the connection to the killed Java.
            SparkContext._gateway = SparkContext._jvm = None
        raise
    finally:
        setattr(java_gateway, "Popen", subprocess.Popen)  # noqa: B010


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    if getattr(process, "pid", None) is None:
        return  # the process was never started
    process.kill()
    with suppress(KeyboardInterrupt):
        process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def describe_java_end() -> str | None:
    """Return how the Java process of this program's Spark sessions ended, as the end of a sentence.

    Returns None if the Java process still runs, if there is none, or if another program started it, as
    spark-submit does.

    >>> describe_java_end() is None
    True
    """
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark and pyspark.SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return None
    deadline = time.monotonic() + _END_TIMEOUT_SECONDS
    while (exit_code := process.poll()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return None if exit_code is None else _describe_end(exit_code)


def _describe_end(exit_code: int) -> str:
    """Describe the end of a process, given its exit code as `subprocess` reports it.

    >>> _describe_end(3), _describe_end(-9)
    ('ended with status 3', 'was ended by signal 9 (SIGKILL)')
    """
    if exit_code >= 0:
        return f"ended with status {exit_code}"
    try:
        name = f" ({signal.Signals(-exit_code).name})"
    except ValueError:
        name = ""
    return f"was ended by signal {-exit_code}{name}"


def set_log_file(log_path: Path | None) -> None:
    """Record the file to which the Java process of this program's Spark sessions writes its output.

    None means that the Java process writes to standard error.
    """
    _log_files[:] = [] if log_path is None else [log_path]


def describe_log() -> str:
    """Return a sentence with the last line of the Java process's log, or an empty text if there is no log.

    If the log shows that memory ran out, the text contains the last line that says so. It also names the
    option that gives Java more memory.
    """
    if not _log_files:
        return ""
    log_path = _log_files[0]
    try:
        with log_path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _LOG_TAIL_BYTES, 0))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError as error:
        return f" {log_path} cannot be read: {error.strerror}."
    lines = ["".join(filter(str.isprintable, line)).strip() for line in lines]
    memory_lines = [line for line in lines if _OUT_OF_MEMORY in line]
    last_line = next(reversed(memory_lines or [line for line in lines if line]), None)
    if last_line is None:
        return f" {log_path} is empty."
    memory_advice = " Give Java more memory with --driver-memory." if memory_lines else ""
    return f" {log_path}: {last_line[:_MAX_LINE_CHARACTERS]}.{memory_advice}"
