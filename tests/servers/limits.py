"""Time limits for processes whose output a test awaits: a late process and its children are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def end_within(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Kill a process that leads a session, and all of that session, after ``seconds`` seconds.

    Raises:
        AssertionError: the time has passed.
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
