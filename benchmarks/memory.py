"""Peak memory of this process's descendants, by program name, from ``/proc``."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_PERIOD_SECONDS = 0.2


class PeakMemory:
    """A context manager that watches this process's descendants.

    ``peaks`` maps the name of each program to the peak in MiB of its largest process.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_PERIOD_SECONDS):
            for name, peak in descendants(os.getpid(), "VmHWM"):
                self.peaks[name] = max(self.peaks.get(name, 0.0), peak)


def descendants(root_pid: int, status_field: str) -> list[tuple[str, float]]:
    """Return the name and memory in MiB of each descendant of process ``root_pid``.

    ``status_field`` names the value in ``/proc/PID/status``, such as ``VmHWM`` (peak) or ``VmRSS`` (current).
    """
    parents: dict[int, int] = {}
    process_memory: dict[int, tuple[str, float]] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue  # the process has ended
        pid = int(status.parent.name)
        parents[pid] = int(lines["PPid"])
        process_memory[pid] = (lines["Name"].strip(), int(lines.get(status_field, "0 kB").split()[0]) / 1024)
    tree_pids, new_pids = set[int](), {root_pid}
    while new_pids:
        tree_pids |= new_pids
        new_pids = {pid for pid, parent in parents.items() if parent in new_pids} - tree_pids
    return [process_memory[pid] for pid in tree_pids - {root_pid} if pid in process_memory]
