"""Text without invisible characters, folded and padded by the number of columns that it takes at a terminal.

Names come from the cluster. They may be long, have wide characters, or contain control sequences.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def printable(text: str) -> str:
    """Return a text with a question mark in place of every character that is not visible.

    Control characters could break lines, set colours, or reverse the reading direction.

    >>> printable("bk-1\\x1b[31m\\n:3181")
    'bk-1?[31m?:3181'
    """
    if text.isprintable():  # as nearly every text is
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def shorten(text: str, max_characters: int = 120) -> str:
    """Return a text of at most ``max_characters`` visible characters.

    If the text is too long, its middle is cut out, because ids usually differ at their ends.

    >>> shorten("bk-17.storage.example.com:3181", 20)
    'bk-17.sto...com:3181'
    """
    if len(text) > max_characters:  # cut first: a text may be long
        tail_columns = (max_characters - 3) // 2
        text = f"{text[: max_characters - 3 - tail_columns]}...{text[len(text) - tail_columns :]}"
    return printable(text)


ELLIPSIS = " ..."


def columns_of(text: str) -> int:
    """Return the number of columns that a terminal needs for a visible text.

    >>> [columns_of(text) for text in ("bk-1", "台帳", "e\\u0301", "\\u1112\\u1161\\u11ab")]
    [4, 4, 1, 2]
    """
    if text.isascii():
        return len(text)
    from wcwidth import width  # nearly every text is ASCII, and the import takes 20 ms

    return width(text, control_codes="ignore")


def pad_text(text: str, columns: int) -> str:
    """Return a text padded with blanks to a number of columns.

    >>> pad_text("台帳", 6) + "|"
    '台帳  |'
    """
    return text + " " * (columns - columns_of(text))


def cut_text(text: str, columns: int) -> str:
    """Return the beginning of a text that fits into a number of columns. No visible character is divided.

    >>> cut_text("台帳", 3)
    '台'
    """
    if text.isascii():
        return text[: max(columns, 0)]
    from wcwidth import iter_graphemes

    return "".join(_fitting_graphemes(iter_graphemes(text), columns))


def cut_middle(text: str, columns: int) -> str:
    """Return a visible text, cut in the middle to a number of columns. The ends stay, as in `shorten`.

    >>> cut_middle("台帳-17.example.com:3181", 20)
    '台帳-17.e...com:3181'
    """
    if text.isascii():
        return shorten(text, columns)
    text = printable(text)
    if columns_of(text) <= columns:
        return text
    from wcwidth import iter_graphemes_reverse

    tail_columns = (columns - 3) // 2
    reversed_tail = list(_fitting_graphemes(iter_graphemes_reverse(text), tail_columns))
    return f"{cut_text(text, columns - 3 - tail_columns)}...{''.join(reversed(reversed_tail))}"


def _fitting_graphemes(graphemes: Iterable[str], columns: int) -> Iterator[str]:
    """Yield the first graphemes that fit into a number of columns."""
    for grapheme in graphemes:
        columns -= columns_of(grapheme)
        if columns < 0:
            return
        yield grapheme


def fold_text(
    text: str, width: int, first_indent: str = "", later_indent: str = "", max_lines: int | None = None
) -> list[str]:
    """Return a text in lines of at most ``width`` columns.

    Lines break at blanks, and inside a word only if the word is longer than a line. A NUL is a blank at which
    no line breaks.

    Args:
        text: The text, in which invisible characters become question marks.
        width: Columns of a line.
        first_indent: Indentation of the first line.
        later_indent: Indentation of all further lines.
        max_lines: Largest number of lines. If text is left out, the last line ends with an ellipsis. None:
            any number.

    >>> fold_text("bk-a:3181 lacks 4; 10-12 and 2999", 20, "  ", "    ", max_lines=2)
    ['  bk-a:3181 lacks 4;', '    10-12 and 2999']
    >>> fold_text("one two three four", 10, max_lines=1)
    ['one tw ...']
    """
    folded_lines: list[str] = []
    current_line, is_line_empty = first_indent, True
    for word in re.split(r"[^\S\0]+", text.strip()):
        word = printable(word.replace("\0", " "))
        if not is_line_empty and columns_of(current_line) + 1 + columns_of(word) > width:
            folded_lines.append(current_line)
            current_line, is_line_empty = later_indent, True
        current_line += word if is_line_empty else f" {word}"
        is_line_empty = False
        while columns_of(current_line) > width and len(line_head := cut_text(current_line, width)) > len(
            later_indent
        ):
            folded_lines.append(line_head)
            current_line = later_indent + current_line[len(line_head) :]
    folded_lines.append(current_line)
    if max_lines is not None and len(folded_lines) > max_lines:
        # The remaining text fills the last line, and may end inside a word.
        cut_lines = [line_text.removeprefix(later_indent) for line_text in folded_lines[max_lines:]]
        folded_lines[max_lines - 1] = (
            cut_text(" ".join([folded_lines[max_lines - 1], *cut_lines]), width - len(ELLIPSIS)).rstrip()
            + ELLIPSIS
        )
        del folded_lines[max_lines:]
    return folded_lines


def labelled_lines(label: str, text: str, width: int, indent: str = "", columns: int = 11) -> list[str]:
    """Return ``indent`` and a label, then a text beside the label, folded to ``width`` columns (`fold_text`).

    The label with the blanks after it takes ``columns`` columns.

    >>> labelled_lines("metadata", "zk://a/ledgers, flat", 30)
    ['metadata   zk://a/ledgers,', '           flat']
    """
    return fold_text(text, width, f"{indent}{pad_text(label, columns)}", indent + " " * columns)


def wrap_words(text: str, width: int, first_indent: str = "", later_indent: str = "") -> list[str]:
    """Return a text in lines as `fold_text` does, but break no word. Width is counted in characters."""
    options: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    return textwrap.wrap(text, width, initial_indent=first_indent, subsequent_indent=later_indent, **options)


def text_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with two blanks between its columns.

    >>> text_table(("a", "b"), [("台帳", "2")])
    ['a     b', '台帳  2']
    """
    lines = [titles, *rows]
    widths = [max(columns_of(line[column_number]) for line in lines) for column_number in range(len(titles))]
    return ["  ".join(map(pad_text, line, widths)).rstrip() for line in lines]
