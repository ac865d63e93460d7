"""Whether indexes and journals are few, found without reading them."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.audit import journal_scan
from auditor.audit.journal_scan import indexes_fit, journals_fit
from auditor.sources.bookies.journal.files import JournalDirectory
from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.parts import IDX, ROCKSDB, IndexDirectory, IndexPart


def index(directory: Path, storage: str = IDX) -> list[IndexPart]:
    return [IndexPart("bk1:3181", (IndexDirectory(str(directory), None, storage),), ())]


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_index_files_count_as_the_metadata_has_them_and_entry_logs_do_not(tmp_path: Path) -> None:
    write(tmp_path / "current" / "7.log", 10_000_000)
    assert indexes_fit(index(tmp_path), 5_000, 0.101)
    assert not indexes_fit(index(tmp_path), 5_100, 0.101)
    assert indexes_fit(index(tmp_path, ROCKSDB), 1_000_000, 0.001), "a database is no file a ledger"


def test_both_kinds_of_index_count_together(tmp_path: Path) -> None:
    write(tmp_path / "rocksdb" / "current" / "ledgers" / "000007.sst", 100_000)
    both = [*index(tmp_path / "files"), *index(tmp_path / "rocksdb", ROCKSDB)]
    assert indexes_fit(both, 100, 0.004)
    assert not indexes_fit(both, 190, 0.004)


@pytest.mark.parametrize("database", ["ledgers", "locations"])
def test_databases_count_where_the_index_is_in_rocksdb(tmp_path: Path, database: str) -> None:
    write(tmp_path / "current" / database / "000007.sst", 100_000)
    write(tmp_path / "current" / "7.log", 10_000_000)
    assert indexes_fit(index(tmp_path, ROCKSDB), 1, 0.004)
    assert not indexes_fit(index(tmp_path, ROCKSDB), 1, 0.0005)


def test_journals_count_whole(tmp_path: Path) -> None:
    write(tmp_path / "current" / "19.txn", 100_000)
    parts = [TailPart("bk1:3181", (JournalDirectory(str(tmp_path), "", 0x19, 90_000),))]
    assert journals_fit(parts, 0.004)
    assert not journals_fit(parts, 0.0005)


def test_what_cannot_be_listed_is_for_its_reader_to_say(tmp_path: Path) -> None:
    assert indexes_fit(index(tmp_path / "gone"), 0)
    assert indexes_fit(index(tmp_path / "gone", ROCKSDB), 0)
    assert indexes_fit([], 0)
    assert journals_fit([])


def test_who_has_to_look_for_long_leaves_it_to_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "current" / "ledgers" / "000007.sst", 10)
    monkeypatch.setattr(journal_scan, "LOOK_S", 0)
    assert not indexes_fit(index(tmp_path, ROCKSDB), 1)
