"""The time up to which an index has all entries: lower bounds from ledger directories' marks and file times.

A mark is a position in a journal. When the bookie wrote the mark, the index had all entries before that
position. A journal holds no times. The id of a journal file is no time either. The first file's id is the
bookie's clock at its first start. Each later id is the one before it plus one (``Journal.run``). So the
program dates a mark with two lower bounds:

    older-journal   the last write to the newest journal file before the mark's file
    first-start     the first start of the bookie, from the id of its journal files

A bookie writes a mark after the flush that the mark describes. The program ignores a bound that is later than
the file time of the mark: then the clock was ahead, or a copy lost the file times.

A mark does not show whether the index itself was copied or restored from an earlier time. RocksDB writes to
its LOG at least every ten minutes while a bookie runs. If LOG and write-ahead log are much older than the
mark, the index is older too. The program then uses the time of LOG and write-ahead log
(`limit_by_index_write`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from auditor.codecs.bookie.last_mark import START, LastMark
from auditor.model.states import TimeBasis


class JournalTime(NamedTuple):
    """The id of a journal file, and the time of its last write, in ms."""

    file_id: int
    modified: int


class DatedIndex(NamedTuple):
    """A time in ms up to which an index has all entries, and the evidence for it."""

    time_ms: int
    basis: TimeBasis


def find_mark_date(
    mark: LastMark, marked_ms: int | None, journals: Iterable[JournalTime]
) -> DatedIndex | None:
    """Return the latest time up to which, by one mark, the index has all entries.

    Later entries may be in the journal.

    Args:
        mark: The position up to which the index has everything.
        marked_ms: When the file of the mark was written, in ms. None if it is not known.
        journals: The files of the journal that the mark points into.

    Returns:
        None if nothing dates the mark.

    >>> find_mark_date(LastMark(1_002, 9), 90_000, [JournalTime(1_001, 60_000), JournalTime(1_002, 95_000)])
    DatedIndex(time_ms=60000, basis=<TimeBasis.OLDER_JOURNAL: 'older-journal'>)
    >>> find_mark_date(LastMark(99_000, 9), 90_000, []) is None
    True
    """
    if mark.file_id <= 0 or marked_ms is None:
        return None
    older_journal_ms = max((file.modified for file in journals if file.file_id < mark.file_id), default=0)
    lower_bounds = [
        DatedIndex(older_journal_ms, TimeBasis.OLDER_JOURNAL),
        DatedIndex(mark.file_id, TimeBasis.FIRST_START),
    ]
    return max(
        (lower_bound for lower_bound in lower_bounds if 0 < lower_bound.time_ms <= marked_ms), default=None
    )


INDEX_LOG_MS = 15 * 60_000
"""Longest time between two writes of RocksDB to its LOG, with a margin, in ms.

RocksDB dumps statistics every ten minutes (stats_dump_period_sec). BookKeeper keeps this default.
"""


def limit_by_index_write(
    index_date: DatedIndex | None, written_ms: int | None, marked_ms: int | None
) -> DatedIndex | None:
    """Return the earlier of ``index_date`` and the time of RocksDB's last write.

    Ignore the last write if it is at most `INDEX_LOG_MS` older than the newest mark.

    Args:
        index_date: A time up to which the index has all entries, by marks and journals.
        written_ms: When RocksDB last wrote to its LOG or write-ahead log, in ms. None if it is not known.
        marked_ms: When the newest mark was written, in ms. None if it is not known.

    >>> date = DatedIndex(7_000_000, TimeBasis.LAST_WRITE)
    >>> limit_by_index_write(date, 2_000_000, 7_000_000)
    DatedIndex(time_ms=2000000, basis=<TimeBasis.INDEX_LOG: 'index-log'>)
    >>> [limit_by_index_write(date, written, 7_000_000) == date for written in (6_500_000, 9_000_000)]
    [True, True]
    """
    if (
        index_date is None
        or written_ms is None
        or marked_ms is None
        or written_ms >= marked_ms - INDEX_LOG_MS
    ):
        return index_date
    return min(
        index_date, DatedIndex(written_ms, TimeBasis.INDEX_LOG), key=lambda dated_index: dated_index.time_ms
    )


def find_index_date(
    directories: Iterable[tuple[Mapping[str, LastMark], int | None]],
    journals: Sequence[tuple[str, Sequence[JournalTime]]],
) -> DatedIndex | None:
    """Return a time up to which the index of a whole bookie has all entries.

    Args:
        directories: For each ledger directory its marks by file name, and the time of the newest mark, in ms.
        journals: For each journal the name of its mark file, and the journal's files.

    Returns:
        The oldest of the marks' times. None if a directory lacks a mark, or if a mark has no date.

    >>> marks = {"lastMark": LastMark(3, 12)}
    >>> find_index_date([(marks, 70), ({"lastMark": LastMark(5, 9)}, 70)], [("lastMark", [])])
    DatedIndex(time_ms=3, basis=<TimeBasis.FIRST_START: 'first-start'>)
    >>> find_index_date([(marks, 70), ({}, None)], [("lastMark", [])]) is None
    True
    """
    mark_dates = [
        find_mark_date(marks.get(name, START), marked_ms, files)
        for marks, marked_ms in directories
        for name, files in journals
    ]
    known_dates = [mark_date for mark_date in mark_dates if mark_date is not None]
    return min(known_dates, default=None) if len(known_dates) == len(mark_dates) else None
