"""Tests of the entries in a bookie's journals after its marks: which count, and when some are lacking."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.wire import expand
from auditor.codecs.bookie.journal import Journal
from auditor.model.states import ReplayError, TailState
from auditor.sources.bookies.journal.files import JournalDirectory, list_journals, read_entries
from auditor.sources.bookies.journal.tails import (
    NO_ENTRIES_REASON,
    NO_RECORDS_REASON,
    JournalTailPart,
    from_json,
    read_tail,
    to_json,
)
from tests.codecs.journals import EXPLICIT_LAC, FENCE, MASTER_KEY, header, journal, record

VERSION = b"5\n"
DIGEST = hashlib.sha256(VERSION).hexdigest()
MARK_ID = 0x1A1FC8020C3  # when the file of the mark was made


def directory(path: Path, files: dict[int, bytes], mark: tuple[int, int] = (MARK_ID, 0)) -> JournalDirectory:
    """Make a journal directory with files by id, to be read from ``mark``."""
    (path / "current").mkdir(parents=True)
    (path / "current/VERSION").write_bytes(VERSION)
    for file_id, data in files.items():
        (path / f"current/{file_id:x}.txn").write_bytes(data)
    return JournalDirectory(str(path), DIGEST, *mark)


def tail(*directories: JournalDirectory) -> tuple[dict[int, list[tuple[int, ...]]], list[dict[str, Any]]]:
    """Return the groups of each ledger, and the rows of the directories."""
    rows = [row for batch in read_tail(JournalTailPart("bk1", directories)) for row in batch.to_pylist()]
    ledgers = [row for row in rows if row["ledger_id"] is not None]
    assert all(
        (row["scope_id"], row["state"], row["bookie_id"]) == (0, TailState.OK, "bk1") for row in ledgers
    )
    groups = {row["ledger_id"]: list(struct.iter_unpack(">qqii", row["groups"])) for row in ledgers}
    assert len(groups) == len(ledgers)
    return groups, [row for row in rows if row["ledger_id"] is None]


def offset_of(data: bytes, number: int) -> int:
    """Return the offset at which a record begins."""
    [records] = Journal.open(lambda offset, length: data[offset : offset + length], len(data)).records()
    return int(records.offsets[number])


def test_only_entries_after_the_mark_are_in_the_tail(tmp_path: Path) -> None:
    data = journal(
        [
            (1, MASTER_KEY),
            (1, 0),
            (1, 1),
            (2, MASTER_KEY),
            (2, 5),
            (1, 2),
            (1, 2),
            (2, FENCE),
            (2, EXPLICIT_LAC),
        ]
    )
    files = {MARK_ID - 1: journal([(9, 0)]), MARK_ID: data, MARK_ID + 7: journal([(2, 4), (1, 0)])}
    groups, [row] = tail(directory(tmp_path, files, (MARK_ID, offset_of(data, 2))))
    assert groups == {1: [(0, 0, 3, 0)], 2: [(4, 4, 2, 0)]}
    assert (row["state"], row["reason"], row["files"], row["files_below"], row["entries"]) == (
        TailState.OK,
        None,
        2,
        1,
        6,
    )
    assert (row["mark_file_id"], row["mark_offset"], row["path"]) == (
        MARK_ID,
        offset_of(data, 2),
        str(tmp_path),
    )


def test_without_a_mark_all_files_are_read(tmp_path: Path) -> None:
    groups, [row] = tail(directory(tmp_path, {5: journal([(1, 0)]), 6: journal([(1, 1)])}, (0, 0)))
    assert (groups, row["state"]) == ({1: [(0, 0, 2, 0)]}, TailState.OK)


def test_ledger_in_two_journals_has_one_row(tmp_path: Path) -> None:
    """If the number of journals was changed, the bookie replays all journals that exist."""
    first = directory(tmp_path / "j0", {MARK_ID: journal([(2, 0), (3, 7)])})
    second = directory(tmp_path / "j1", {MARK_ID: journal([(3, 8)])})
    groups, rows = tail(first, second)
    assert groups == {2: [(0, 0, 1, 0)], 3: [(7, 7, 2, 0)]}
    assert [row["path"] for row in rows] == [first.path, second.path]


def test_cut_journal_file_ends_at_its_last_whole_record(tmp_path: Path) -> None:
    cut = journal([(1, 0)], spare=0) + record(1, 1)[:-1]
    groups, [row] = tail(directory(tmp_path, {MARK_ID: cut, MARK_ID + 1: journal([(1, 5)])}))
    assert (groups, row["state"]) == ({1: [(0, 5, 1, 5)]}, TailState.OK)


def test_row_has_the_newest_change_time_of_the_files_read(tmp_path: Path) -> None:
    journal_dir = directory(
        tmp_path, {MARK_ID - 1: journal([(1, 0)]), MARK_ID: journal([(1, 1)]), MARK_ID + 1: journal([(1, 2)])}
    )
    for file_id, modified_s in ((MARK_ID - 1, 90), (MARK_ID, 70), (MARK_ID + 1, 50)):
        os.utime(tmp_path / f"current/{file_id:x}.txn", (modified_s, modified_s))
    assert tail(journal_dir)[1][0]["modified"] == 70_000


# what is in the directory, what is held all the same, the reason, the byte
PARTIAL_TAILS: dict[str, tuple[dict[int, bytes], tuple[int, int], dict[int, Any], str, int | None]] = {
    "the file of the mark is gone": (
        {MARK_ID + 1: journal([(1, 4)])},
        (MARK_ID, 600),
        {1: [(4, 4, 1, 0)]},
        "1a1fc8020c3.txn is missing; the bookie would replay the journal from it",
        None,
    ),
    "all files are gone": ({}, (MARK_ID, 600), {}, "1a1fc8020c3.txn is missing", None),
    "the mark lies past the end": (
        {MARK_ID: journal([(1, 4)])[:600], MARK_ID + 1: journal([(1, 5)])},
        (MARK_ID, 601),
        {1: [(5, 5, 1, 0)]},
        "the file ends before byte 601",
        600,
    ),
    "a damaged record": (
        {MARK_ID: journal([(1, 4)], spare=0) + struct.pack(">i", -7) + bytes(40)},
        (MARK_ID, 0),
        {1: [(4, 4, 1, 0)]},
        "a record with an invalid length: -7 bytes",
        1024,
    ),
    "a version of the future": ({MARK_ID: b"BKLG" + struct.pack(">i", 7)}, (MARK_ID, 0), {}, "version 7", 4),
    "keys and no entry": (
        {MARK_ID - 1: journal([(1, 0)]), MARK_ID: journal([(1, MASTER_KEY), (1, FENCE)])},
        (MARK_ID, 0),
        {},
        NO_ENTRIES_REASON,
        None,
    ),
    "keys before the mark and nothing after it": (
        {MARK_ID - 1: journal([(1, 0)]), MARK_ID: journal([(1, MASTER_KEY)], spare=0)},
        (MARK_ID, 1024),
        {},
        NO_ENTRIES_REASON,
        None,
    ),
    "no record at all": ({MARK_ID: journal([])}, (MARK_ID, 512), {}, NO_RECORDS_REASON, None),
    "nothing, and no mark": ({}, (0, 0), {}, NO_RECORDS_REASON, None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("files", "mark", "expected", "reason", "offset"), PARTIAL_TAILS.values(), ids=PARTIAL_TAILS.keys()
)
def test_partial_read_is_reported_and_its_rows_are_kept(
    files: dict[int, bytes],
    mark: tuple[int, int],
    expected: dict[int, Any],
    reason: str,
    offset: int | None,
    tmp_path: Path,
) -> None:
    groups, [row] = tail(directory(tmp_path, files, mark))
    state = TailState.NO_FILE if "is missing" in reason else TailState.GAP
    assert (groups, row["state"], row["offset"]) == (expected, state, offset)
    assert reason in row["reason"]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({MARK_ID: journal([(1, MASTER_KEY), (1, 0)], spare=0)}, id="in the file of the mark"),
        pytest.param(
            {MARK_ID - 1: journal([(1, 0)]), MARK_ID: journal([], spare=512)}, id="in the file before it"
        ),
    ],
)
def test_empty_tail_is_complete_if_entries_precede_the_mark(files: dict[int, bytes], tmp_path: Path) -> None:
    groups, [row] = tail(directory(tmp_path, files, (MARK_ID, len(files[MARK_ID]))))
    assert (groups, row["state"], row["reason"]) == ({}, TailState.OK, None)


def test_incomplete_journal_of_two_is_reported_and_all_entries_are_kept(tmp_path: Path) -> None:
    first = directory(tmp_path / "j0", {MARK_ID: journal([(2, 0)])})
    second = directory(tmp_path / "j1", {MARK_ID + 3: journal([(3, 8)])})
    groups, rows = tail(first, second)
    assert groups == {2: [(0, 0, 1, 0)], 3: [(8, 8, 1, 0)]}
    assert [row["state"] for row in rows] == [TailState.OK, TailState.NO_FILE]
    assert [(row["files_below"], row["files"]) for row in rows] == [(0, 1), (0, 1)]


def test_entries_of_other_scopes_have_their_own_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.sources.bookies.journal.files._DEDUPLICATE_ENTRIES", 2)
    monkeypatch.setattr("auditor.codecs.bookie.length_prefixed.BLOCK_BYTES", 200)
    second = bytes.fromhex("a4") + struct.pack(">qqqqq", 1, 2, 3, 2, 7) + b"entry-3"
    data = header() + b"".join(
        record(2, entry) + struct.pack(">i", len(second)) + second for entry in (0, 1, 0, 1, 0, 1)
    )
    part = JournalTailPart("bk1", (directory(tmp_path, {MARK_ID: data}),))
    rows = [row for batch in read_tail(part) for row in batch.to_pylist()]
    groups = {
        (row["scope_id"], row["ledger_id"]): list(struct.iter_unpack(">qqii", row["groups"]))
        for row in rows
        if row["ledger_id"] is not None
    }
    assert groups == {(0, 2): [(0, 0, 2, 0)], (1, 2): [(3, 3, 1, 0)]}
    assert rows[-1]["state"] == TailState.OK


def test_disk_that_changed_since_planning_is_not_read(tmp_path: Path) -> None:
    journal_dir = directory(tmp_path, {MARK_ID: journal([(1, 0)])})
    (tmp_path / "current/VERSION").write_bytes(b"4\n")
    groups, [row] = tail(journal_dir)
    assert (groups, row["state"]) == ({}, TailState.GAP)
    assert "VERSION changed since" in row["reason"]


def test_invalid_journal_file_name_is_reported(tmp_path: Path) -> None:
    journal_dir = directory(tmp_path, {MARK_ID: journal([(1, 0)])})
    (tmp_path / "current/copy.txn").write_bytes(b"")
    assert "'copy' is not a hexadecimal id" in tail(journal_dir)[1][0]["reason"]


def test_part_without_journals_is_reported_as_a_gap() -> None:
    [batch] = read_tail(JournalTailPart("bk1", (), "no journal directory was found"))
    [row] = batch.to_pylist()
    assert (row["state"], row["reason"], row["path"]) == (
        TailState.GAP,
        "no journal directory was found",
        None,
    )


def test_tail_parts_are_read_back_from_json() -> None:
    parts = [
        JournalTailPart("bk1", (JournalDirectory("/j", DIGEST, 5, 9),)),
        JournalTailPart("bk2", (), "why"),
    ]
    assert from_json(to_json(parts)) == parts


def test_files_are_listed_oldest_first(tmp_path: Path) -> None:
    directory(tmp_path, {0x10: b"", 0x9: b"", 0xF: b""})
    assert [file.id for file in list_journals(str(tmp_path))] == [0x9, 0xF, 0x10]


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60)


@given(st.lists(pairs, min_size=1, max_size=3), st.data())
def test_tail_has_the_entries_written_after_the_mark(
    files: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    import tempfile

    number = data.draw(st.integers(0, len(files[0])))
    whole = [journal(file) for file in files]
    start = offset_of(whole[0], number) if number < len(files[0]) else len(journal(files[0], spare=0))
    with tempfile.TemporaryDirectory() as folder:
        journal_dir = directory(
            Path(folder), {MARK_ID + index: file for index, file in enumerate(whole)}, (MARK_ID, start)
        )
        tail_groups, _ = tail(journal_dir)
    after = set(files[0][number:]) | {pair for file in files[1:] for pair in file}
    assert {
        (ledger, entry) for ledger, groups in tail_groups.items() for entry in entries_of(groups)
    } == after


def entries_of(groups: Iterable[tuple[int, ...]]) -> list[int]:
    return [int(entry) for entry in expand(np.array(list(groups), GROUP))]


def test_repeated_entries_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.sources.bookies.journal.files._DEDUPLICATE_ENTRIES", 10)
    monkeypatch.setattr("auditor.codecs.bookie.length_prefixed.BLOCK_BYTES", 600)
    journal_dir = directory(tmp_path, {MARK_ID: journal([(1, 0)] * 100 + [(1, 1)])})
    read = read_entries(list_journals(journal_dir.path)[0].path, 0)
    assert len(read.entry_ids) < 50
    assert set(read.entry_ids.tolist()) == {0, 1}
    assert tail(journal_dir)[0] == {1: [(0, 0, 2, 0)]}


def test_more_entries_than_the_limit_are_reported_as_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.sources.bookies.journal.files.MAX_KEPT_ENTRIES", 50)
    journal_dir = directory(tmp_path, {MARK_ID: journal([(1, entry) for entry in range(100)])})
    _, [row] = tail(journal_dir)
    assert (row["state"], row["reason"]) == (TailState.GAP, "more than 50 entries")


@pytest.mark.parametrize(
    ("name", "data", "replay_error"),
    [
        (f"{MARK_ID:x}.txn", journal([(1, 0)], spare=0) + struct.pack(">i", -9), ReplayError.INVALID_RECORD),
        (f"{MARK_ID:x}.txn", header(9) + bytes(512), ReplayError.INVALID_VERSION),
        ("later.txn", journal([(1, 0)]), ReplayError.INVALID_NAME),
        (f"{MARK_ID:x}.txn", journal([(1, 0)]), None),
    ],
)
def test_directory_row_has_the_error_of_a_replay(
    name: str, data: bytes, replay_error: ReplayError | None, tmp_path: Path
) -> None:
    journal_dir = directory(tmp_path, {MARK_ID: journal([(1, 0)])})
    (tmp_path / "current" / name).write_bytes(data)
    _, [row] = tail(journal_dir)
    assert row["replay_error"] == replay_error
    assert (row["state"] == TailState.OK) == (replay_error is None)


def test_damage_before_the_mark_does_not_stop_a_replay(tmp_path: Path) -> None:
    data = journal([(1, 0), (1, 1)])
    start = offset_of(data, 1)
    damaged = data[:512] + struct.pack(">i", -9) + data[516:]
    _, [row] = tail(directory(tmp_path, {MARK_ID: damaged}, (MARK_ID, start)))
    assert (row["state"], row["replay_error"]) == (TailState.OK, None)
