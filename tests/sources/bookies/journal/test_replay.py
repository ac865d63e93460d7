"""Tests of the places of a bookie's journals and of the start of their replay, or why it is unknown."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from auditor.sources.bookies.journal.files import Journals
from auditor.sources.bookies.owners import attribute_directories
from auditor.sources.bookies.places import find_places

A, B = "bk-a:3181", "bk-b:3181"
CLUSTER = "cluster"


def version(
    bookie: str,
    ledgers: tuple[str, ...] = ("ledgers0",),
    journals: str = "/data/journal",
    instance: str = CLUSTER,
) -> bytes:
    dirs = "\\t".join([str(len(ledgers)), *(f"/data/{name}" for name in ledgers)])
    lines = [f'bookieHost: "{bookie}"', f'journalDir: "{journals}"', f'ledgerDirs: "{dirs}"']
    return "\n".join(["5", *lines, f'instanceId: "{instance}"', ""]).encode()


def directory(path: Path, cookie: bytes | None, marks: dict[str, tuple[int, int]] | None = None) -> Path:
    """Make a directory with ``current``, and marks written at second 70."""
    current = path / "current"
    current.mkdir(parents=True)
    if cookie is not None:
        (current / "VERSION").write_bytes(cookie)
    for name, mark in (marks or {}).items():
        (current / name).write_bytes(struct.pack(">qq", *mark))
        os.utime(current / name, (70, 70))
    return path


def journals(root: Path, bookie: str = A) -> Journals:
    return attribute_directories(find_places([str(root)]), {A, B}, {}, CLUSTER).bookies[bookie].journals


def test_greatest_mark_of_all_ledger_directories_counts(tmp_path: Path) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    directory(tmp_path / "bk-a_3181/journal", two)
    directory(tmp_path / "bk-a_3181/ledgers0", two, {"lastMark": (5000, 900), "lastMark.0": (9000, 1)})
    directory(tmp_path / "bk-a_3181/ledgers1", two, {"lastMark": (4000, 2000)})
    result = journals(tmp_path)
    [only] = result.directories
    assert (only.path, only.mark_file_id, only.mark_offset) == (
        str(tmp_path / "bk-a_3181/journal"),
        5000,
        900,
    )
    # What the older disk's index shows may be as old as its own mark.
    assert (result.gap_reason, result.index_time, result.newest_mark_ms) == (None, 4000, 70_000)


def test_each_of_several_journals_has_its_own_mark(tmp_path: Path) -> None:
    cookie = version(A, journals="/data/j0,/data/j1")
    for name in ("j0", "j1"):
        directory(tmp_path / "bk-a_3181" / name, cookie)
    marks = {"lastMark.0": (5000, 1), "lastMark.1": (3000, 2), "lastMark": (9000, 9)}
    directory(tmp_path / "bk-a_3181/ledgers0", cookie, marks)
    result = journals(tmp_path)
    assert [(Path(journal.path).name, journal.mark_file_id) for journal in result.directories] == [
        ("j0", 5000),
        ("j1", 3000),
    ]
    assert result.index_time == 3000


def test_without_a_mark_all_journals_are_replayed_and_the_index_has_no_time(tmp_path: Path) -> None:
    directory(tmp_path / "bk-a_3181/journal", version(A))
    ledgers = directory(tmp_path / "bk-a_3181/ledgers0", version(A))
    (ledgers / "current/lastMark").write_bytes(bytes(15))
    result = journals(tmp_path)
    assert [(journal.mark_file_id, journal.mark_offset) for journal in result.directories] == [(0, 0)]
    assert (result.index_time, result.clean_stop_ms) == (None, None)


def test_clean_stop_time_is_that_of_the_oldest_mark_without_a_dirty_file(tmp_path: Path) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    for name in ("ledgers0", "ledgers1"):
        directory(tmp_path / "bk-a_3181" / name, two, {"lastMark": (5000, 900)})
    os.utime(tmp_path / "bk-a_3181/ledgers1/current/lastMark", (60, 60))
    result = journals(tmp_path)
    assert (result.clean_stop_ms, result.newest_mark_ms) == (60_000, 70_000)
    (tmp_path / "bk-a_3181/ledgers0/current/DIRTY").touch()
    assert journals(tmp_path).clean_stop_ms is None


GAP_REASONS = {
    "not in the source": (None, "journal directory /data/journal: no such directory was found"),
    "without VERSION": (b"", "has no readable VERSION file"),
    "of another bookie that nobody knows": (version("bk-z:3181"), "has bookie id bk-z:3181"),
    "of another cluster": (version(A, instance="other"), "belongs to another cluster, other"),
}


@pytest.mark.parametrize(("cookie", "reason"), GAP_REASONS.values(), ids=GAP_REASONS.keys())
def test_journal_directory_of_uncertain_owner_is_not_read(
    cookie: bytes | None, reason: str, tmp_path: Path
) -> None:
    directory(tmp_path / "bk-a_3181/ledgers0", version(A), {"lastMark": (5000, 900)})
    if cookie is not None:
        directory(tmp_path / "bk-a_3181/journal", cookie or None)
    result = journals(tmp_path)
    assert result.directories == ()
    assert result.gap_reason is not None
    assert reason in result.gap_reason


def test_journal_in_the_place_of_another_bookie_is_not_read(tmp_path: Path) -> None:
    for bookie, place, other_bookie in ((A, "bk-a_3181", B), (B, "bk-b_3181", A)):
        directory(tmp_path / place / "ledgers0", version(bookie), {"lastMark": (5000, 900)})
        directory(tmp_path / place / "journal", version(other_bookie))
    for bookie, place in ((A, "bk-b:3181"), (B, "bk-a:3181")):
        trouble = journals(tmp_path, bookie).gap_reason
        assert trouble is not None
        assert f"is at the path of bookie {place}" in trouble


def test_missing_journal_of_two_is_a_gap(tmp_path: Path) -> None:
    cookie = version(A, journals="/data/j0,/data/j1")
    directory(tmp_path / "bk-a_3181/j0", cookie)
    directory(tmp_path / "bk-a_3181/ledgers0", cookie, {"lastMark.0": (5000, 1), "lastMark.1": (3000, 2)})
    result = journals(tmp_path)
    assert result.gap_reason == "journal directory /data/j1: no such directory was found"


def test_missing_ledger_directory_is_a_gap_because_of_its_mark(tmp_path: Path) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    directory(tmp_path / "bk-a_3181/journal", two)
    directory(tmp_path / "bk-a_3181/ledgers0", two, {"lastMark": (5000, 900)})
    result = journals(tmp_path)
    assert result.gap_reason is not None
    assert result.gap_reason.startswith("ledger directory /data/ledgers1 (its lastMark is needed)")
    assert (result.index_time, result.clean_stop_ms) == (None, None)


def test_different_journal_lists_in_version_files_are_a_gap(tmp_path: Path) -> None:
    directory(tmp_path / "bk-a_3181/journal", version(A))
    directory(
        tmp_path / "bk-a_3181/ledgers0", version(A, ("ledgers0", "ledgers1")), {"lastMark": (5000, 900)}
    )
    other_version = version(A, ("ledgers0", "ledgers1"), journals="/data/journal,/data/more")
    directory(tmp_path / "bk-a_3181/ledgers1", other_version, {"lastMark": (5000, 900)})
    trouble = journals(tmp_path).gap_reason
    assert trouble is not None
    assert "the VERSION files of this bookie list different journal directories" in trouble


@pytest.mark.parametrize("spoil", [lambda mark: mark.write_bytes(b"cut"), os.mkfifo])
def test_unreadable_mark_is_named_and_the_other_mark_counts(
    spoil: Callable[[Path], object], tmp_path: Path
) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    directory(tmp_path / "bk-a_3181/journal", two)
    directory(tmp_path / "bk-a_3181/ledgers0", two, {"lastMark": (5000, 900)})
    spoil(directory(tmp_path / "bk-a_3181/ledgers1", two) / "current/lastMark")
    result = journals(tmp_path)
    assert result.directories_without_mark == (str(tmp_path / "bk-a_3181/ledgers1"),)
    assert (result.directories[0].mark_file_id, result.index_time, result.clean_stop_ms) == (5000, None, None)


def test_directory_without_a_mark_file_is_not_named(tmp_path: Path) -> None:
    cookie = version(A)
    directory(tmp_path / "bk-a_3181/journal", cookie)
    directory(tmp_path / "bk-a_3181/ledgers0", cookie)
    assert journals(tmp_path).directories_without_mark == ()
