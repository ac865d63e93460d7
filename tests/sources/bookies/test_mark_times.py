"""How new an index is at least: marks, and file times that bound each other."""

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

FIRST = 1_795_000_000_000
"""The clock at the first start of a bookie, ms: the id of its first journal file."""
MONTH = 30 * 24 * 3_600_000


def test_a_long_lived_bookie_is_dated_by_its_files_and_not_by_their_ids() -> None:
    """The ninth file has an id of eight milliseconds after the first start, and is months younger."""
    files = [JournalTime(FIRST + n, FIRST + n * MONTH) for n in range(9)]
    mark = LastMark(FIRST + 8, 512)
    dated = find_mark_date(mark, FIRST + 8 * MONTH + 90_000, files)
    assert dated == DatedIndex(FIRST + 7 * MONTH, TimeBasis.OLDER_JOURNAL)
    alone = find_mark_date(mark, FIRST + 8 * MONTH + 90_000, files[8:])
    assert alone == DatedIndex(FIRST + 8, TimeBasis.FIRST_START)


def test_a_clock_that_was_ahead_at_the_first_start_dates_nothing() -> None:
    written = FIRST - 4 * MONTH  # by a clock that was put right
    assert find_mark_date(LastMark(FIRST, 512), written, [JournalTime(FIRST, written)]) is None
    older = JournalTime(FIRST, written - 60_000)
    dated = find_mark_date(LastMark(FIRST + 1, 512), written, [older])
    assert dated == DatedIndex(written - 60_000, TimeBasis.OLDER_JOURNAL)


def test_a_journal_that_is_younger_than_the_mark_behind_it_lost_its_file_time() -> None:
    copied = FIRST + 9 * MONTH
    dated = find_mark_date(LastMark(FIRST + 1, 512), FIRST + MONTH, [JournalTime(FIRST, copied)])
    assert dated == DatedIndex(FIRST + 1, TimeBasis.FIRST_START)


def test_the_oldest_mark_of_all_journals_counts_and_each_is_needed() -> None:
    marks = {"lastMark.0": LastMark(FIRST + 1, 0), "lastMark.1": LastMark(FIRST + 5, 0)}
    journals = [
        ("lastMark.0", [JournalTime(FIRST, FIRST + 5_000)]),
        ("lastMark.1", [JournalTime(FIRST + 4, FIRST + 3_000)]),
    ]
    written = FIRST + MONTH
    assert find_index_date([(marks, written)], journals) == DatedIndex(FIRST + 3_000, TimeBasis.OLDER_JOURNAL)
    without = {"lastMark.0": marks["lastMark.0"]}
    assert find_index_date([(marks, written), (without, written)], journals) is None
    assert find_index_date([(marks, None)], journals) is None
    assert find_index_date([(marks, written)], []) is None


def test_an_index_that_its_mark_outlived_is_as_old_as_its_log() -> None:
    """RocksDB dumps statistics into LOG every ten minutes: an older one is of a copy from another time."""
    marked = FIRST + MONTH
    date = DatedIndex(marked + 5_000, TimeBasis.LAST_WRITE)
    put_back = marked - INDEX_LOG_MS - 1
    assert limit_by_index_write(date, put_back, marked) == DatedIndex(put_back, TimeBasis.INDEX_LOG)
    # Of a bookie that runs LOG lags by minutes, and a time before the log's own stays.
    assert limit_by_index_write(date, put_back + 1, marked) == date
    earlier = DatedIndex(put_back - 1, TimeBasis.OLDER_JOURNAL)
    assert limit_by_index_write(earlier, put_back, marked) == earlier


times = st.integers(1, 10**13)


@given(times, st.none() | times, st.none() | times)
def test_a_log_makes_no_index_newer(at: int, written_ms: int | None, marked_ms: int | None) -> None:
    """A LOG that is later than the scan confirms nothing: what dates an index is never later for it."""
    date = DatedIndex(at, TimeBasis.OLDER_JOURNAL)
    bound = limit_by_index_write(date, written_ms, marked_ms)
    assert bound is not None
    assert bound == date or (bound.time_ms == written_ms and written_ms < at)
    assert limit_by_index_write(None, written_ms, marked_ms) is None


@given(times, st.none() | times, st.lists(st.tuples(times, times)))
def test_no_time_is_later_than_the_mark_itself(
    file_id: int, marked_ms: int | None, files: list[tuple[int, int]]
) -> None:
    dated = find_mark_date(LastMark(file_id, 0), marked_ms, [JournalTime(*file) for file in files])
    assert dated is None or (marked_ms is not None and dated.time_ms <= marked_ms)
    if dated is not None and dated.basis is TimeBasis.OLDER_JOURNAL:
        assert any(id < file_id and modified == dated.time_ms for id, modified in files)
