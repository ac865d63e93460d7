"""Answers of `doctor` about journals: which files exist from the marks on, and which lie below the marks."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from auditor.doctor.bookies import check_bookies, expected_index_time, list_bookie_journals
from auditor.model.options import AuditOptions
from auditor.model.states import TimeBasis
from auditor.reports.doctor import AnswerLine, AnswerState
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.owners import AttributedBookie, attribute_directories
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.rpc.access import CLEAR_ACCESS
from auditor.sources.bookies.source_kinds import split_sources
from tests.codecs.journals import journal
from tests.sources.bookie_corpora import cookie, make_directory

A = "bk-a:3181"
MARK = 0x1A1FC8020C3


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the directory of a running bookie. Its mark points into the second of three journal files."""
    place = tmp_path / "bookies/bk-a_3181"
    ledgers = make_directory(place / "ledgers0", cookie(A, ["/data/ledgers0"])) / "current"
    (ledgers / "lastMark").write_bytes(struct.pack(">qq", MARK, 512))
    (ledgers / "DIRTY").touch()
    journals = make_directory(place / "journal", cookie(A, ["/data/ledgers0"]), marked=None) / "current"
    for file_id in (MARK - 1, MARK, MARK + 1):
        (journals / f"{file_id:x}.txn").write_bytes(journal([(1, 0)]))
    return place


def lines(place: Path) -> list[AnswerLine]:
    result = check_bookies(split_sources([str(place.parent)]), None, CLEAR_ACCESS, AuditOptions())
    return [line for line in result.lines if line.name in ("journal", "journals")]


def bookie(place: Path) -> AttributedBookie:
    return attribute_directories(find_places([str(place.parent)]), {A}, {}, None).bookies[A]


def test_complete_journals_are_ok_and_files_older_than_the_mark_are_counted(place: Path) -> None:
    whole, below = lines(place)
    assert {whole.state, below.state} == {AnswerState.OK}
    assert whole.said == "journals of 1 of 1 bookie are complete from the last mark on"
    assert below.said.startswith("1 journal file older than the last mark, ")
    look = list_bookie_journals(bookie(place))
    newest = max(file.stat().st_mtime_ns // 1_000_000 for file in place.rglob("*.txn"))
    assert (look.reason, look.last_write, expected_index_time(bookie(place), look)) == (
        None,
        newest,
        DatedIndex(newest, TimeBasis.LAST_WRITE),
    )


def test_missing_journal_file_of_the_last_mark_is_a_warning(place: Path) -> None:
    (place / f"journal/current/{MARK:x}.txn").unlink()
    whole, missing, _ = lines(place)
    assert whole.said == "journals of 0 of 1 bookie are complete from the last mark on"
    assert whole.state is missing.state is AnswerState.WARN
    assert whole.way_out is not None
    assert missing.said.endswith("lastMark refers to 1a1fc8020c3.txn, a missing journal file")
    look = list_bookie_journals(bookie(place))
    # Never when the mark was written. An older journal file that is younger than the mark dates nothing.
    older = place / f"journal/current/{MARK - 1:x}.txn"
    marked = (place / "ledgers0/current/lastMark").stat().st_mtime
    os.utime(older, (marked + 60, marked + 60))
    assert expected_index_time(bookie(place), look) == DatedIndex(MARK, TimeBasis.FIRST_START)
    os.utime(older, (marked - 60, marked - 60))
    dated = expected_index_time(bookie(place), look)
    assert dated == DatedIndex(older.stat().st_mtime_ns // 1_000_000, TimeBasis.OLDER_JOURNAL)


def test_journal_times_in_the_future_leave_the_index_time_unknown(place: Path) -> None:
    for file in place.rglob("*.txn"):
        os.utime(file, (time.time() + 10_000_000, time.time() + 10_000_000))
    look = list_bookie_journals(bookie(place))
    assert expected_index_time(bookie(place), look) is None
    result = check_bookies(split_sources([str(place.parent)]), None, CLEAR_ACCESS, AuditOptions())
    [answer] = [line for line in result.lines if line.name == "index time"]
    assert answer.state is AnswerState.WARN
    assert "the index time is unknown" in answer.said


def test_index_older_than_its_mark_is_dated_by_the_rocksdb_log(place: Path) -> None:
    current = place / "ledgers0/current"
    marked = (current / "lastMark").stat().st_mtime
    (current / "ledgers").mkdir()
    (current / "locations").mkdir()
    assert expected_index_time(bookie(place), list_bookie_journals(bookie(place))) is not None
    written = int(marked) - 3_600
    for name in ("LOG", "000012.log"):
        (current / "locations" / name).touch()
        os.utime(current / "locations" / name, (written, written))
    dated = expected_index_time(bookie(place), list_bookie_journals(bookie(place)))
    assert dated == DatedIndex(written * 1000, TimeBasis.INDEX_LOG)
    result = check_bookies(split_sources([str(place.parent)]), None, CLEAR_ACCESS, AuditOptions())
    [answer] = [line for line in result.lines if line.name == "index time"]
    assert answer.said.endswith(f"({TimeBasis.INDEX_LOG.sentence})")
    # The write-ahead log of a running bookie is new, whatever it writes to LOG.
    os.utime(current / "locations/000012.log", (marked, marked))
    newer = expected_index_time(bookie(place), list_bookie_journals(bookie(place)))
    assert newer is not None
    assert newer.basis is TimeBasis.LAST_WRITE


def test_doctor_names_the_basis_of_the_index_time(place: Path) -> None:
    result = check_bookies(split_sources([str(place.parent)]), None, CLEAR_ACCESS, AuditOptions())
    [answer] = [line for line in result.lines if line.name == "index time"]
    assert answer.said.endswith("(the file time of its journal or of its lastMark, whichever is later)")


def test_cleanly_stopped_bookie_needs_no_journal(place: Path) -> None:
    (place / "ledgers0/current/DIRTY").unlink()
    (place / f"journal/current/{MARK:x}.txn").unlink()
    whole, _ = lines(place)
    assert whole.state is AnswerState.OK
    assert whole.said.endswith("1 stopped cleanly, so all their entries are in the index")
    written = (place / "ledgers0/current/lastMark").stat().st_mtime_ns // 1_000_000
    assert expected_index_time(bookie(place), list_bookie_journals(bookie(place))) == DatedIndex(
        written, TimeBasis.CLEAN_STOP
    )


def test_journal_directory_outside_the_source_is_a_warning(place: Path) -> None:
    (place / "journal").rename(place.parent.parent / "elsewhere")
    whole, missing = lines(place)
    assert whole.state is AnswerState.WARN
    assert "journal directory /data/journal: no such directory was found" in missing.said
