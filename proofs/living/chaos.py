"""Random disturbances of a live cluster's bookies, one at a time: kills, stops and slow disks."""

from __future__ import annotations

import random
import threading
import time
from types import TracebackType
from typing import Self

from proofs.living.rules import Outage
from tests.clusters.living import LivingBookies

# Seconds after which the cluster sees a returned bookie. It is longer than a ZooKeeper session.
SETTLED_S = 8.0
DOWN_S = (1.0, 10.0)
STOPPED_S = (1.0, 7.0)
SLOW_S = (5.0, 25.0)
SYNC_S = (0.5, 8.0)
QUIET_S = (3.0, 12.0)


class Chaos:
    """A thread that disturbs bookies during a ``with`` block. When the block ends, every bookie runs.

    No disturbance begins while a caller holds the lock ``pause``.
    """

    def __init__(self, cluster: LivingBookies, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._error: BaseException | None = None
        self.pause = threading.Lock()
        self.outages: list[Outage] = []
        self.log: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        for bookie in self._cluster.ids:
            self._cluster.slow(bookie, 0)
            self._revive(bookie)
        if self._error is not None and error is None:
            raise self._error

    def _work(self) -> None:
        try:
            while not self._end.wait(self._random.uniform(*QUIET_S)):
                with self.pause:
                    bookie = self._random.choice(self._cluster.ids)
                    disturb = self._random.choice((self._kill, self._freeze, self._slow, self._kill))
                    for member in self._cluster.ids:
                        self._revive(member)
                disturb(bookie)
        except BaseException as error:  # the waiting thread raises it
            self._error = error

    def _kill(self, bookie: str) -> None:
        down = self._random.uniform(*DOWN_S)
        outage = self._begin_outage(bookie, f"kill -9, {down:.1f} s")
        self._cluster.kill(bookie)
        self._end.wait(down)
        self._cluster.start(bookie)
        self._end_outage(outage)

    def _freeze(self, bookie: str) -> None:
        stopped = self._random.uniform(*STOPPED_S)
        outage = self._begin_outage(bookie, f"SIGSTOP, {stopped:.1f} s")
        self._cluster.freeze(bookie)
        self._end.wait(stopped)
        self._cluster.thaw(bookie)
        self._end_outage(outage)

    def _slow(self, bookie: str) -> None:
        length, sync = self._random.uniform(*SLOW_S), self._random.uniform(*SYNC_S)
        self.log.append(f"{time.time():.1f} {bookie} syncs take {sync:.1f} s, for {length:.1f} s")
        self._cluster.slow(bookie, sync)
        self._end.wait(length)
        self._cluster.slow(bookie, 0)

    def _revive(self, bookie: str) -> None:
        """Start a bookie that ended by itself. A bookie that loses its session shuts down."""
        if not self._cluster.running(bookie):
            outage = self._begin_outage(bookie, "ended by itself")
            self._cluster.kill(bookie)
            self._cluster.start(bookie)
            self._end_outage(outage)

    def _begin_outage(self, bookie: str, what: str) -> int:
        now_s = time.time()
        self.log.append(f"{now_s:.1f} {bookie} {what}")
        self.outages.append(Outage(bookie, now_s, float("inf")))
        return len(self.outages) - 1

    def _end_outage(self, index: int) -> None:
        outage = self.outages[index]
        self.outages[index] = Outage(outage.bookie, outage.began, time.time() + SETTLED_S)
