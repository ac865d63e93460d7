"""What every benchmark measures with: two ways in turn, and a line of the table for each.

Ours and its rival take turns (a b a b ...), and the least time of each counts: what other programs do to
the machine only ever adds to a time. Lines say how much was worked on: both sides need not do equally much.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 3

Run = Callable[[], object]


@dataclass(frozen=True)
class Line:
    """One measurement: ``amount`` of ``unit`` in ``seconds``, beside what the rival did of the same unit.

    ``goal`` is the least ratio that is required, ``target`` the least that is wished for; both are printed
    and never asserted. Where ``most`` is true they are the greatest. Memory is MiB at its peak, of Spark's
    Java process and of the largest Python worker; shuffle and spill are bytes. None is: not measured here.

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
        """Units a second."""
        return self.amount / self.seconds

    @property
    def ratio(self) -> float | None:
        """Our rate against the rival's; with ``most``, our time a unit against its time. None without one."""
        if self.rival is None:
            return None
        ours, rival_seconds = self.seconds / self.amount, self.rival_seconds / self.rival_amount
        return ours / rival_seconds if self.most else rival_seconds / ours


def alternate(
    *runs: Run,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
    before: Run | None = None,
) -> list[float]:
    """The least seconds of each run, all in turn; a clock of `time.process_time` leaves waiting out.

    ``before`` is run before each of them, and its time is not counted.
    """
    least = [float("inf")] * len(runs)
    for _ in range(rounds):
        for number, run in enumerate(runs):
            if before is not None:
                before()
            begun = clock()
            run()
            least[number] = min(least[number], clock() - begun)
    return least


def drop_pages(paths: Iterable[str | bytes | os.PathLike[str]]) -> None:
    """Forget the pages of files, so that they are read from the disk; those of directories stay."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def cat(path: Path) -> None:
    """Read a file once, and throw it away: what its reader is held to."""
    subprocess.run(["cat", str(path)], stdout=subprocess.DEVNULL, check=True)
