"""Bookies that would not start because they cannot replay their journals."""

from __future__ import annotations

import pytest

from auditor.audit.journal_scan import JournalTail, LostJournal, find_dated_index, find_replay_refusals
from auditor.model.replay_refusal import FailedReplay
from auditor.model.states import ReplayError, TimeBasis
from auditor.sources.bookies.journal.files import Journals
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.owners import AttributedBookie

WHOLE = JournalTail(None, 0, None, files=2)


def lost(older: int, newer: int) -> JournalTail:
    return JournalTail("gone", 0, None, older + newer, (LostJournal("/j", 0x1A, older, newer),))


def test_missing_journal_file_of_the_last_mark_refuses_the_start() -> None:
    """In 4.17.2 this holds after a kill and after a stop, whatever other files exist."""
    for tail in (lost(1, 0), lost(0, 1), lost(3, 2)):
        [(name, refusal)] = find_replay_refusals({"bk1": tail, "bk2": WHOLE}, ()).items()
        assert (name, refusal.error, refusal.fault) == ("bk1", "java.io.IOException", "journal-gone")
        assert (refusal.certain, refusal.paths) == (True, ("/j",))
        assert refusal.reason == "/j lacks 1a.txn, from which the bookie would replay its journal"
    assert find_replay_refusals({"bk1": WHOLE}, ()) == {}


def test_refusal_is_uncertain_for_a_running_bookie_with_newer_journal_files() -> None:
    assert find_replay_refusals({"bk1": lost(1, 1)}, {"bk1"})["bk1"].certain is False
    assert find_replay_refusals({"bk1": lost(1, 0)}, {"bk1"})["bk1"].certain is True


def test_copy_without_journal_files_gives_no_certain_refusal() -> None:
    """Journals are large, and copies often omit them."""
    for running in (set[str](), {"bk1", "bk2"}):
        assert find_replay_refusals({"bk1": lost(0, 0), "bk2": lost(0, 0)}, running) == {}
        assert find_replay_refusals({"bk1": lost(0, 0), "bk2": WHOLE}, running)["bk1"].certain is False


def damaged(*errors: ReplayError) -> JournalTail:
    failed = tuple(
        FailedReplay(f"/j{n}/1a.txn", 512, "a record of -9 bytes", error) for n, error in enumerate(errors)
    )
    return JournalTail("damaged", 0, None, 1, failed_replays=failed)


def test_a_record_of_negative_length_refuses_the_start_and_can_be_skipped() -> None:
    [(name, refusal)] = find_replay_refusals({"bk1": damaged(ReplayError.INVALID_RECORD)}, ()).items()
    assert (name, refusal.error, refusal.fault) == ("bk1", "java.io.IOException", "journal-invalid-record")
    assert refusal.reason == (
        "/j0/1a.txn: a record of -9 bytes at byte 512; the replay of the journal ends there"
    )
    assert (refusal.certain, refusal.paths) == (True, ("/j0/1a.txn",))
    assert refusal.way_out is not None
    assert refusal.way_out.startswith(
        "with skipReplayJournalInvalidRecord=true (from 4.14.8, 4.15.5, 4.16.3 and"
    )


@pytest.mark.parametrize(
    ("error", "exception"),
    [
        (ReplayError.SHORT_RECORD, "java.nio.BufferUnderflowException"),
        (ReplayError.INVALID_PADDING, "java.lang.IllegalArgumentException"),
        (ReplayError.INVALID_VERSION, "java.io.IOException"),
        (ReplayError.INVALID_NAME, "java.lang.NumberFormatException"),
    ],
)
def test_other_journal_damage_has_no_way_out(error: ReplayError, exception: str) -> None:
    for errors in ((error,), (error, ReplayError.INVALID_RECORD)):
        refusal = find_replay_refusals({"bk1": damaged(*errors)}, ())["bk1"]
        assert (refusal.error, refusal.fault) == (exception, "journal-unreadable")
        assert refusal.way_out is None


def test_damaged_record_of_a_running_bookie_gives_an_uncertain_refusal() -> None:
    assert find_replay_refusals({"bk1": damaged(ReplayError.INVALID_RECORD)}, {"bk1"})["bk1"].certain is False


CLOCK = 1_795_237_669_000


def dated(
    tail: JournalTail | None,
    running: bool = False,
    stopped: int | None = None,
    dated: int | None = None,
    index_written: int | None = None,
) -> DatedIndex | None:
    journals = Journals(
        gap_reason=None, clean_stop_ms=stopped, newest_mark_ms=CLOCK - 5_000, index_written_ms=index_written,
        index_date=None if dated is None else DatedIndex(dated, TimeBasis.OLDER_JOURNAL),
    )  # fmt: skip
    bookie = AttributedBookie("bk1", (), "read", None, dated, False, False, True, journals)
    return find_dated_index(bookie, tail, running, CLOCK)


def test_index_date_states_which_file_time_it_is_based_on() -> None:
    whole, unread = JournalTail(None, CLOCK - 1_000, CLOCK - 2_000, 1), JournalTail("damaged", 0, None)
    assert dated(whole, running=True) == DatedIndex(CLOCK - 1_000, TimeBasis.JOURNAL_READ)
    assert dated(whole) == DatedIndex(CLOCK - 2_000, TimeBasis.LAST_WRITE)
    assert dated(unread, stopped=CLOCK - 9_000) == DatedIndex(CLOCK - 9_000, TimeBasis.CLEAN_STOP)
    assert dated(unread, dated=CLOCK - 60_000) == DatedIndex(CLOCK - 60_000, TimeBasis.OLDER_JOURNAL)
    assert dated(unread) is None


def test_index_older_than_its_mark_is_dated_by_the_index_log() -> None:
    """The index was copied an hour before the marks and journals beside it, or restored from a copy."""
    written = CLOCK - 3_600_000
    whole, unread = JournalTail(None, CLOCK - 1_000, CLOCK - 2_000, 1), JournalTail("damaged", 0, None)
    bound = DatedIndex(written, TimeBasis.INDEX_LOG)
    assert dated(whole, running=True, index_written=written) == bound
    assert dated(whole, index_written=written) == bound
    assert dated(unread, stopped=CLOCK - 9_000, index_written=written) == bound
    assert dated(unread, dated=CLOCK - 60_000, index_written=written) == bound
    # An earlier time stays, and a log of the last minutes bounds nothing.
    earlier = DatedIndex(written - 1, TimeBasis.OLDER_JOURNAL)
    assert dated(unread, dated=written - 1, index_written=written) == earlier
    assert dated(whole, index_written=CLOCK - 60_000) == DatedIndex(CLOCK - 2_000, TimeBasis.LAST_WRITE)


def test_file_time_after_the_reading_time_is_not_used_as_index_date() -> None:
    later = CLOCK + 1
    # A LOG from a clock that was ahead makes no time of another file one.
    assert dated(JournalTail(None, 0, later, 1), index_written=later) is None
    assert dated(JournalTail("damaged", 0, None), index_written=later) is None
    assert dated(JournalTail(None, 0, later, 1)) is None
    assert dated(JournalTail("damaged", 0, None), stopped=later) is None
    assert dated(JournalTail("damaged", 0, None), dated=later) is None
    # The journal of a running bookie was read after the metadata, whatever this machine's clock says.
    assert dated(JournalTail(None, later, None, 1), running=True) == DatedIndex(CLOCK, TimeBasis.JOURNAL_READ)
