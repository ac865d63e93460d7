"""Pages of labelled sentences, tables and commands, folded to the width of a terminal.

Renderers yield parts, and `lay_out` turns the parts into lines. A plain string is a sentence that may be
folded. An empty string is a blank line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditor.reports.plain_text import (
    columns_of,
    cut_middle,
    fold_text,
    labelled_lines,
    printable,
    text_table,
)

MIN_NAME_COLUMNS = 16
"""Smallest width of the names in a table, in columns. If a line has less room, names get their own lines."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """Sentence with a label before it."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class UnfoldedCommand:
    """Command that is never folded, so that it can be copied."""

    command: str


@dataclass(frozen=True, slots=True)
class NameTable:
    """Table whose first column has names, which are shortened if lines are too long."""

    headings: Sequence[str]
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
                yield from labelled_lines("", part.text, width, columns=label_columns)
            else:
                yield from labelled_lines(part.label, part.text, width, columns=label_columns)
        elif isinstance(part, UnfoldedCommand):
            yield f"  {printable(part.command)}"
        elif isinstance(part, NameTable):
            yield from name_table_lines(part, None if whole_names else width)
        else:
            yield from fold_text(part, width)


def name_table_lines(table: NameTable, width: int | None) -> list[str]:
    """Return the lines of a table, whose first column has names.

    If the other columns leave less room for the names than `MIN_NAME_COLUMNS`, each row takes two lines.
    The first line has the name, and the second has the other cells. If the other cells alone are wider than
    ``width``, each row becomes a list of headings and cells.

    Args:
        table: The table.
        width: Largest width of a line. None: lines may have any width.
    """
    rows = [[printable(cell) for cell in row] for row in table.rows]
    if width is None:
        return text_table(table.headings, rows)
    rows_with_heading = [table.headings, *rows]
    other_columns = sum(
        max(columns_of(row[column_number]) for row in rows_with_heading) + 2
        for column_number in range(1, len(table.headings))
    )
    name_width = width - other_columns
    if name_width >= MIN_NAME_COLUMNS:
        return text_table(table.headings, [(cut_middle(row[0], name_width), *row[1:]) for row in rows])
    # The numbers stand below each name, indented.
    heading_of_names, *other_headings = table.headings
    headings, *body_lines = text_table(["", *other_headings], [["", *row[1:]] for row in rows])
    if max(map(columns_of, (headings, *body_lines))) > width:
        return [line for row in rows for line in _row_sentences(table.headings, row, width)]
    lines = [heading_of_names, headings]
    for row, line in zip(rows, body_lines, strict=True):
        lines += [cut_middle(row[0], width), line]
    return lines


def _row_sentences(headings: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return the lines of a row: the name, then each other cell with its heading in front."""
    # A NUL keeps a heading and its cell in one line.
    cell_texts = [
        f"{heading} {cell}".strip().replace(" ", "\0")
        for heading, cell in zip(headings[1:], row[1:], strict=True)
        if cell
    ]
    return [
        *fold_text(f"{headings[0]} {row[0]}", width, "", "  "),
        *fold_text(", ".join(cell_texts), width, "  ", "  "),
    ]
