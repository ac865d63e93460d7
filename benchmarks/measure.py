"""The tools of all benchmarks: measure two ways in turns, and describe a measurement as a table line.

The rival is the implementation that this program is compared with. Program and rival run in turns (a b a b
...). The least time of each counts, because other work on the machine can only add to a time. The two may
work on different amounts of data, because lines compare rates.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 3

Runnable = Callable[[], object]


@dataclass(frozen=True)
class Line:
    """One measurement: ``amount`` units of work in ``seconds``, and the same figures for the rival.

    ``goal`` is the smallest ratio that is required, and ``target`` is the smallest ratio that is desired.
    If ``most`` is true, ``goal`` and ``target`` are the largest ratios instead. Both are printed but never
    asserted. Memory is the peak in MiB of Spark's Java process and of the largest Python worker. Shuffle
    and spill are bytes. None means that this benchmark does not measure the value.

    >>> line = Line("encode", 3e6, "ids", 0.01, "a loop", 3e5, 0.03, goal=15)
    >>> f"{line.rate:,.0f} {line.unit}/s, {line.ratio:.0f}x {line.rival}"
    '300,000,000 ids/s, 30x a loop'
    """

    stage: str
    amount: float
    unit: str
    seconds: float
    rival: str | None = None
    rival_amount: float = 0
    rival_seconds: float = 0
    goal: float | None = None
    target: float | None = None
    most: bool = False
    java_mib: float | None = None
    python_mib: float | None = None
    shuffle_bytes: float | None = None
    spill_bytes: float | None = None
    note: str = ""

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.amount / self.seconds

    @property
    def ratio(self) -> float | None:
        """This program's rate divided by the rival's. None without a rival.

        If ``most`` is true, it is this program's time per unit divided by the rival's.
        """
        if self.rival is None:
            return None
        own_seconds, rival_seconds = self.seconds / self.amount, self.rival_seconds / self.rival_amount
        return own_seconds / rival_seconds if self.most else rival_seconds / own_seconds


def alternate(
    *measured_runs: Runnable,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
    prepare_run: Runnable | None = None,
) -> list[float]:
    """Run functions in turns; return the least seconds of each.

    Args:
        measured_runs: The functions to measure.
        rounds: Number of times that each function runs.
        clock: The clock in seconds. `time.process_time` does not count waiting.
        prepare_run: Runs before each function. Its time does not count.
    """
    least_seconds = [float("inf")] * len(measured_runs)
    for _ in range(rounds):
        for run_number, run in enumerate(measured_runs):
            if prepare_run is not None:
                prepare_run()
            start_time = clock()
            run()
            least_seconds[run_number] = min(least_seconds[run_number], clock() - start_time)
    return least_seconds


def drop_pages(paths: Iterable[str | bytes | os.PathLike[str]]) -> None:
    """Drop the files' pages from the page cache, so that reads go to the disk. Directories stay cached."""
    for path in paths:
        file_descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file_descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file_descriptor)


def cat(path: Path) -> None:
    """Read a file once with ``cat`` and discard its bytes. It is the rival of file readers."""
    subprocess.run(["cat", str(path)], stdout=subprocess.DEVNULL, check=True)
