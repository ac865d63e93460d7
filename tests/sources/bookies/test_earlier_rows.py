"""Tests that a read against an earlier run equals a full read, whatever was done to the files."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.errors import RunError
from auditor.keys import index_path
from auditor.sources.bookies import earlier_rows, part_rows, parts
from auditor.sources.bookies.availability import IndexFiles
from auditor.sources.bookies.earlier_rows import EarlierTable
from auditor.sources.bookies.parts import IndexDirectory, IndexPart
from auditor.sources.bookies.reusable_parts import ReusablePart
from auditor.sources.bookies.rocksdb import rows
from tests.corpora.cluster import index_bytes
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

# Two ledgers a directory, of three first-level names; all of a part's files lie in few places.
LEDGERS = [0x101, 0x10101, 0x102, 0x201, 0x10201, 0x301]
PAGE = 1024


def place(root: Path, ledger: int, directory: int | None = None) -> Path:
    """Return the path of a ledger's file. A second-level directory is in one index directory as a whole."""
    number = sum(ledger.to_bytes(4, "big")[2:]) % 2 if directory is None else directory
    return root / f"ledgers{number}" / "current" / index_path.to_path(ledger)


def write(path: Path, entries: list[int], pages: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(index_bytes(entries).ljust(1024 + PAGE * pages, b"\0"))


def make_bookie(root: Path) -> list[IndexDirectory]:
    for number in (0, 1):
        current = root / f"ledgers{number}" / "current"
        current.mkdir(parents=True)
        (current / "VERSION").write_bytes(b"5\n")
    for ledger in LEDGERS:
        write(place(root, ledger), [0, 2, ledger % 7])
    return index_directories(root)


def index_directories(root: Path) -> list[IndexDirectory]:
    paths = [root / f"ledgers{number}" for number in (0, 1)]
    return [IndexDirectory.from_version(str(path), (path / "current/VERSION").read_bytes()) for path in paths]


def other_entries(path: Path) -> None:
    write(path, [1, 3])


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(index_bytes([1])[1024:].ljust(PAGE, b"\0"))


def cut_short(path: Path) -> None:
    os.truncate(path, 1024 + 11)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def deleted(path: Path) -> None:
    path.unlink()


def set_back(path: Path) -> None:
    """Change the entries of a file, but keep its length and its modification time."""
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(content[:1024] + content[1024:][::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    """Put another file in its place, with the same change of entries, length and modification time."""
    new_file = path.with_name("other")
    shutil.copyfile(path, new_file)
    set_back(new_file)
    before = path.stat()
    os.utime(new_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    new_file.replace(path)


def touched(path: Path) -> None:
    path.touch()


def misnamed(path: Path) -> None:
    path.rename(path.with_name("77.idx"))


def relocating(path: Path) -> None:
    path.rename(path.with_name(path.name + ".rloc"))


def stray_file(path: Path) -> None:
    (path.parent / "notes.txt").touch()


def filled_below(path: Path) -> None:
    """Make a directory next to the file, which updates the parent's time. Later files in it do not."""
    inner = path.parent / "inner"
    if inner.exists():
        (inner / "notes.txt").touch()
    inner.mkdir(exist_ok=True)


def in_both(path: Path) -> None:
    """Write the ledger's file into the other index directory too."""
    number = 1 - int(path.parts[-5][-1])
    other_path = path.parents[4] / f"ledgers{number}" / Path(*path.parts[-4:])
    write(other_path, [5])


def moved(path: Path) -> None:
    in_both(path)
    path.unlink()


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: list[Callable[[Path], None]] = [
    other_entries, grown, cut_short, emptied, deleted, set_back, replaced, touched, misnamed, relocating,
    stray_file, filled_below, in_both, moved, a_directory,
]  # fmt: skip


def change(root: Path, what: Callable[[Path], None], ledger: int) -> None:
    """Apply ``what`` to the ledger's file, wherever it is now, unless it is gone or a directory."""
    for number in (0, 1):
        path = place(root, ledger, number)
        if path.is_file():
            what(path)
            return
    if what is other_entries and not place(root, ledger).exists():
        write(place(root, ledger), [4])


def swap_disks(root: Path) -> None:
    """Exchange the places of the two disks."""
    (root / "ledgers0").rename(root / "other")
    (root / "ledgers1").rename(root / "ledgers0")
    (root / "other").rename(root / "ledgers1")


def change_version(root: Path) -> None:
    (root / "ledgers1/current/VERSION").write_bytes(b"5\nanother\n")


def change_nothing(root: Path) -> None:
    """Leave the directories themselves unchanged."""


CHANGE_LISTS = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.sampled_from([*LEDGERS, 0x401, 0x10102])), max_size=4
)
STEP = st.tuples(
    CHANGE_LISTS,
    st.sampled_from([change_nothing] * 6 + [swap_disks, change_version]),
    st.integers(1, 3),
    st.sampled_from([1, 1, 4]),
)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(STEP, min_size=1, max_size=2),
    st.integers(1, 3),
    st.sampled_from([3, 250_000]),
    st.sampled_from([1, 256]),
)
def test_reading_against_an_earlier_run_equals_a_full_read(
    steps: list[Any], part_count: int, group_rows: int, slice_files: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        quick_clocks(patch)
        patch.setattr("auditor.sources.bookies.earlier_rows.MAX_EARLIER_ROWS", group_rows)
        patch.setattr("auditor.sources.bookies.earlier_rows.SLICE_FILES", slice_files)
        root = Path(folder, "bookie")
        directories = make_bookie(root)
        began = settle()
        before = read(plan_bookie(directories, part_count))
        for number, (changes, whole, again, threads) in enumerate(steps):
            earlier = write_earlier_table(Path(folder, f"run{number}"), before, began)
            settle()
            for what, ledger in changes:
                change(root, what, ledger)
            whole(root)
            began = settle()
            all_parts = [
                IndexPart(part.bookie_id, part.directories, part.names, part.names_of_other_parts, threads)
                for part in plan_bookie(directories, again)
            ]
            before = read(make_reusable_parts(all_parts, earlier))
            assert comparable_rows(before) == comparable_rows(read(all_parts))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_clocks(monkeypatch)


def make_earlier_table(root: Path) -> EarlierTable:
    """Return the rows of a bookie that was read and has not been written since."""
    directories = make_bookie(root / "bookie")
    began = settle()
    earlier = write_earlier_table(root / "run", read(plan_bookie(directories, 1)), began)
    settle()
    return earlier


def record_reads(monkeypatch: pytest.MonkeyPatch, parts: list[ReusablePart]) -> tuple[set[str], set[str]]:
    """Return which files and second-level directories are opened when some parts are read."""
    opened: set[str] = set()
    listed: set[str] = set()
    listdir = os.listdir

    def reading(pieces: Any, threads: int) -> Any:
        for files in pieces:
            assert isinstance(files, IndexFiles)
            opened.update(os.fsdecode(path).rpartition("/")[2] for path in files.paths)
        return iter(())

    def listing(path: Any) -> list[Any]:
        below = os.fsdecode(path).partition("/current/")[2]
        if "/" in below:
            listed.add(below)
        return listdir(path)

    with monkeypatch.context() as patch:
        patch.setattr("auditor.sources.bookies.part_rows.read_files", reading)
        patch.setattr(os, "listdir", listing)
        read(parts)
    return opened, listed


@pytest.mark.usefixtures("quick")
def test_unchanged_directories_and_files_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = make_earlier_table(tmp_path)
    index_parts = make_reusable_parts(plan_bookie(index_directories(tmp_path / "bookie"), 2), earlier)
    assert record_reads(monkeypatch, index_parts) == (set(), set())
    table = read(index_parts)
    assert table["reused"].to_pylist() == [True] * len(LEDGERS)
    assert table.schema.equals(
        read(plan_bookie(index_directories(tmp_path / "bookie"), 1)).schema, check_metadata=True
    )


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("wait", "at_once"), [(0.02, True), (0.0, False)])
def test_slow_disks_get_several_stat_threads_and_fast_disks_get_one(
    wait: float, at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = make_earlier_table(tmp_path)
    monkeypatch.setattr(earlier_rows, "SLICE_FILES", 1)
    monkeypatch.setattr(earlier_rows, "MAX_CACHED_STAT_SECONDS", 0.01)
    threads, states = set(), earlier_rows._read_stats
    clock, arrival = [0.0], threading.Condition()
    monkeypatch.setattr(earlier_rows, "perf_counter", lambda: clock[0])

    def waiting(paths: Sequence[bytes]) -> Any:
        with arrival:
            clock[0] += wait
            threads.add(threading.get_ident())
            arrival.notify_all()
            if threading.current_thread() is not threading.main_thread():
                arrival.wait_for(lambda: len(threads) == 1 + earlier_rows.MIN_STAT_THREADS, timeout=60)
        return states(paths)

    monkeypatch.setattr(earlier_rows, "_read_stats", waiting)
    table = read(make_reusable_parts(plan_bookie(index_directories(tmp_path / "bookie"), 1), earlier))
    assert table["reused"].to_pylist() == [True] * len(LEDGERS)
    assert len(threads) == (1 + earlier_rows.MIN_STAT_THREADS if at_once else 1)
    assert threading.main_thread().ident in threads


@pytest.mark.usefixtures("quick")
def test_only_changed_files_and_their_directories_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = make_earlier_table(tmp_path)
    set_back(place(tmp_path / "bookie", 0x10101))
    index_parts = make_reusable_parts(plan_bookie(index_directories(tmp_path / "bookie"), 2), earlier)
    assert record_reads(monkeypatch, index_parts) == ({"10101.idx"}, {"1/1"})


@pytest.mark.usefixtures("quick")
def test_a_directory_dated_after_the_earlier_run_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = make_earlier_table(tmp_path)
    write(place(tmp_path / "bookie", 0x20301), [1])
    index_parts = make_reusable_parts(plan_bookie(index_directories(tmp_path / "bookie"), 2), earlier)
    assert record_reads(monkeypatch, index_parts) == ({"20301.idx"}, {"3/1"})


def test_files_written_just_before_the_earlier_read_are_read_again(tmp_path: Path) -> None:
    directories = make_bookie(tmp_path / "bookie")
    table = read(plan_bookie(directories, 1))
    assert table["stamp"].null_count == table.num_rows == len(LEDGERS)
    earlier = write_earlier_table(tmp_path / "run", table, time.time_ns() // 1_000_000)
    assert not any(read(make_reusable_parts(plan_bookie(directories, 1), earlier))["reused"].to_pylist())


@pytest.mark.usefixtures("quick")
def test_rows_of_another_bookie_are_not_reused(tmp_path: Path) -> None:
    earlier = make_earlier_table(tmp_path)
    directories = tuple(index_directories(tmp_path / "bookie"))
    rows = read([ReusablePart(IndexPart("bk-b:3181", directories, (), ()), earlier)]).to_pylist()
    assert {(row["bookie_id"], row["reused"]) for row in rows} == {("bk-b:3181", False)}
    assert len(rows) == len(LEDGERS)


def delete_table(file: Path) -> None:
    file.unlink()


def truncate_table(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 100)


def drop_stamp_column(file: Path) -> None:
    pq.write_table(pq.read_table(file).drop_columns(["stamp"]), file)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("spoil", [delete_table, truncate_table, drop_stamp_column])
def test_damaged_table_of_the_earlier_run_is_an_error_with_its_path(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    earlier = make_earlier_table(tmp_path)
    spoil(tmp_path / "run" / earlier.files[0])
    with pytest.raises(RunError, match=rf"{tmp_path}/run/part-00000\.parquet: "):
        read(make_reusable_parts(plan_bookie(index_directories(tmp_path / "bookie"), 1), earlier))


@pytest.mark.usefixtures("quick")
def test_flipped_bit_in_an_earlier_table_never_changes_the_rows(tmp_path: Path) -> None:
    earlier = make_earlier_table(tmp_path)
    all_parts = plan_bookie(index_directories(tmp_path / "bookie"), 1)
    whole = comparable_rows(read(all_parts))
    file = tmp_path / "run" / earlier.files[0]
    content = file.read_bytes()
    refused = 0
    for offset in range(0, len(content), 61):
        file.write_bytes(content[:offset] + bytes([content[offset] ^ 0x20]) + content[offset + 1 :])
        try:
            assert comparable_rows(read(make_reusable_parts(all_parts, earlier))) == whole, offset
        except RunError:
            refused += 1
    assert refused > 10


@pytest.mark.usefixtures("quick")
def test_each_read_file_has_its_own_stamp_and_a_truncated_file_has_none(tmp_path: Path) -> None:
    make_earlier_table(tmp_path)
    table = read(plan_bookie(index_directories(tmp_path / "bookie"), 1))
    assert table["stamp"].null_count == 0
    assert len(np.unique(table["stamp"].to_numpy())) == len(LEDGERS)
    cut_short(place(tmp_path / "bookie", 0x301))
    settle()
    rows = read(plan_bookie(index_directories(tmp_path / "bookie"), 1)).to_pylist()
    assert {(row["ledger_id"], row["state"]) for row in rows if row["stamp"] is None} == {(0x301, "cut")}


@pytest.mark.parametrize("module", [part_rows, parts, rows])
def test_disk_readers_do_not_use_earlier_rows(module: ModuleType) -> None:
    assert "earlier_rows" not in inspect.getsource(module)
