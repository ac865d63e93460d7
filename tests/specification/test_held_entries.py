"""BP-34 and the internals page: the sources from which a bookie knows its entries."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.codecs.bookie.last_mark import decode as decode_mark
from auditor.keys import index_path
from auditor.model.views import JournalView
from auditor.reports import bookie
from auditor.sources.bookies.journal.files import JournalDirectory, list_journals
from auditor.sources.bookies.journal.tails import JournalTailPart, read_tail
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import IndexDirectory, plan_parts
from auditor.sources.bookies.places import find_places
from tests.cli.test_doors import bkaudit
from tests.codecs.journals import journal
from tests.corpora.cluster import index_bytes
from tests.reports.samples import NO_HOLDS
from tests.reports.test_bookie import BOOKIE
from tests.sources.bookie_corpora import make_directory
from tests.sources.rocksdb_databases import entries, read_directory, write_bookie
from tests.specification.sentences import sentence

VERSION = b"5\n"


def index_rows(root: Path, entries_by_ledger: dict[int, list[int]]) -> list[dict[str, Any]]:
    directory = make_directory(root, VERSION)
    for ledger, ids in entries_by_ledger.items():
        file = directory / "current" / index_path.to_path(ledger)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(index_bytes(ids))
    parts = plan_parts([("bk", [IndexDirectory.from_version(str(directory), VERSION)])], 1)
    return [row for part in parts for batch in read_part(part) for row in batch.to_pylist()]


def read_tail_entries(root: Path, files: dict[int, bytes], mark: tuple[int, int]) -> dict[int, list[int]]:
    """Return the entries in a directory's journals after a mark, by ledger."""
    (root / "current").mkdir(parents=True)
    (root / "current/VERSION").write_bytes(VERSION)
    for file_id, data in files.items():
        (root / f"current/{file_id:x}.txn").write_bytes(data)
    place = JournalDirectory(str(root), hashlib.sha256(VERSION).hexdigest(), *mark)
    rows = [row for batch in read_tail(JournalTailPart("bk", (place,))) for row in batch.to_pylist()]
    return {row["ledger_id"]: entries(row["groups"]) for row in rows if row["ledger_id"] is not None}


@sentence("34-20")
def test_index_files_list_stored_entries(tmp_path: Path) -> None:
    [row] = index_rows(tmp_path / "l0", {7: [0, 2, 5]})
    assert (row["ledger_id"], entries(row["groups"])) == (7, [0, 2, 5])


@sentence("34-21")
def test_unflushed_journal_entries_count_as_stored(tmp_path: Path) -> None:
    assert read_tail_entries(tmp_path, {5: journal([(7, 3), (7, 4)])}, (5, 0)) == {7: [3, 4]}


@sentence("34-22")
def test_rocksdb_index_lists_entries_of_dbledgerstorage(tmp_path: Path) -> None:
    [row] = read_directory(write_bookie(tmp_path / "l0", {7: [0, 2, 5]}))
    assert (row["ledger_id"], entries(row["groups"])) == (7, [0, 2, 5])


@sentence("34-23")
def test_index_state_is_ok_without_entry_logs(tmp_path: Path) -> None:
    rows = index_rows(tmp_path / "l0", {7: [0]})
    assert not list((tmp_path / "l0").rglob("*.log"))
    assert [row["state"] for row in rows] == ["ok"]


@sentence("IN-01")
def test_bookie_has_separate_journal_and_ledger_directories(tmp_path: Path) -> None:
    for name in ("journal", "ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk1" / name, VERSION)
    [place] = find_places([str(tmp_path)])
    names = {Path(directory.path).name for directory in place.directories}
    assert names >= {"journal", "ledgers0", "ledgers1"}


@sentence("IN-02")
def test_journals_are_listed_in_order_of_hexadecimal_id(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    for name in ("1a1fc8020c4.txn", "9.txn", "1a1fc8020c3.txn", "notes.txt"):
        (tmp_path / "current" / name).touch()
    ids = [file.id for file in list_journals(str(tmp_path))]
    assert ids == [9, 0x1A1FC8020C3, 0x1A1FC8020C4]


@sentence("IN-03")
def test_update_is_read_from_journal_before_index(tmp_path: Path) -> None:
    assert index_rows(tmp_path / "l0", {}) == []
    assert read_tail_entries(tmp_path / "j", {5: journal([(7, 0)])}, (0, 0)) == {7: [0]}


@sentence("IN-04")
def test_journal_continues_in_next_file(tmp_path: Path) -> None:
    files = {5: journal([(7, 0)], spare=0), 6: journal([(7, 1)], spare=0)}
    assert read_tail_entries(tmp_path, files, (5, 0)) == {7: [0, 1]}


@sentence("IN-05")
def test_journal_files_before_mark_are_not_read(tmp_path: Path) -> None:
    files = {4: journal([(9, 9)]), 5: journal([(7, 0)])}
    assert read_tail_entries(tmp_path, files, (5, 0)) == {7: [0]}


@sentence("IN-06")
def test_the_mark_names_the_journal_file() -> None:
    assert decode_mark(struct.pack(">qq", 0x1A1FC8020C3, 6656)).file_name == "1a1fc8020c3.txn"


@sentence("IN-07")
def test_mark_gives_position_in_journal_file(tmp_path: Path) -> None:
    data = journal([(7, 0), (7, 1)])
    second = 1024  # each record of version 6 ends a block of 512 bytes
    assert decode_mark(struct.pack(">qq", 5, second)).offset == second
    assert read_tail_entries(tmp_path, {5: data}, (5, second)) == {7: [1]}


@sentence("IN-08")
def test_journal_files_with_id_below_mark_are_counted_as_old(tmp_path: Path) -> None:
    files = {file_id: journal([(7, file_id)]) for file_id in (3, 4, 5, 6)}
    (tmp_path / "current").mkdir(parents=True)
    (tmp_path / "current/VERSION").write_bytes(VERSION)
    for file_id, data in files.items():
        (tmp_path / f"current/{file_id:x}.txn").write_bytes(data)
    place = JournalDirectory(str(tmp_path), hashlib.sha256(VERSION).hexdigest(), 5, 0)
    rows = [row for batch in read_tail(JournalTailPart("bk", (place,))) for row in batch.to_pylist()]
    [directory] = [row for row in rows if row["ledger_id"] is None]
    assert (directory["files_below"], directory["files"]) == (2, 2)


@sentence("IN-09")
def test_old_journals_can_be_searched_for_lost_entries(tmp_path: Path) -> None:
    (tmp_path / "4.txn").write_bytes(journal([(7, 0), (7, 1)]))
    outcome = bkaudit("decode", "journal", str(tmp_path / "4.txn"), "--entries")
    assert [row["entries"] for row in json.loads(outcome.stdout)["largest"]] == [[0, 1]]
    old = JournalView("/j", None, "5.txn", 0, files=1, files_below=2, entries=0)
    text = bookie.render(replace(BOOKIE, journals=(old,)), 200, NO_HOLDS)
    assert "2 old files before the mark (by default, journalMaxBackups keeps 5)" in text
    assert "bkaudit decode journal FILE --entries" in text
