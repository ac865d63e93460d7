"""Lines for a terminal: text folded by the columns that it takes, which are not the characters that it has.

Names come from the cluster, so they may be longer than a line, wide, or full of what a terminal would obey.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

from auditor.reports.plain_text import printable

MORE = " ..."


def columns_of(text: str) -> int:
    """How many columns a terminal needs for printable text.

    >>> [columns_of(text) for text in ("bk-1", "台帳", "e\\u0301")]
    [4, 4, 1]
    """
    return len(text) if text.isascii() else sum(map(_columns, text))


def pad(text: str, columns: int) -> str:
    """The text with blanks up to so many columns.

    >>> pad("台帳", 6) + "|"
    '台帳  |'
    """
    return text + " " * (columns - columns_of(text))


def cut_text(text: str, columns: int) -> str:
    """The beginning of the text that fits into so many columns.

    >>> cut_text("台帳", 3)
    '台'
    """
    if text.isascii():
        return text[: max(columns, 0)]
    if columns_of(text) <= columns:
        return text
    ends = accumulate(map(_columns, text))
    return text[: sum(end <= columns for end in ends)]


def fold_text(text: str, width: int, first: str = "", later: str = "", lines: int | None = None) -> list[str]:
    """The text in lines of at most ``width`` columns, the first indented by ``first``, others by ``later``.

    It breaks at blanks, and inside a word only where that alone does not fit. Of more than ``lines`` lines
    the rest is left out, and the last one says so. A NUL is a blank that is not broken at.

    >>> fold_text("bk-a:3181 lacks 4; 10-2999 every 3", 20, "  ", "    ", lines=2)
    ['  bk-a:3181 lacks 4;', '    10-2999 every 3']
    >>> fold_text("one two three four", 10, lines=1)
    ['one tw ...']
    """
    found: list[str] = []
    line, empty = first, True
    for word in re.split(r"[^\S\0]+", text.strip()):
        word = printable(word.replace("\0", " "))
        if not empty and columns_of(line) + 1 + columns_of(word) > width:
            found.append(line)
            line, empty = later, True
        line += word if empty else f" {word}"
        empty = False
        while columns_of(line) > width and len(head := cut_text(line, width)) > len(later):
            found.append(head)
            line = later + line[len(head) :]
    found.append(line)
    if lines is not None and len(found) > lines:
        # What is left fills the last line, in the middle of a word if need be.
        left = [each.removeprefix(later) for each in found[lines:]]
        found[lines - 1] = cut_text(" ".join([found[lines - 1], *left]), width - len(MORE)).rstrip() + MORE
        del found[lines:]
    return found


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
