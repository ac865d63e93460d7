"""Sets of entries as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model.finding import Group

SPELLED_RUNS = 2
"""A group of so many runs or fewer is shown run by run; of more, by its period."""

ITEMS_SHOWN = 8
"""Of a set without pattern no more than this is shown: the jsonl report has all of it."""


def entries(groups: Sequence[Group], count: int) -> str:
    """Show a set of entries, given as BP-34 groups, with its size.

    >>> entries([(1, 1, 2, 0), (4, 4, 5, 0)], 7)
    '1,2,4-8 (7 entries)'
    >>> entries([(0, 2997, 2, 3)], 2000)
    '0-2998 every 3, 2 long (2,000 entries)'
    >>> entries([(5, 5, 1, 0)], 1)
    '5 (1 entry)'
    """
    items = [(_periodic(group), False) if _is_long(group) else (_runs(group), True) for group in groups]
    text = ""
    plain = True
    for shown, is_plain in items[:ITEMS_SHOWN]:
        # A periodic group has a comma of its own.
        separator = "," if plain and is_plain else "; "
        text += (separator if text else "") + shown
        plain = is_plain
    if len(items) > ITEMS_SHOWN:
        text += f" and {len(items) - ITEMS_SHOWN:,} more ranges"
    return f"{text} ({count:,} {'entry' if count == 1 else 'entries'})"


def _is_long(group: Group) -> bool:
    first, last, _, period = group
    return period > 0 and (last - first) // period >= SPELLED_RUNS


def _periodic(group: Group) -> str:
    first, last, size, period = group
    length = f", {size} long" if size > 1 else ""
    return f"{first}-{last + size - 1} every {period}{length}"


def _runs(group: Group) -> str:
    first, last, size, _ = group
    return ",".join(_run_text(start, size) for start in ([first] if first == last else [first, last]))


def _run_text(start: int, size: int) -> str:
    if size <= 2:
        return ",".join(str(entry) for entry in range(start, start + size))
    return f"{start}-{start + size - 1}"
