"""Numbers in the words of a diagnosis."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86400, "days"), (3600, "h"), (60, "min"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def duration(seconds: float) -> str:
    """
    >>> [duration(each) for each in (0.2, 42, 500, 5400, 200_000)]
    ['a second', '42 s', '8 min', '1.5 h', '2.3 days']
    """
    if seconds < 1:
        return "a second"
    for size, unit in _UNITS:
        if seconds >= 2 * size or (size == 3600 and seconds >= size):
            amount = seconds / size
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "min" else f"{amount:.1f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """
    >>> size(5 << 30), size(1000)
    ('5.0 GiB', '1000 bytes')
    """
    for unit, name in _SIZES:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def counted(number: int, one: str, many: str | None = None) -> str:
    """
    >>> counted(1, "bookie"), counted(20_000, "bookie")
    ('1 bookie', '20,000 bookies')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def moment_of(ms: int) -> str:
    """
    >>> moment_of(1795244400000)
    '2026-11-21T07:00:00Z'
    """
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(ms: int, now: int) -> str:
    """
    >>> age(1795244400000, 1795251600000)
    '2026-11-21T07:00:00Z, 2.0 h ago'
    """
    if ms > now:
        return f"{moment_of(ms)}, {duration((ms - now) / 1000)} ahead of this machine's clock"
    return f"{moment_of(ms)}, {duration((now - ms) / 1000)} ago"
