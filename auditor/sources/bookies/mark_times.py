"""How new the index of a ledger directory is at least, by its marks and by file times.

A mark is a position in a journal: all that was written before it was in the index when the mark was written.
Nothing in a journal says when. The id of a file is no time: the first file of a journal has the bookie's
clock at its first start for an id, each later one the id before it plus one (``Journal.run``). So a mark is
dated from below:

    older-journal   the newest journal file before the mark's was last written then; the mark comes after it
    first-start     the bookie first started then, by the id of its journal files; the mark comes after it

A flush ends before its mark is written. A bound that is later than the file time of the mark is none: the
clock was ahead, or copying lost the files' times.

A mark says nothing of an index that was copied, or put back, from an earlier time. RocksDB writes to its LOG
at least every ten minutes while a bookie runs. If LOG and write-ahead log are much older than the mark, so is
the index, and no later time is believed (`bound_by_index`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from auditor.codecs.bookie.last_mark import START, LastMark
from auditor.model.states import TimeBasis


class JournalTime(NamedTuple):
    """A journal file: its id, and when it was last written to, ms."""

    file_id: int
    modified: int


class DatedIndex(NamedTuple):
    """A time, ms, that an index is at least as new as, and what it rests on."""

    at: int
    basis: TimeBasis


def date_mark(mark: LastMark, marked_ms: int | None, journals: Iterable[JournalTime]) -> DatedIndex | None:
    """Return the latest time from which on entries may be in the journal only.

    Args:
        mark: The position up to which the index has everything.
        marked_ms: When the file of the mark was written.
        journals: The files of the journal that the mark points into.

    Returns:
        None if nothing dates the mark.

    >>> date_mark(LastMark(1_002, 9), 90_000, [JournalTime(1_001, 60_000), JournalTime(1_002, 95_000)])
    DatedIndex(at=60000, basis=<TimeBasis.OLDER_JOURNAL: 'older-journal'>)
    >>> date_mark(LastMark(99_000, 9), 90_000, []) is None
    True
    """
    if mark.file_id <= 0 or marked_ms is None:
        return None
    older = max((file.modified for file in journals if file.file_id < mark.file_id), default=0)
    bounds = [DatedIndex(older, TimeBasis.OLDER_JOURNAL), DatedIndex(mark.file_id, TimeBasis.FIRST_START)]
    return max((bound for bound in bounds if 0 < bound.at <= marked_ms), default=None)


INDEX_LOG_MS = 15 * 60_000
"""RocksDB dumps statistics into LOG every ten minutes (stats_dump_period_sec); BookKeeper leaves it so."""


def bound_by_index(
    date: DatedIndex | None, written_ms: int | None, marked_ms: int | None
) -> DatedIndex | None:
    """Return ``date``, or the earlier time at which RocksDB last wrote to an index older than its mark.

    Args:
        date: A time that the index is at least as new as, by marks and journals.
        written_ms: When RocksDB last wrote to its LOG or write-ahead log. None if nothing says.
        marked_ms: When the newest mark was written.

    >>> date = DatedIndex(7_000_000, TimeBasis.LAST_WRITE)
    >>> bound_by_index(date, 2_000_000, 7_000_000)
    DatedIndex(at=2000000, basis=<TimeBasis.INDEX_LOG: 'index-log'>)
    >>> bound_by_index(date, 6_500_000, 7_000_000) == date == bound_by_index(date, 9_000_000, 7_000_000)
    True
    """
    if date is None or written_ms is None or marked_ms is None or written_ms >= marked_ms - INDEX_LOG_MS:
        return date
    return min(date, DatedIndex(written_ms, TimeBasis.INDEX_LOG), key=lambda each: each.at)


def date_index(
    directories: Iterable[tuple[Mapping[str, LastMark], int | None]],
    journals: Sequence[tuple[str, Sequence[JournalTime]]],
) -> DatedIndex | None:
    """Return how new the index of a whole bookie is at least.

    Args:
        directories: Of each ledger directory its marks by file name, and when the newest of them was written.
        journals: Of each journal the name of its mark file, and its files.

    Returns:
        The oldest time of any mark; None if a directory lacks one, or if nothing dates one.

    >>> marks = {"lastMark": LastMark(3, 12)}
    >>> date_index([(marks, 70), ({"lastMark": LastMark(5, 9)}, 70)], [("lastMark", [])])
    DatedIndex(at=3, basis=<TimeBasis.FIRST_START: 'first-start'>)
    >>> date_index([(marks, 70), ({}, None)], [("lastMark", [])]) is None
    True
    """
    dates = [
        date_mark(marks.get(name, START), marked_ms, files)
        for marks, marked_ms in directories
        for name, files in journals
    ]
    known_dates = [date for date in dates if date is not None]
    return min(known_dates, default=None) if len(known_dates) == len(dates) else None
