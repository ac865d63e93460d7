"""Times and sizes as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def moment(ms: int) -> str:
    """A time, from milliseconds since 1970; its number where no calendar reaches.

    >>> moment(1795237669000)
    '2026-11-21 05:07:49 UTC'
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def size(bytes: int) -> str:
    """So many bytes; a kB is a thousand of them.

    >>> [size(n) for n in (0, 999, 1024, 4_200_000_000, 999_950, 10**18)]
    ['0 B', '999 B', '1.0 kB', '4.2 GB', '1.0 MB', '1,000.0 PB']
    """
    value = float(bytes)
    for unit in _UNITS:
        if round(value, 1) < 1000 or unit == _UNITS[-1]:
            return f"{value:,.1f} {unit}" if unit != "B" else f"{bytes} B"
        value /= 1000
    raise AssertionError("the last unit takes all")


def counted(number: int, one: str, many: str) -> str:
    """
    >>> counted(1, "ledger", "ledgers"), counted(1200, "ledger", "ledgers")
    ('1 ledger', '1,200 ledgers')
    """
    return f"{number:,} {one if number == 1 else many}"


def bounded(names: list[str] | tuple[str, ...], shown: int) -> str:
    """The first few names, and how many more there are.

    >>> bounded(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
