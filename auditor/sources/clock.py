"""This machine's clock in ms, and a token bucket that limits the load on servers."""

from __future__ import annotations

import time
from collections.abc import Callable


def now_ms() -> int:
    """Return the current time, in milliseconds since 1970.

    >>> now_ms() > 1_700_000_000_000
    True
    """
    return time.time_ns() // 1_000_000


BURST_SECONDS = 0.1
"""Largest unused allowance that an idle reader may save up, in seconds of its rate."""


class RateLimit:
    """A token bucket that allows ``rate`` units per second on average. A rate of 0 means no limit.

    The bucket starts empty. So the average speed of a whole read never exceeds ``rate``. A request for more
    units than the bucket can hold is allowed, but waits longer.

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
        self._last_refill = clock()

    def take(self, units: int) -> None:
        """Take ``units`` units, and sleep until they may be used."""
        wait_seconds = self.reserve(units)
        if wait_seconds > 0:
            self._sleep(wait_seconds)

    def reserve(self, units: int) -> float:
        """Take ``units`` units, and return the number of seconds to wait before using them.

        Use this method instead of `take` in code that must not sleep.

        >>> RateLimit(100, clock=lambda: 0.0).reserve(60)
        0.6
        """
        if self._rate <= 0:
            return 0.0
        clock_time = self._clock()
        self._tokens = min(
            self._rate * BURST_SECONDS, self._tokens + (clock_time - self._last_refill) * self._rate
        )
        self._last_refill = clock_time
        self._tokens -= units
        return max(0.0, -self._tokens / self._rate)
