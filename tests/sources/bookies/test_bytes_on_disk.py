"""Whether indexes and journals are few, found without reading them."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.sources.bookies import bytes_on_disk
from auditor.sources.bookies.bytes_on_disk import indexes_fit, journals_fit
from auditor.sources.bookies.journal.replay import JournalDirectory
from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.parts import IDX, ROCKSDB, IndexDirectory, IndexPart


def index(directory: Path, storage: str = IDX) -> list[IndexPart]:
    return [IndexPart("bk1:3181", (IndexDirectory(str(directory), None, storage),), ())]


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


@pytest.mark.parametrize(("most", "fits"), [(1e-4, True), (4e-5, False)])
def test_index_files_count_and_entry_logs_do_not(tmp_path: Path, most: float, fits: bool) -> None:
    for number in range(3):
        write(tmp_path / "current" / "0" / str(number) / f"{number}.idx", 9_000)
    write(tmp_path / "current" / "7.log", 10_000_000)
    assert indexes_fit(index(tmp_path), most) is fits


def test_large_index_files_count_by_their_bytes(tmp_path: Path) -> None:
    write(tmp_path / "current" / "0" / "0" / "0.idx", 10_000_000)
    assert indexes_fit(index(tmp_path), 0.01)
    assert not indexes_fit(index(tmp_path), 0.004)


def test_many_empty_files_are_not_little(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path / "current" / "0" / "0" / f"{number}.idx", 0)
    assert indexes_fit(index(tmp_path), 4e-4)
    assert not indexes_fit(index(tmp_path), 2e-4)


@pytest.mark.parametrize("database", ["ledgers", "locations"])
def test_databases_count_where_the_index_is_in_rocksdb(tmp_path: Path, database: str) -> None:
    write(tmp_path / "current" / database / "000007.sst", 100_000)
    write(tmp_path / "current" / "7.log", 10_000_000)
    assert indexes_fit(index(tmp_path, ROCKSDB), 0.004)
    assert not indexes_fit(index(tmp_path, ROCKSDB), 0.0005)


def test_journals_count_whole(tmp_path: Path) -> None:
    write(tmp_path / "current" / "19.txn", 100_000)
    parts = [TailPart("bk1:3181", (JournalDirectory(str(tmp_path), "", 0x19, 90_000),))]
    assert journals_fit(parts, 0.004)
    assert not journals_fit(parts, 0.0005)


def test_what_cannot_be_listed_is_for_its_reader_to_say(tmp_path: Path) -> None:
    assert indexes_fit(index(tmp_path / "gone"))
    assert indexes_fit(index(tmp_path / "gone", ROCKSDB))
    assert indexes_fit([])
    assert journals_fit([])


def test_who_has_to_look_for_long_leaves_it_to_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "current" / "0" / "0" / "0.idx", 10)
    monkeypatch.setattr(bytes_on_disk, "LOOK_S", 0)
    assert not indexes_fit(index(tmp_path))
