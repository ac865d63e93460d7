"""The entries of a bookie's journals after its marks: which count, and when they are not all."""

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
MADE = 0x1A1FC8020C3  # when the file of the mark was made


def directory(path: Path, files: dict[int, bytes], mark: tuple[int, int] = (MADE, 0)) -> JournalDirectory:
    """A journal directory with files by id, to be read from ``mark``."""
    (path / "current").mkdir(parents=True)
    (path / "current/VERSION").write_bytes(VERSION)
    for file_id, data in files.items():
        (path / f"current/{file_id:x}.txn").write_bytes(data)
    return JournalDirectory(str(path), DIGEST, *mark)


def tail(*directories: JournalDirectory) -> tuple[dict[int, list[tuple[int, ...]]], list[dict[str, Any]]]:
    """The groups of each ledger, and the rows of the directories."""
    rows = [row for batch in read_tail(JournalTailPart("bk1", directories)) for row in batch.to_pylist()]
    ledgers = [row for row in rows if row["ledger_id"] is not None]
    assert all(
        (row["scope_id"], row["state"], row["bookie_id"]) == (0, TailState.OK, "bk1") for row in ledgers
    )
    held = {row["ledger_id"]: list(struct.iter_unpack(">qqii", row["groups"])) for row in ledgers}
    assert len(held) == len(ledgers)
    return held, [row for row in rows if row["ledger_id"] is None]


def offset_of(data: bytes, number: int) -> int:
    """Where a record begins."""
    [records] = Journal.open(lambda at, length: data[at : at + length], len(data)).records()
    return int(records.offsets[number])


def test_only_what_follows_the_mark_is_held(tmp_path: Path) -> None:
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
    files = {MADE - 1: journal([(9, 0)]), MADE: data, MADE + 7: journal([(2, 4), (1, 0)])}
    held, [row] = tail(directory(tmp_path, files, (MADE, offset_of(data, 2))))
    assert held == {1: [(0, 0, 3, 0)], 2: [(4, 4, 2, 0)]}
    assert (row["state"], row["reason"], row["files"], row["files_below"], row["entries"]) == (
        TailState.OK,
        None,
        2,
        1,
        6,
    )
    assert (row["mark_file_id"], row["mark_offset"], row["path"]) == (MADE, offset_of(data, 2), str(tmp_path))


def test_without_a_mark_all_files_are_read(tmp_path: Path) -> None:
    held, [row] = tail(directory(tmp_path, {5: journal([(1, 0)]), 6: journal([(1, 1)])}, (0, 0)))
    assert (held, row["state"]) == ({1: [(0, 0, 2, 0)]}, TailState.OK)


def test_a_ledger_in_two_journals_is_one_row(tmp_path: Path) -> None:
    """The number of journals was changed: the bookie replays all there is."""
    one = directory(tmp_path / "j0", {MADE: journal([(2, 0), (3, 7)])})
    other = directory(tmp_path / "j1", {MADE: journal([(3, 8)])})
    held, rows = tail(one, other)
    assert held == {2: [(0, 0, 1, 0)], 3: [(7, 7, 2, 0)]}
    assert [row["path"] for row in rows] == [one.path, other.path]


def test_a_journal_that_is_cut_ends_where_a_restart_would(tmp_path: Path) -> None:
    cut = journal([(1, 0)], spare=0) + record(1, 1)[:-1]
    held, [row] = tail(directory(tmp_path, {MADE: cut, MADE + 1: journal([(1, 5)])}))
    assert (held, row["state"]) == ({1: [(0, 5, 1, 5)]}, TailState.OK)


def test_the_last_change_of_what_was_read_is_said(tmp_path: Path) -> None:
    found = directory(
        tmp_path, {MADE - 1: journal([(1, 0)]), MADE: journal([(1, 1)]), MADE + 1: journal([(1, 2)])}
    )
    for file_id, at in ((MADE - 1, 90), (MADE, 70), (MADE + 1, 50)):
        os.utime(tmp_path / f"current/{file_id:x}.txn", (at, at))
    assert tail(found)[1][0]["modified"] == 70_000


# what is in the directory, what is held all the same, the reason, the byte
TORN: dict[str, tuple[dict[int, bytes], tuple[int, int], dict[int, Any], str, int | None]] = {
    "the file of the mark is gone": (
        {MADE + 1: journal([(1, 4)])},
        (MADE, 600),
        {1: [(4, 4, 1, 0)]},
        "1a1fc8020c3.txn is missing; the bookie would replay the journal from it",
        None,
    ),
    "all files are gone": ({}, (MADE, 600), {}, "1a1fc8020c3.txn is missing", None),
    "the mark lies past the end": (
        {MADE: journal([(1, 4)])[:600], MADE + 1: journal([(1, 5)])},
        (MADE, 601),
        {1: [(5, 5, 1, 0)]},
        "the file ends before byte 601",
        600,
    ),
    "a damaged record": (
        {MADE: journal([(1, 4)], spare=0) + struct.pack(">i", -7) + bytes(40)},
        (MADE, 0),
        {1: [(4, 4, 1, 0)]},
        "a record with an invalid length: -7 bytes",
        1024,
    ),
    "a version of the future": ({MADE: b"BKLG" + struct.pack(">i", 7)}, (MADE, 0), {}, "version 7", 4),
    "keys and no entry": (
        {MADE - 1: journal([(1, 0)]), MADE: journal([(1, MASTER_KEY), (1, FENCE)])},
        (MADE, 0),
        {},
        NO_ENTRIES_REASON,
        None,
    ),
    "keys before the mark and nothing after it": (
        {MADE - 1: journal([(1, 0)]), MADE: journal([(1, MASTER_KEY)], spare=0)},
        (MADE, 1024),
        {},
        NO_ENTRIES_REASON,
        None,
    ),
    "no record at all": ({MADE: journal([])}, (MADE, 512), {}, NO_RECORDS_REASON, None),
    "nothing, and no mark": ({}, (0, 0), {}, NO_RECORDS_REASON, None),
}  # fmt: skip


@pytest.mark.parametrize(("files", "mark", "held", "reason", "offset"), TORN.values(), ids=TORN.keys())
def test_what_is_not_all_is_said_and_what_was_read_is_held(
    files: dict[int, bytes],
    mark: tuple[int, int],
    held: dict[int, Any],
    reason: str,
    offset: int | None,
    tmp_path: Path,
) -> None:
    found, [row] = tail(directory(tmp_path, files, mark))
    state = TailState.NO_FILE if "is missing" in reason else TailState.GAP
    assert (found, row["state"], row["offset"]) == (held, state, offset)
    assert reason in row["reason"]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({MADE: journal([(1, MASTER_KEY), (1, 0)], spare=0)}, id="in the file of the mark"),
        pytest.param({MADE - 1: journal([(1, 0)]), MADE: journal([], spare=512)}, id="in the file before it"),
    ],
)
def test_an_empty_tail_is_whole_if_entries_stand_before_the_mark(
    files: dict[int, bytes], tmp_path: Path
) -> None:
    held, [row] = tail(directory(tmp_path, files, (MADE, len(files[MADE]))))
    assert (held, row["state"], row["reason"]) == ({}, TailState.OK, None)


def test_one_journal_of_two_that_is_not_whole_is_said_and_the_other_held(tmp_path: Path) -> None:
    one = directory(tmp_path / "j0", {MADE: journal([(2, 0)])})
    other = directory(tmp_path / "j1", {MADE + 3: journal([(3, 8)])})
    held, rows = tail(one, other)
    assert held == {2: [(0, 0, 1, 0)], 3: [(8, 8, 1, 0)]}
    assert [row["state"] for row in rows] == [TailState.OK, TailState.NO_FILE]
    assert [(row["files_below"], row["files"]) for row in rows] == [(0, 1), (0, 1)]


def test_entries_of_other_scopes_are_rows_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.sources.bookies.journal.files._DEDUPLICATE_ENTRIES", 2)
    monkeypatch.setattr("auditor.codecs.bookie.length_prefixed.BLOCK_BYTES", 200)
    second = bytes.fromhex("a4") + struct.pack(">qqqqq", 1, 2, 3, 2, 7) + b"entry-3"
    data = header() + b"".join(
        record(2, entry) + struct.pack(">i", len(second)) + second for entry in (0, 1, 0, 1, 0, 1)
    )
    part = JournalTailPart("bk1", (directory(tmp_path, {MADE: data}),))
    rows = [row for batch in read_tail(part) for row in batch.to_pylist()]
    held = {
        (row["scope_id"], row["ledger_id"]): list(struct.iter_unpack(">qqii", row["groups"]))
        for row in rows
        if row["ledger_id"] is not None
    }
    assert held == {(0, 2): [(0, 0, 2, 0)], (1, 2): [(3, 3, 1, 0)]}
    assert rows[-1]["state"] == TailState.OK


def test_another_disk_than_was_planned_is_not_read(tmp_path: Path) -> None:
    found = directory(tmp_path, {MADE: journal([(1, 0)])})
    (tmp_path / "current/VERSION").write_bytes(b"4\n")
    held, [row] = tail(found)
    assert (held, row["state"]) == ({}, TailState.GAP)
    assert "VERSION changed since" in row["reason"]


def test_a_name_that_the_server_does_not_understand_is_said(tmp_path: Path) -> None:
    found = directory(tmp_path, {MADE: journal([(1, 0)])})
    (tmp_path / "current/copy.txn").write_bytes(b"")
    assert "'copy' is not a hexadecimal id" in tail(found)[1][0]["reason"]


def test_what_is_in_vain_is_not_tried() -> None:
    [batch] = read_tail(JournalTailPart("bk1", (), "no journal directory was found"))
    [row] = batch.to_pylist()
    assert (row["state"], row["reason"], row["path"]) == (
        TailState.GAP,
        "no journal directory was found",
        None,
    )


def test_parts_come_back_as_they_were() -> None:
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
def test_the_tail_is_what_is_written_after_the_mark(
    files: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    import tempfile

    number = data.draw(st.integers(0, len(files[0])))
    whole = [journal(each) for each in files]
    start = offset_of(whole[0], number) if number < len(files[0]) else len(journal(files[0], spare=0))
    with tempfile.TemporaryDirectory() as folder:
        found = directory(Path(folder), {MADE + at: each for at, each in enumerate(whole)}, (MADE, start))
        held, _ = tail(found)
    after = set(files[0][number:]) | {pair for each in files[1:] for pair in each}
    assert {(ledger, entry) for ledger, groups in held.items() for entry in entries_of(groups)} == after


def entries_of(groups: Iterable[tuple[int, ...]]) -> list[int]:
    return [int(entry) for entry in expand(np.array(list(groups), GROUP))]


def test_entries_that_come_again_and_again_are_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.sources.bookies.journal.files._DEDUPLICATE_ENTRIES", 10)
    monkeypatch.setattr("auditor.codecs.bookie.length_prefixed.BLOCK_BYTES", 600)
    found = directory(tmp_path, {MADE: journal([(1, 0)] * 100 + [(1, 1)])})
    read = read_entries(list_journals(found.path)[0].path, 0)
    assert len(read.entry_ids) < 50
    assert set(read.entry_ids.tolist()) == {0, 1}
    assert tail(found)[0] == {1: [(0, 0, 2, 0)]}


def test_more_entries_than_are_kept_are_damage_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.sources.bookies.journal.files.MAX_KEPT_ENTRIES", 50)
    found = directory(tmp_path, {MADE: journal([(1, entry) for entry in range(100)])})
    _, [row] = tail(found)
    assert (row["state"], row["reason"]) == (TailState.GAP, "more than 50 entries")


@pytest.mark.parametrize(
    ("name", "data", "replay_error"),
    [
        (f"{MADE:x}.txn", journal([(1, 0)], spare=0) + struct.pack(">i", -9), ReplayError.INVALID_RECORD),
        (f"{MADE:x}.txn", header(9) + bytes(512), ReplayError.INVALID_VERSION),
        ("later.txn", journal([(1, 0)]), ReplayError.INVALID_NAME),
        (f"{MADE:x}.txn", journal([(1, 0)]), None),
    ],
)
def test_the_row_of_a_directory_says_how_a_replay_ends(
    name: str, data: bytes, replay_error: ReplayError | None, tmp_path: Path
) -> None:
    made = directory(tmp_path, {MADE: journal([(1, 0)])})
    (tmp_path / "current" / name).write_bytes(data)
    _, [row] = tail(made)
    assert row["replay_error"] == replay_error
    assert (row["state"] == TailState.OK) == (replay_error is None)


def test_damage_before_the_mark_ends_no_replay(tmp_path: Path) -> None:
    data = journal([(1, 0), (1, 1)])
    start = offset_of(data, 1)
    damaged = data[:512] + struct.pack(">i", -9) + data[516:]
    _, [row] = tail(directory(tmp_path, {MADE: damaged}, (MADE, start)))
    assert (row["state"], row["replay_error"]) == (TailState.OK, None)
