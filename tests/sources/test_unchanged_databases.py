"""RocksDB indexes read against an earlier run give the rows of a full read, after any change to them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.sources.bookies.earlier_rows import EarlierTable
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart
from auditor.sources.bookies.reusable_parts import ReusablePart
from tests.examples import examples
from tests.sources.earlier_runs import (
    comparable_rows,
    make_reusable_parts,
    plan_bookie,
    quick_clocks,
    read,
    settle,
    write_earlier_table,
)
from tests.sources.rocksdb_databases import (
    EXISTING,
    LIMBO,
    VERSION,
    key,
    ledger_key,
    location,
    write_database,
)


def make_bookie(root: Path) -> list[IndexDirectory]:
    """Write two directories, one with the even ledgers and one with the odd ledgers."""
    for number in (0, 1):
        write(root, number, {ledger: [0, 1, ledger] for ledger in (number, number + 2, number + 4)})
        (root / f"ledgers{number}" / "current/VERSION").write_bytes(VERSION)
    return index_directories(root)


def index_directories(root: Path) -> list[IndexDirectory]:
    return [
        IndexDirectory.from_version(str(root / f"ledgers{number}"), VERSION, ROCKSDB, number, 2)
        for number in (0, 1)
    ]


def write(root: Path, number: int, contents: dict[int, list[int]], value: bytes = EXISTING) -> None:
    current = root / f"ledgers{number}" / "current"
    for name in ("locations", "ledgers"):
        shutil.rmtree(current / name, ignore_errors=True)
    rows = {key(ledger, entry): location() for ledger, entries in contents.items() for entry in entries}
    write_database(current / "locations", rows)
    write_database(current / "ledgers", {ledger_key(ledger): value for ledger in contents})


def other_entries(root: Path, number: int) -> None:
    write(root, number, {number: [7]})


def in_limbo(root: Path, number: int) -> None:
    write(root, number, {number: [0, 3]}, LIMBO)


def wrong_directory(root: Path, number: int) -> None:
    write(root, number, {1 - number: [0]})


def same_again(root: Path, number: int) -> None:
    """Replace the files with copies that have other inodes, but equal bytes and times."""
    current = root / f"ledgers{number}" / "current"
    shutil.copytree(current, current.with_name("copy"), copy_function=shutil.copy2)
    shutil.rmtree(current)
    current.with_name("copy").rename(current)


def damaged(root: Path, number: int) -> None:
    for table in (root / f"ledgers{number}" / "current/locations").glob("*.sst"):
        state = table.stat()
        os.truncate(table, state.st_size // 2)
        os.utime(table, ns=(state.st_atime_ns, state.st_mtime_ns))


def no_locations(root: Path, number: int) -> None:
    shutil.rmtree(root / f"ledgers{number}" / "current/locations", ignore_errors=True)


def stray(root: Path, number: int) -> None:
    (root / f"ledgers{number}" / "current/notes.txt").touch()


def stray_index(root: Path, number: int) -> None:
    leaf = root / f"ledgers{number}" / "current/1/1"
    leaf.mkdir(parents=True, exist_ok=True)
    (leaf / "101.idx").touch()


def swap_disks(root: Path, number: int) -> None:
    (root / "ledgers0").rename(root / "other")
    (root / "ledgers1").rename(root / "ledgers0")
    (root / "other").rename(root / "ledgers1")


CHANGES: list[Callable[[Path, int], None]] = [
    other_entries, in_limbo, wrong_directory, same_again, damaged, no_locations, stray, stray_index,
    swap_disks,
]  # fmt: skip


@settings(max_examples=examples(8), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 1)), max_size=2), min_size=1, max_size=2
    )
)
def test_reading_against_an_earlier_run_equals_a_full_read(
    steps: list[list[tuple[Callable[[Path, int], None], int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        quick_clocks(patch)
        patch.setattr("auditor.sources.bookies.rocksdb.scan.RETRY_PAUSE_S", 0)
        root = Path(folder, "bookie")
        all_parts = plan_bookie(make_bookie(root), 1)
        began = settle()
        before = read(all_parts)
        for number, changes in enumerate(steps):
            earlier = write_earlier_table(Path(folder, f"run{number}"), before, began)
            settle()
            for what, directory in changes:
                what(root, directory)
            began = settle()
            before = read(make_reusable_parts(all_parts, earlier))
            assert comparable_rows(before) == comparable_rows(read(all_parts))


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EarlierTable:
    quick_clocks(monkeypatch)
    all_parts = plan_bookie(make_bookie(tmp_path / "bookie"), 1)
    began = settle()
    table = write_earlier_table(tmp_path / "run", read(all_parts), began)
    settle()
    return table


def reused_ledgers(root: Path, earlier: EarlierTable) -> set[int]:
    """Return the ledgers whose rows were taken from the earlier run."""
    rows = read(make_reusable_parts(plan_bookie(index_directories(root), 1), earlier)).to_pylist()
    return {row["ledger_id"] for row in rows if row["reused"]}


def test_unchanged_directory_is_not_opened(
    tmp_path: Path, earlier: EarlierTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_entries(tmp_path / "bookie", 1)
    assert reused_ledgers(tmp_path / "bookie", earlier) == {0, 2, 4}
    monkeypatch.setattr("auditor.sources.bookies.rocksdb.rows.open_rocksdb", None)
    part = ReusablePart(IndexPart("bk-a:3181", (index_directories(tmp_path / "bookie")[0],), ()), earlier)
    assert read([part]).num_rows == 3


def test_directory_with_a_pending_check_is_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_clocks(monkeypatch)
    root = tmp_path / "bookie"
    make_bookie(root)
    current = root / "ledgers0/current"
    shutil.rmtree(current / "ledgers")
    flags = {ledger_key(-0xEEFD): location(1)}
    write_database(current / "ledgers", {ledger_key(ledger): EXISTING for ledger in (0, 2, 4)} | flags)
    began = settle()
    table = read(plan_bookie(index_directories(root), 1))
    assert "gap" in table["state"].to_pylist()
    settle()
    assert reused_ledgers(root, write_earlier_table(tmp_path / "run", table, began)) == {1, 3, 5}


@pytest.mark.parametrize(
    "file", ["locations/000099.log", "ledgers/000099.log", "locations-scoped/CURRENT", "ledgers/000099.sst"]
)
def test_additional_database_file_is_a_change(tmp_path: Path, earlier: EarlierTable, file: str) -> None:
    path = tmp_path / "bookie/ledgers0/current" / file
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert reused_ledgers(tmp_path / "bookie", earlier) == {1, 3, 5}


def test_files_outside_the_database_are_not_a_change(tmp_path: Path, earlier: EarlierTable) -> None:
    for name in ("locations/LOG", "locations/LOCK", "notes.txt"):
        (tmp_path / "bookie/ledgers0/current" / name).touch()
    assert reused_ledgers(tmp_path / "bookie", earlier) == {0, 1, 2, 3, 4, 5}


def test_directory_with_damaged_rows_is_never_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick_clocks(monkeypatch)
    monkeypatch.setattr("auditor.sources.bookies.rocksdb.scan.RETRY_PAUSE_S", 0)
    root = tmp_path / "bookie"
    make_bookie(root)
    current = root / "ledgers0/current"
    shutil.rmtree(current / "ledgers")
    rows = {ledger_key(ledger): EXISTING for ledger in (0, 2, 4)} | {b"odd": b"row"}
    write_database(current / "ledgers", rows)
    began = settle()
    table = read(plan_bookie(index_directories(root), 1))
    assert "damaged" in table["state"].to_pylist()
    earlier = write_earlier_table(tmp_path / "run", table, began)
    assert reused_ledgers(root, earlier) == {1, 3, 5}
