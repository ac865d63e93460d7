"""Pages of labelled sentences, tables and commands, folded to the width of a terminal.

Renderers yield parts, and `lay_out` turns the parts into lines. A plain string is a sentence that may be
folded. An empty string is a blank line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditor.reports.plain_text import columns_of, cut_middle, fold_text, labelled, printable, text_table

MIN_NAME_COLUMNS = 16
"""Smallest width of the names in a table, in columns. If a line has less room, names get their own lines."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """Sentence with a label before it."""

    label: str
    words: str


@dataclass(frozen=True, slots=True)
class UnfoldedCommand:
    """Command that is never folded, so that it can be copied."""

    line: str


@dataclass(frozen=True, slots=True)
class NameTable:
    """Table whose first column has names, which are shortened if lines are too long."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


PagePart = str | LabelledText | UnfoldedCommand | NameTable


def lay_out(
    parts: Iterable[PagePart], width: int, label_columns: int, whole_names: bool = False
) -> Iterator[str]:
    """Yield the lines of a page.

    Args:
        parts: Parts of the page, from top to bottom.
        width: Columns of a line.
        label_columns: Width of the labels, in columns. A longer label has a line of its own.
        whole_names: Whether tables keep names whole. Programs that parse the output need whole names.
    """
    for part in parts:
        if isinstance(part, LabelledText):
            if columns_of(part.label) >= label_columns:
                yield part.label
                yield from labelled("", part.words, width, columns=label_columns)
            else:
                yield from labelled(part.label, part.words, width, columns=label_columns)
        elif isinstance(part, UnfoldedCommand):
            yield f"  {printable(part.line)}"
        elif isinstance(part, NameTable):
            yield from table_lines(part, None if whole_names else width)
        else:
            yield from fold_text(part, width)


def table_lines(table: NameTable, width: int | None) -> list[str]:
    """Return the lines of a table, whose first column has names.

    If the other columns leave less than `MIN_NAME_COLUMNS` for the names, each row takes two lines. The first
    has the name, and the second has the other cells. If the other cells alone are wider than ``width``, each
    row becomes a list of headings and cells.

    Args:
        table: The table.
        width: Largest number of columns. None: any width.
    """
    rows = [[printable(cell) for cell in row] for row in table.rows]
    if width is None:
        return text_table(table.head, rows)
    cells = [table.head, *rows]
    numbers = sum(max(columns_of(row[place]) for row in cells) + 2 for place in range(1, len(table.head)))
    name_width = width - numbers
    if name_width >= MIN_NAME_COLUMNS:
        return text_table(table.head, [(cut_middle(row[0], name_width), *row[1:]) for row in rows])
    # The numbers stand below each name, indented.
    name, *number_titles = table.head
    title_line, *body_lines = text_table(["", *number_titles], [["", *row[1:]] for row in rows])
    if max(map(columns_of, (title_line, *body_lines))) > width:
        return [line for row in rows for line in _row_sentences(table.head, row, width)]
    lines = [name, title_line]
    for row, line in zip(rows, body_lines, strict=True):
        lines += [cut_middle(row[0], width), line]
    return lines


def _row_sentences(title_line: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return the lines of a row: the name, then each other cell with its heading in front."""
    # A NUL keeps a head and its cell together.
    pairs = [
        f"{title} {cell}".strip().replace(" ", "\0")
        for title, cell in zip(title_line[1:], row[1:], strict=True)
        if cell
    ]
    return [
        *fold_text(f"{title_line[0]} {row[0]}", width, "", "  "),
        *fold_text(", ".join(pairs), width, "  ", "  "),
    ]
