"""Formatting of numbers, sizes and times, in the same way for all reports, messages and pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_DURATION_UNITS = ((86400, "days"), (3600, "h"), (60, "min"))


def format_time(ms: int) -> str:
    """Format a time in UTC, given in ms since 1970. A time that the calendar cannot express stays a number.

    >>> format_time(1795237669000)
    '2026-11-21 05:07:49 UTC'
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def size(bytes: int) -> str:
    """Format a number of bytes. Units are decimal: 1 kB is 1,000 bytes.

    >>> [size(n) for n in (0, 999, 1024, 4_200_000_000, 999_950, 10**18)]
    ['0 B', '999 B', '1.0 kB', '4.2 GB', '1.0 MB', '1,000.0 PB']
    """
    scaled_size = float(bytes)
    for unit in _SIZE_UNITS:
        if round(scaled_size, 1) < 1000 or unit == _SIZE_UNITS[-1]:
            return f"{scaled_size:,.1f} {unit}" if unit != "B" else f"{bytes} B"
        scaled_size /= 1000
    raise AssertionError("the last unit has no upper limit")


def plural(number: int, noun: str, plural_form: str | None = None) -> str:
    """Format a number with its noun. Pass ``plural_form`` if the plural of ``noun`` is irregular.

    >>> plural(1, "entry"), plural(1200, "entry"), plural(2, "ledger"), plural(2, "copy left", "copies left")
    ('1 entry', '1,200 entries', '2 ledgers', '2 copies left')
    """
    if number != 1 and plural_form is None:
        plural_form = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural_form}"


def first_names(names: Sequence[str], shown_count: int, total: int | None = None) -> str:
    """Join the first ``shown_count`` names, and add how many names are left out.

    ``total`` is the number of all names. Pass None if ``names`` contains all of them.

    >>> first_names(["a", "b", "c"], 2), first_names(["a"], 2, total=7)
    ('a, b and 1 more', 'a and 6 more')
    """
    hidden_count = (len(names) if total is None else total) - min(len(names), shown_count)
    return ", ".join(names[:shown_count]) + (f" and {hidden_count:,} more" if hidden_count > 0 else "")


def and_more(hidden_count: int, noun: str = "", indent: str = "") -> list[str]:
    """Return a line that says how many items a list does not show.

    Returns an empty list if ``hidden_count`` is 0.

    >>> and_more(1200, " bookies"), and_more(0)
    (['and 1,200 more bookies'], [])
    """
    return [f"{indent}and {hidden_count:,} more{noun}"] if hidden_count > 0 else []


def percent(part_count: int, whole_count: int) -> str:
    """Format a share as a percentage, rounded down. The result is "none" if ``whole_count`` is 0.

    The result is at most 99.9 % if anything is missing from the whole. It is at least 0.1 % if the part is
    not empty.

    >>> percent(3, 4), percent(999_999, 1_000_000), percent(1, 1_000_000), percent(0, 0)
    ('75.0 %', '99.9 %', '0.1 %', 'none')
    """
    if not whole_count:
        return "none"
    per_mille = part_count * 1000 // whole_count
    if 0 < part_count < whole_count:
        per_mille = min(max(per_mille, 1), 999)
    return f"{per_mille // 10}.{per_mille % 10} %" if per_mille % 1000 else f"{per_mille // 10} %"


def duration(seconds: float) -> str:
    """Format a length of time, in a unit that suits it.

    >>> [duration(seconds) for seconds in (0.2, 42, 500, 5400, 200_000)]
    ['a second', '42 s', '8 min', '1.5 h', '2.3 days']
    """
    if seconds < 1:
        return "a second"
    for size, unit in _DURATION_UNITS:
        if seconds >= 2 * size or (size == 3600 and seconds >= size):
            unit_count = seconds / size
            return (
                f"{unit_count:.0f} {unit}"
                if unit_count >= 10 or unit == "min"
                else f"{unit_count:.1f} {unit}"
            )
    return f"{seconds:.0f} s"


def age(ms: int, now_ms: int) -> str:
    """Format a time together with its age.

    If the time is after ``now_ms``, the text says instead how far it is ahead of this machine's clock.

    >>> age(1795244400000, 1795251600000)
    '2026-11-21 07:00:00 UTC, 2.0 h ago'
    """
    if ms > now_ms:
        return f"{format_time(ms)}, {duration((ms - now_ms) / 1000)} ahead of this machine's clock"
    return f"{format_time(ms)}, {duration((now_ms - ms) / 1000)} ago"
