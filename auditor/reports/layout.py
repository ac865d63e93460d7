"""Pages of labelled sentences and tables, folded to the width of a terminal when they are printed.

Renderers give parts; `lay_out` turns them into lines. A plain string is a sentence that may be folded, and an
empty one a blank line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditor.reports.plain_text import columns_of, fold_text, labelled, printable, shorten, text_table

MIN_NAME_COLUMNS = 16
"""A table whose names would get fewer columns than this has each name on a line of its own."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A sentence beside a label."""

    label: str
    words: str


@dataclass(frozen=True, slots=True)
class UnfoldedCommand:
    """A command, which is never folded: it is there to be copied."""

    line: str


@dataclass(frozen=True, slots=True)
class NameTable:
    """A table whose first column has names, which give way where lines are short."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


PagePart = str | LabelledText | UnfoldedCommand | NameTable


def lay_out(
    parts: Iterable[PagePart], width: int, label_columns: int, whole_names: bool = False
) -> Iterator[str]:
    """Yield the lines of a page.

    Args:
        parts: What the page has, from top to bottom.
        width: Columns of a line.
        label_columns: Columns of labels; a longer label has a line of its own.
        whole_names: Whether names in tables are never shortened, as programs want them.
    """
    for part in parts:
        if isinstance(part, LabelledText):
            if len(part.label) >= label_columns:
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
    """Return the lines of a table, of at most ``width`` columns; None: as wide as it is.

    Where the other columns leave no room for names, they stand below each name; where they are wider than a
    line themselves, as a sentence of heads and cells.
    """
    rows = [[printable(cell) for cell in row] for row in table.rows]
    if width is None:
        return text_table(table.head, rows)
    cells = [table.head, *rows]
    numbers = sum(max(columns_of(row[place]) for row in cells) + 2 for place in range(1, len(table.head)))
    room = width - numbers
    if room >= MIN_NAME_COLUMNS:
        return text_table(table.head, [(shorten(row[0], room), *row[1:]) for row in rows])
    # The numbers stand below each name, indented.
    name, *heads = table.head
    head, *below = text_table(["", *heads], [["", *row[1:]] for row in rows])
    if max(map(columns_of, (head, *below))) > width:
        return [line for row in rows for line in _sentences(table.head, row, width)]
    lines = [name, head]
    for row, line in zip(rows, below, strict=True):
        lines += [shorten(row[0], width), line]
    return lines


def _sentences(head: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """A row as a name and, below it, each other cell behind its head."""
    # A NUL keeps a head and its cell together.
    pairs = [
        f"{title} {cell}".strip().replace(" ", "\0")
        for title, cell in zip(head[1:], row[1:], strict=True)
        if cell
    ]
    return [
        *fold_text(f"{head[0]} {row[0]}", width, "", "  "),
        *fold_text(", ".join(pairs), width, "  ", "  "),
    ]
