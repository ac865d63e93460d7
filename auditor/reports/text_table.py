"""Columns of text, each as wide as its widest value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def text_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, two spaces between its columns.

    >>> text_table(("a", "b"), [("one", "2")])
    ['a    b', 'one  2']
    """
    lines = [head, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return [
        "  ".join(f"{value:<{width}}" for value, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
