"""The time on this machine, as tables keep it; and a token bucket, so that busy servers serve others too."""

from __future__ import annotations

import time
from collections.abc import Callable


def now_ms() -> int:
    """Milliseconds since 1970.

    >>> now_ms() > 1_700_000_000_000
    True
    """
    return time.time_ns() // 1_000_000


BURST_S = 0.1
"""How long an idle reader may save up what it did not use, in seconds of its rate."""


class RateLimit:
    """Lets at most ``rate`` units pass per second, on average from the first moment on; 0 means no limit.

    Nothing is saved up at the start, so no reading as a whole is faster than its rate. A request may be
    larger than all that can be saved up; it waits the longer.

    >>> waits = []
    >>> limit = RateLimit(100, clock=lambda: 0.0, sleep=waits.append)
    >>> limit.take(10), limit.take(50), waits
    (None, None, [0.1, 0.6])
    """

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._tokens = 0.0
        self._filled = clock()

    def take(self, units: int) -> None:
        """Wait until ``units`` more may pass."""
        wait = self.due(units)
        if wait > 0:
            self._sleep(wait)

    def due(self, units: int) -> float:
        """Take ``units`` more and say how many seconds to wait first, for who must not sleep here.

        >>> RateLimit(100, clock=lambda: 0.0).due(60)
        0.6
        """
        if self._rate <= 0:
            return 0.0
        clock_time = self._clock()
        self._tokens = min(self._rate * BURST_S, self._tokens + (clock_time - self._filled) * self._rate)
        self._filled = clock_time
        self._tokens -= units
        return max(0.0, -self._tokens / self._rate)
