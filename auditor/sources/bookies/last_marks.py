"""The lastMark files of a bookie's ledger directories: how far its journals are in its index.

    lastMark      of the only journal directory
    lastMark.0    of the first of several, and so on; a ledger's journal is its id modulo their number

A bookie replays each of its journals from the greatest mark that any of its ledger directories has of it, or
from the beginning where none has one. What a directory's index shows is at least as new as the moment that
the directory's own mark points at: a journal file's id is the millisecond at which it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from auditor.codecs.bookie import last_mark
from auditor.codecs.bookie.last_mark import START, LastMark
from auditor.errors import DecodeError
from auditor.sources.regular_file import open_regular

Marks = Mapping[str, LastMark]
"""The marks of one directory, by the name of the file."""

NAME = "lastMark"
_MARK_BYTES = 16


def read_marks(directory: str) -> dict[str, LastMark]:
    """The lastMark files of a directory; what cannot be read, or is not a mark, the server ignores too.

    >>> read_marks("/no/such/directory")
    {}
    """
    marks = {}
    for file in sorted(Path(directory, "current").glob(f"{NAME}*")):
        try:
            with open_regular(file) as stream:
                marks[file.name] = last_mark.decode(stream.read(_MARK_BYTES + 1))
        except (OSError, DecodeError):
            continue
    return marks


def mark_name(journal: int, journals: int) -> str:
    """The file that keeps the mark of one of a bookie's journals.

    >>> mark_name(0, 1), mark_name(0, 2)
    ('lastMark', 'lastMark.0')
    """
    return NAME if journals == 1 else f"{NAME}.{journal}"


def replay_marks(directories: Iterable[Marks], journals: int) -> tuple[LastMark, ...]:
    """From where a bookie would replay each of its ``journals``.

    >>> replay_marks([{"lastMark": LastMark(5, 9)}, {"lastMark": LastMark(5, 12)}, {}], 1)
    (LastMark(file_id=5, offset=12),)
    """
    found = list(directories)
    return tuple(
        max((marks[name] for marks in found if name in marks), default=START)
        for name in (mark_name(journal, journals) for journal in range(journals))
    )


def oldest_mark_time(directories: Iterable[Marks], journals: int) -> int | None:
    """The moment, ms, from which on entries may be in the journals only; None where a mark does not say it.

    >>> oldest_mark_time([{"lastMark": LastMark(5, 9)}, {"lastMark": LastMark(3, 12)}], 1)
    3
    >>> oldest_mark_time([{"lastMark": LastMark(5, 9)}, {}], 1) is None
    True
    """
    names = [mark_name(journal, journals) for journal in range(journals)]
    marks = [found.get(name, START) for found in directories for name in names]
    return min((mark.file_id for mark in marks), default=0) or None
