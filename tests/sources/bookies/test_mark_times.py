"""Tests of the lower bound for the date of an index, from marks and file times that bound each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.last_mark import LastMark
from auditor.model.states import TimeBasis
from auditor.sources.bookies.mark_times import (
    INDEX_LOG_MS,
    DatedIndex,
    JournalTime,
    find_index_date,
    find_mark_date,
    limit_by_index_write,
)

FIRST_START_MS = 1_795_000_000_000
"""The clock at the first start of a bookie, ms: the id of its first journal file."""
MONTH_MS = 30 * 24 * 3_600_000


def test_index_of_a_long_lived_bookie_is_dated_by_journal_file_times() -> None:
    """The ninth file has an id eight milliseconds after the first start, but is months younger."""
    files = [JournalTime(FIRST_START_MS + n, FIRST_START_MS + n * MONTH_MS) for n in range(9)]
    mark = LastMark(FIRST_START_MS + 8, 512)
    dated = find_mark_date(mark, FIRST_START_MS + 8 * MONTH_MS + 90_000, files)
    assert dated == DatedIndex(FIRST_START_MS + 7 * MONTH_MS, TimeBasis.OLDER_JOURNAL)
    dated_by_start = find_mark_date(mark, FIRST_START_MS + 8 * MONTH_MS + 90_000, files[8:])
    assert dated_by_start == DatedIndex(FIRST_START_MS + 8, TimeBasis.FIRST_START)


def test_clock_ahead_at_the_first_start_gives_no_index_date() -> None:
    written = FIRST_START_MS - 4 * MONTH_MS  # by a clock that was put right
    assert (
        find_mark_date(LastMark(FIRST_START_MS, 512), written, [JournalTime(FIRST_START_MS, written)]) is None
    )
    older = JournalTime(FIRST_START_MS, written - 60_000)
    dated = find_mark_date(LastMark(FIRST_START_MS + 1, 512), written, [older])
    assert dated == DatedIndex(written - 60_000, TimeBasis.OLDER_JOURNAL)


def test_journal_file_newer_than_its_mark_is_dated_by_the_first_start() -> None:
    copied = FIRST_START_MS + 9 * MONTH_MS
    dated = find_mark_date(
        LastMark(FIRST_START_MS + 1, 512), FIRST_START_MS + MONTH_MS, [JournalTime(FIRST_START_MS, copied)]
    )
    assert dated == DatedIndex(FIRST_START_MS + 1, TimeBasis.FIRST_START)


def test_oldest_mark_of_all_journals_dates_the_index_and_each_mark_is_required() -> None:
    marks = {"lastMark.0": LastMark(FIRST_START_MS + 1, 0), "lastMark.1": LastMark(FIRST_START_MS + 5, 0)}
    journals = [
        ("lastMark.0", [JournalTime(FIRST_START_MS, FIRST_START_MS + 5_000)]),
        ("lastMark.1", [JournalTime(FIRST_START_MS + 4, FIRST_START_MS + 3_000)]),
    ]
    written = FIRST_START_MS + MONTH_MS
    assert find_index_date([(marks, written)], journals) == DatedIndex(
        FIRST_START_MS + 3_000, TimeBasis.OLDER_JOURNAL
    )
    without = {"lastMark.0": marks["lastMark.0"]}
    assert find_index_date([(marks, written), (without, written)], journals) is None
    assert find_index_date([(marks, None)], journals) is None
    assert find_index_date([(marks, written)], []) is None


def test_index_log_older_than_the_mark_dates_the_index() -> None:
    """RocksDB writes statistics to LOG every ten minutes, so an older LOG is of a copy from another time."""
    marked = FIRST_START_MS + MONTH_MS
    date = DatedIndex(marked + 5_000, TimeBasis.LAST_WRITE)
    put_back = marked - INDEX_LOG_MS - 1
    assert limit_by_index_write(date, put_back, marked) == DatedIndex(put_back, TimeBasis.INDEX_LOG)
    # Of a bookie that runs LOG lags by minutes, and a time before the log's own stays.
    assert limit_by_index_write(date, put_back + 1, marked) == date
    earlier = DatedIndex(put_back - 1, TimeBasis.OLDER_JOURNAL)
    assert limit_by_index_write(earlier, put_back, marked) == earlier


times = st.integers(1, 10**13)


@given(times, st.none() | times, st.none() | times)
def test_index_log_never_makes_an_index_newer(
    date_ms: int, written_ms: int | None, marked_ms: int | None
) -> None:
    """A LOG later than the scan confirms nothing, so it never makes the date of an index later."""
    date = DatedIndex(date_ms, TimeBasis.OLDER_JOURNAL)
    bound = limit_by_index_write(date, written_ms, marked_ms)
    assert bound is not None
    assert bound == date or (bound.time_ms == written_ms and written_ms < date_ms)
    assert limit_by_index_write(None, written_ms, marked_ms) is None


@given(times, st.none() | times, st.lists(st.tuples(times, times)))
def test_index_date_is_never_later_than_its_mark(
    file_id: int, marked_ms: int | None, files: list[tuple[int, int]]
) -> None:
    dated = find_mark_date(LastMark(file_id, 0), marked_ms, [JournalTime(*file) for file in files])
    assert dated is None or (marked_ms is not None and dated.time_ms <= marked_ms)
    if dated is not None and dated.basis is TimeBasis.OLDER_JOURNAL:
        assert any(id < file_id and modified == dated.time_ms for id, modified in files)
