"""What time it is on this machine, as the tables keep it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970.

    >>> now_ms() > 1_700_000_000_000
    True
    """
    return time.time_ns() // 1_000_000
