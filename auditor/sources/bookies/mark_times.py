"""The time up to which an index has all entries, as a lower bound from marks and file times.

A mark is a position in a journal. When the bookie wrote the mark, the index had all entries before that
position. A journal contains no times, and the id of a journal file is not a time either. The id of the
first file is the bookie's clock at its first start. Each later id is the previous id plus one
(``Journal.run``). So the program dates a mark with two lower bounds:

    older-journal   the last write to the newest journal file before the mark's file
    first-start     the first start of the bookie, from the id of its journal files

A bookie writes a mark after the flush that the mark describes. So a bound cannot be later than the file
time of the mark. If it is, the clock was ahead, or a copy lost the file times. The program then ignores the
bound.

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
    """A time, in ms, up to which an index has all entries, and the kind of evidence for it."""

    time_ms: int
    basis: TimeBasis


def find_mark_date(
    mark: LastMark, mark_write_ms: int | None, journals: Iterable[JournalTime]
) -> DatedIndex | None:
    """Return a time up to which the index has all entries, according to one mark.

    The result is the latest time for which there is evidence. Later entries may be only in the journal.

    Args:
        mark: The position in the journal up to which the index has all entries.
        mark_write_ms: The time when the file of the mark was written, in ms. None if it is unknown.
        journals: The files of the journal to which the mark belongs.

    Returns:
        The time and its evidence. None if no evidence dates the mark.

    >>> find_mark_date(LastMark(1_002, 9), 90_000, [JournalTime(1_001, 60_000), JournalTime(1_002, 95_000)])
    DatedIndex(time_ms=60000, basis=<TimeBasis.OLDER_JOURNAL: 'older-journal'>)
    >>> find_mark_date(LastMark(99_000, 9), 90_000, []) is None
    True
    """
    if mark.file_id <= 0 or mark_write_ms is None:
        return None
    older_journal_ms = max((file.modified for file in journals if file.file_id < mark.file_id), default=0)
    lower_bounds = [
        DatedIndex(older_journal_ms, TimeBasis.OLDER_JOURNAL),
        DatedIndex(mark.file_id, TimeBasis.FIRST_START),
    ]
    return max(
        (lower_bound for lower_bound in lower_bounds if 0 < lower_bound.time_ms <= mark_write_ms),
        default=None,
    )


INDEX_LOG_MS = 15 * 60_000
"""Longest time between two writes of RocksDB to its LOG, with a margin, in ms.

RocksDB dumps statistics every ten minutes (stats_dump_period_sec). BookKeeper keeps this default.
"""


def limit_by_index_write(
    index_date: DatedIndex | None, last_index_write_ms: int | None, mark_write_ms: int | None
) -> DatedIndex | None:
    """Return ``index_date`` or the time of RocksDB's last write, whichever is earlier.

    The last write counts only if it is more than `INDEX_LOG_MS` older than the newest mark. Otherwise, the
    result is ``index_date``.

    Args:
        index_date: A time up to which the index has all entries, according to marks and journals.
        last_index_write_ms: The time when RocksDB last wrote to its LOG or write-ahead log, in ms. None if it
            is
            unknown.
        mark_write_ms: The time when the newest mark was written, in ms. None if it is unknown.

    >>> date = DatedIndex(7_000_000, TimeBasis.LAST_WRITE)
    >>> limit_by_index_write(date, 2_000_000, 7_000_000)
    DatedIndex(time_ms=2000000, basis=<TimeBasis.INDEX_LOG: 'index-log'>)
    >>> [limit_by_index_write(date, written, 7_000_000) == date for written in (6_500_000, 9_000_000)]
    [True, True]
    """
    if (
        index_date is None
        or last_index_write_ms is None
        or mark_write_ms is None
        or last_index_write_ms >= mark_write_ms - INDEX_LOG_MS
    ):
        return index_date
    return min(
        index_date,
        DatedIndex(last_index_write_ms, TimeBasis.INDEX_LOG),
        key=lambda dated_index: dated_index.time_ms,
    )


def find_index_date(
    directories: Iterable[tuple[Mapping[str, LastMark], int | None]],
    journals: Sequence[tuple[str, Sequence[JournalTime]]],
) -> DatedIndex | None:
    """Return a time up to which the whole index of a bookie has all entries.

    Args:
        directories: For each ledger directory, its marks by file name, and the time when its newest mark
            was written, in ms.
        journals: For each journal, the name of its mark file, and the files of the journal.

    Returns:
        The oldest time that a mark gives. None if a directory lacks a mark, or if no evidence dates one of
        the marks.

    >>> marks = {"lastMark": LastMark(3, 12)}
    >>> find_index_date([(marks, 70), ({"lastMark": LastMark(5, 9)}, 70)], [("lastMark", [])])
    DatedIndex(time_ms=3, basis=<TimeBasis.FIRST_START: 'first-start'>)
    >>> find_index_date([(marks, 70), ({}, None)], [("lastMark", [])]) is None
    True
    """
    mark_dates = [
        find_mark_date(marks.get(name, START), mark_write_ms, journal_files)
        for marks, mark_write_ms in directories
        for name, journal_files in journals
    ]
    known_dates = [mark_date for mark_date in mark_dates if mark_date is not None]
    return min(known_dates, default=None) if len(known_dates) == len(mark_dates) else None
