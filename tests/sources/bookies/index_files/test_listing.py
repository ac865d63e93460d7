"""Tests of which file is the index of which ledger, as the server's IndexPersistenceMgr resolves it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from auditor.keys import index_path
from auditor.model.ledger_id import LedgerId
from auditor.sources.bookies.availability import IndexFiles
from auditor.sources.bookies.index_files.listing import SkippedPath, check_versions, list_part
from auditor.sources.bookies.parts import IndexDirectory, IndexPart, plan_parts
from tests.sources.bookie_corpora import make_directory

VERSION = b"5\n..."


class File(NamedTuple):
    """One of the files of a piece."""

    ledger_id: int
    path: str
    scope_id: int = 0


def list_files(part: IndexPart) -> list[File | SkippedPath]:
    result: list[File | SkippedPath] = []
    for batch in list_part(part):
        if isinstance(batch, IndexFiles):
            ids = batch.ledger_ids.tolist()
            result += map(File, ids, map(os.fsdecode, batch.paths), [batch.scope_id] * len(ids))
        else:
            result.append(batch)
    return result


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return [make_directory(tmp_path / name, VERSION) for name in ("b-first", "a-second")]


def plan(directories: list[Path], part_count: int = 1) -> list[IndexPart]:
    return plan_parts(
        [("bk", [IndexDirectory.from_version(str(directory), VERSION) for directory in directories])],
        part_count,
    )


def list_ledgers(
    directories: list[Path], part_count: int = 1
) -> tuple[dict[int, str], list[tuple[str, str, int | None]]]:
    """Return files by ledger, and (state, path, ledger) of all else. Paths are directory:path in current."""
    root = str(directories[0].parent) + "/"
    files: dict[int, str] = {}
    passed: list[tuple[str, str, int | None]] = []
    for part in plan(directories, part_count):
        for file in list_files(part):
            path = file.path.removeprefix(root).replace("/current/", ":")
            if isinstance(file, File):
                assert file.ledger_id not in files
                files[file.ledger_id] = path
            else:
                passed.append((file.state, path, file.ledger_id))
    return files, sorted(passed)


def put(directory: Path, *names: str) -> None:
    for name in names:
        file = directory / "current" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


ODD = (None, "0/1/notes", "0/1/2.idx", "0/1/101.idx.rloc", "00/1/5.idx", "0/01/1.idx")


@pytest.mark.parametrize("files_at_once", [1, 2, 100])
@pytest.mark.parametrize("odd", ODD)
def test_fast_listing_equals_the_detailed_listing(
    directories: list[Path], monkeypatch: pytest.MonkeyPatch, odd: str | None, files_at_once: int
) -> None:
    put(
        directories[0],
        "0/1/1.idx",
        "0/1/10001.idx",
        "0/1/ab0001.idx",
        "7/ff/7ff.idx",
        *([odd] if odd else []),
    )
    put(directories[1], "0/1/20001.idx", "7/ff/107ff.idx", "1/0/100.idx")
    monkeypatch.setattr("auditor.sources.bookies.index_files.listing.BATCH_FILES", files_at_once)
    quick = list_ledgers(directories)
    monkeypatch.setattr(index_path, "ledger_ids", lambda paths: np.full(len(paths), -1))
    assert quick == list_ledgers(directories)
    assert {1, 0x10001, 0xAB0001, 0x7FF, 0x20001, 0x107FF, 0x100} <= set(quick[0])


@pytest.mark.parametrize("part_count", [1, 3, 9])
def test_each_ledger_is_listed_once_for_any_number_of_parts(directories: list[Path], part_count: int) -> None:
    put(directories[0], "0/1/1.idx", "1/2/102.idx", "12/34/1234.idx", "cd/ef/abcdef.idx")
    put(directories[1], "0/2/2.idx", "ff/ff/7fffffffffffffff.idx")
    files, passed = list_ledgers(directories, part_count)
    assert files == {
        1: "b-first:0/1/1.idx",
        2: "a-second:0/2/2.idx",
        0x102: "b-first:1/2/102.idx",
        0x1234: "b-first:12/34/1234.idx",
        0xABCDEF: "b-first:cd/ef/abcdef.idx",
        2**63 - 1: "a-second:ff/ff/7fffffffffffffff.idx",
    }
    assert passed == []


def test_first_directory_in_configured_order_wins(directories: list[Path]) -> None:
    put(directories[0], "0/1/1.idx")
    put(directories[1], "0/1/1.idx")
    assert list_ledgers(directories) == ({1: "b-first:0/1/1.idx"}, [("stray", "a-second:0/1/1.idx", None)])
    assert list_ledgers(directories[::-1]) == (
        {1: "a-second:0/1/1.idx"},
        [("stray", "b-first:0/1/1.idx", None)],
    )


def test_relocated_index_counts_only_where_no_directory_has_the_index(directories: list[Path]) -> None:
    put(directories[0], "0/1/1.idx.rloc", "0/2/2.idx.rloc", "0/3/3.idx.rloc")
    put(directories[1], "0/2/2.idx", "0/3/3.idx.rloc")
    assert list_ledgers(directories) == (
        {1: "b-first:0/1/1.idx.rloc", 2: "a-second:0/2/2.idx", 3: "b-first:0/3/3.idx.rloc"},
        [("stray", "a-second:0/3/3.idx.rloc", None), ("stray", "b-first:0/2/2.idx.rloc", None)],
    )


def test_index_outside_its_path_is_misplaced(directories: list[Path]) -> None:
    put(directories[0], "0/2/1.idx", "7/3.idx", "0/9/4.idx.rloc", "zz/y/5.idx", "0/6/7.idx")
    put(directories[1], "0/7/7.idx")
    assert list_ledgers(directories) == (
        {7: "a-second:0/7/7.idx"},
        [
            ("misplaced", "b-first:0/2/1.idx", 1),
            ("misplaced", "b-first:0/9/4.idx.rloc", 4),
            ("misplaced", "b-first:7/3.idx", 3),
            ("misplaced", "b-first:zz/y/5.idx", 5),
            ("stray", "b-first:0/6/7.idx", None),
        ],
    )


def test_unknown_files_are_strays_and_empty_directories_are_ignored(
    directories: list[Path],
) -> None:
    own = ["BOOKIE_STATUS", "DIRTY", "lastMark.0", "lastId"]
    own += ["1f.log", "a.txn", "2.log.compacting", "2.log.1.compacted"]
    put(
        directories[0],
        *own,
        "locations/CURRENT",
        "ledgers.PREV-17/x",
        "ledgers.TEMP-17/x",
        "metadata-cache/x",
    )
    put(
        directories[0],
        "notes.txt",
        "0/0/notes.txt",
        "0/0/001.idx",
        "0/core",
        "0/0/deep/file",
        "0/0/8000000000000000.idx",
    )
    (directories[0] / "current/7f/ee").mkdir(parents=True)
    (directories[0] / "current/0/1/nothing").mkdir(parents=True)
    (directories[0] / "current/empty").mkdir()
    strays = ["notes.txt", "0/0/notes.txt", "0/0/001.idx", "0/core", "0/0/deep", "0/0/8000000000000000.idx"]
    for part_count in (1, 5):
        assert list_ledgers(directories, part_count) == (
            {},
            sorted(("stray", f"b-first:{name}", None) for name in strays),
        )


@pytest.mark.parametrize("name", ["0", "0/1"])
def test_a_directory_that_cannot_be_listed_is_a_gap(directories: list[Path], name: str) -> None:
    put(directories[1], "0/1/1.idx", "0/2/2.idx")
    planned = plan(directories)
    loop = directories[0] / "current" / name
    loop.parent.mkdir(exist_ok=True)
    loop.symlink_to(loop.name)
    found_files = list_files(IndexPart("bk", planned[0].directories, ("0",)))
    assert [file.path for file in found_files if isinstance(file, SkippedPath) and file.state == "gap"] == [
        str(loop)
    ]
    assert [file.ledger_id for file in found_files if isinstance(file, File)] == [1, 2]


def test_a_directory_that_never_had_a_version_is_listed(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "l0", None)
    put(directory, "0/1/1.idx")
    part = IndexPart("bk", (IndexDirectory(str(directory), None),), ("0",))
    assert list_files(part) == [File(1, f"{directory}/current/0/1/1.idx")]
    assert list(check_versions(part.directories)) == []


def test_index_created_after_planning_is_read_by_one_part(directories: list[Path]) -> None:
    put(directories[0], "0/1/1.idx", "1/1/101.idx", "2/1/201.idx")
    planned = plan(directories, part_count=3)
    put(directories[1], "3/1/301.idx")
    ledgers = [file.ledger_id for part in planned for file in list_files(part)]
    assert sorted(ledger for ledger in ledgers if ledger is not None) == [1, 0x101, 0x201, 0x301]


def test_number_of_parts_is_about_the_requested_number(tmp_path: Path) -> None:
    bookies = []
    for bookie, units in (("large", 30), ("small", 2), ("bare", 0)):
        directory = make_directory(tmp_path / bookie, VERSION)
        for n in range(units):
            (directory / "current" / f"{n:x}").mkdir()
        bookies.append((bookie, [IndexDirectory.from_version(str(directory), VERSION)]))
    planned = plan_parts([*bookies, ("unread", [])], part_count=8)
    assert [part.bookie_id for part in planned] == ["large"] * 8 + ["small", "bare"]
    assert max(len(part.names) for part in planned) == 4
    assert sum(len(part.names) for part in planned) == 32


def list_scoped(
    directories: list[Path], part_count: int = 1
) -> tuple[dict[LedgerId, str], list[tuple[str, str, LedgerId | None]]]:
    """Return the result of `list_ledgers` by scope and ledger."""
    root = str(directories[0].parent) + "/"
    files: dict[LedgerId, str] = {}
    passed: list[tuple[str, str, LedgerId | None]] = []
    for part in plan(directories, part_count):
        for file in list_files(part):
            path = file.path.removeprefix(root).replace("/current/", ":")
            ledger = None if file.ledger_id is None else LedgerId(file.ledger_id, file.scope_id)
            if isinstance(file, File):
                assert ledger is not None
                assert ledger not in files
                files[ledger] = path
            else:
                passed.append((file.state, path, ledger))
    return files, sorted(passed, key=lambda row: row[:2])


IN_1 = "00000000/00000001/00000000"
NEGATIVE = "ffffffff/fffffffe/80000000/00000002/8000000000000002.idx"


@pytest.mark.parametrize("part_count", [1, 9])
def test_ledgers_of_other_scopes_are_listed_with_those_of_scope_0(
    directories: list[Path], part_count: int
) -> None:
    put(directories[0], "0/2/2.idx", f"{IN_1}/00000002/2.idx", f"{IN_1}/00000003/3.idx.rloc")
    put(directories[1], f"{IN_1}/00000004/4.idx", "0/3/3.idx")
    put(directories[1], NEGATIVE)
    assert list_scoped(directories, part_count) == (
        {
            LedgerId(2): "b-first:0/2/2.idx",
            LedgerId(3): "a-second:0/3/3.idx",
            LedgerId(2, scope=1): f"b-first:{IN_1}/00000002/2.idx",
            LedgerId(3, scope=1): f"b-first:{IN_1}/00000003/3.idx.rloc",
            LedgerId(4, scope=1): f"a-second:{IN_1}/00000004/4.idx",
            LedgerId(2 - 2**63, scope=-2): f"a-second:{NEGATIVE}",
        },
        [],
    )


def test_scoped_paths_without_padding_equal_padded_paths(directories: list[Path]) -> None:
    put(directories[0], "00000000/1/0/2/2.idx", "00000000/1/00000000/3/3.idx")
    put(directories[1], f"{IN_1}/00000002/2.idx", f"{IN_1}/00000004/4.idx")
    files, passed = list_scoped(directories)
    assert files == {
        LedgerId(2, scope=1): "b-first:00000000/1/0/2/2.idx",
        LedgerId(3, scope=1): "b-first:00000000/1/00000000/3/3.idx",
        LedgerId(4, scope=1): f"a-second:{IN_1}/00000004/4.idx",
    }
    assert passed == [("stray", f"a-second:{IN_1}/00000002/2.idx", None)]


@pytest.mark.parametrize("part_count", [1, 9])
def test_first_path_step_without_padding_is_a_scope(directories: list[Path], part_count: int) -> None:
    put(directories[0], "0/1/1.idx", "0/1/0/2/2.idx", "0/1/00000000/3/3.idx", "100/0/0/4/4.idx")
    put(directories[0], "0/00000002/0/5/5.idx", "0/2/2.idx")
    put(directories[1], "0/1/0/6/6.idx.rloc", "0/1/0/2/2.idx", "f0/1/0/7/7.idx")
    # Padded and not: one ledger, whoever lists it.
    put(directories[0], "0/1/0/8/8.idx", "0/2/0/9/9.idx", "0/1/0/b/b.idx")
    put(directories[1], f"{IN_1}/00000008/8.idx", "00000000/2/0/00000009/9.idx", "00000000/1/0/a/a.idx")
    put(directories[1], f"{IN_1}/0000000b/b.idx.rloc")
    put(
        directories[0],
        "0/1/notes.txt",
        "0/1/c",
        "0/1/d/notes.txt",
        "0/0/0/e/e.idx",
        "0/1/0/2/3.idx",
        "0/1/0/f.idx",
    )
    files, passed = list_scoped(directories, part_count)
    assert files == {
        LedgerId(1): "b-first:0/1/1.idx",
        LedgerId(2): "b-first:0/2/2.idx",
        LedgerId(2, scope=1): "b-first:0/1/0/2/2.idx",
        LedgerId(3, scope=1): "b-first:0/1/00000000/3/3.idx",
        LedgerId(4, scope=0x100 << 32): "b-first:100/0/0/4/4.idx",
        LedgerId(5, scope=2): "b-first:0/00000002/0/5/5.idx",
        LedgerId(6, scope=1): "a-second:0/1/0/6/6.idx.rloc",
        LedgerId(7, scope=0xF0 << 32 | 1): "a-second:f0/1/0/7/7.idx",
        LedgerId(8, scope=1): f"a-second:{IN_1}/00000008/8.idx",
        LedgerId(9, scope=2): "a-second:00000000/2/0/00000009/9.idx",
        LedgerId(10, scope=1): "a-second:00000000/1/0/a/a.idx",
        LedgerId(11, scope=1): f"a-second:{IN_1}/0000000b/b.idx.rloc",
    }
    assert passed == [
        ("misplaced", "b-first:0/1/0/f.idx", LedgerId(15, scope=1)),
        ("stray", "a-second:0/1/0/2/2.idx", None),
        ("stray", "b-first:0/0/0", None),
        ("stray", "b-first:0/1/0/2/3.idx", None),
        ("stray", "b-first:0/1/0/8/8.idx", None),
        ("stray", "b-first:0/1/0/b/b.idx", None),
        ("stray", "b-first:0/1/c", None),
        ("stray", "b-first:0/1/d/notes.txt", None),
        ("stray", "b-first:0/1/notes.txt", None),
        ("stray", "b-first:0/2/0/9/9.idx", None),
    ]


def test_scoped_index_outside_its_path_is_misplaced_and_keeps_its_scope(directories: list[Path]) -> None:
    put(directories[0], f"{IN_1}/00000002/3.idx", f"{IN_1}/5.idx", f"{IN_1}/00000006/7.idx", f"{IN_1}/core")
    put(directories[0], f"{IN_1}/00000008/notes.txt", "00000000/notes.txt", f"{IN_1}/00000008/deep/file")
    put(directories[0], "00000000/00000000/00000000/00000009/9.idx")  # scope 0 has its own place
    # Where the server's scan finds them, they are of scope 0 to it.
    put(directories[0], "deadbeef/y/5.idx", "deadbeef/00000001/6.idx", "deadbeef/7.idx")
    put(directories[1], f"{IN_1}/00000007/7.idx")
    (directories[1] / "current" / IN_1 / "0000000a").mkdir()
    files, passed = list_scoped(directories)
    assert files == {LedgerId(7, scope=1): f"a-second:{IN_1}/00000007/7.idx"}
    assert passed == [
        ("misplaced", "b-first:00000000/00000000/00000000/00000009/9.idx", LedgerId(9)),
        ("misplaced", "b-first:00000000/00000001/00000000/00000002/3.idx", LedgerId(3, scope=1)),
        ("misplaced", "b-first:00000000/00000001/00000000/5.idx", LedgerId(5, scope=1)),
        ("misplaced", "b-first:deadbeef/00000001/6.idx", LedgerId(6)),
        ("misplaced", "b-first:deadbeef/7.idx", LedgerId(7)),
        ("misplaced", "b-first:deadbeef/y/5.idx", LedgerId(5)),
        ("stray", "b-first:00000000/00000001/00000000/00000006/7.idx", None),
        ("stray", "b-first:00000000/00000001/00000000/00000008/deep", None),
        ("stray", "b-first:00000000/00000001/00000000/00000008/notes.txt", None),
        ("stray", "b-first:00000000/00000001/00000000/core", None),
        ("stray", "b-first:00000000/notes.txt", None),
    ]


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_scoped_path_step_that_cannot_be_listed_is_a_gap(directories: list[Path], depth: int) -> None:
    put(directories[1], f"{IN_1}/00000002/2.idx")
    loop = directories[0] / "current" / "/".join(f"{IN_1}/00000002".split("/")[:depth])
    loop.parent.mkdir(parents=True, exist_ok=True)
    loop.symlink_to(loop.name)
    part = IndexPart("bk", plan(directories)[0].directories, ("00000000",))
    found_files = list_files(part)
    assert [file.path for file in found_files if isinstance(file, SkippedPath) and file.state == "gap"] == [
        str(loop)
    ]
    assert [file.ledger_id for file in found_files if isinstance(file, File)] == [2]
