"""Processes whose every line a test waits for: what does not end is ended, with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def end_within(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Kill a process that leads a session, and all of that session, once so many seconds have passed.

    Raises:
        AssertionError: they have.
    """
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    assert not late.is_set(), f"no end within {seconds:g} s"
