"""Where a bookie's journals lie and from where they would be replayed, or why that cannot be said."""

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
    """A directory with ``current``; its marks were written at second 70."""
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


def test_the_greatest_mark_of_all_ledger_directories_counts(tmp_path: Path) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    directory(tmp_path / "bk-a_3181/journal", two)
    directory(tmp_path / "bk-a_3181/ledgers0", two, {"lastMark": (5000, 900), "lastMark.0": (9000, 1)})
    directory(tmp_path / "bk-a_3181/ledgers1", two, {"lastMark": (4000, 2000)})
    found = journals(tmp_path)
    [only] = found.directories
    assert (only.path, only.mark_file_id, only.mark_offset) == (
        str(tmp_path / "bk-a_3181/journal"),
        5000,
        900,
    )
    # What the older disk's index shows may be as old as its own mark.
    assert (found.gap_reason, found.index_time, found.newest_mark_ms) == (None, 4000, 70_000)


def test_each_of_several_journals_has_its_own_mark(tmp_path: Path) -> None:
    cookie = version(A, journals="/data/j0,/data/j1")
    for name in ("j0", "j1"):
        directory(tmp_path / "bk-a_3181" / name, cookie)
    marks = {"lastMark.0": (5000, 1), "lastMark.1": (3000, 2), "lastMark": (9000, 9)}
    directory(tmp_path / "bk-a_3181/ledgers0", cookie, marks)
    found = journals(tmp_path)
    assert [(Path(each.path).name, each.mark_file_id) for each in found.directories] == [
        ("j0", 5000),
        ("j1", 3000),
    ]
    assert found.index_time == 3000


def test_without_a_mark_all_is_replayed_and_nothing_dates_the_index(tmp_path: Path) -> None:
    directory(tmp_path / "bk-a_3181/journal", version(A))
    ledgers = directory(tmp_path / "bk-a_3181/ledgers0", version(A))
    (ledgers / "current/lastMark").write_bytes(bytes(15))
    found = journals(tmp_path)
    assert [(each.mark_file_id, each.mark_offset) for each in found.directories] == [(0, 0)]
    assert (found.index_time, found.clean_stop_ms) == (None, None)


def test_a_bookie_without_dirty_went_down_cleanly_when_it_wrote_its_oldest_last_mark(tmp_path: Path) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    for name in ("ledgers0", "ledgers1"):
        directory(tmp_path / "bk-a_3181" / name, two, {"lastMark": (5000, 900)})
    os.utime(tmp_path / "bk-a_3181/ledgers1/current/lastMark", (60, 60))
    found = journals(tmp_path)
    assert (found.clean_stop_ms, found.newest_mark_ms) == (60_000, 70_000)
    (tmp_path / "bk-a_3181/ledgers0/current/DIRTY").touch()
    assert journals(tmp_path).clean_stop_ms is None


TROUBLES = {
    "not in the source": (None, "journal directory /data/journal: no such directory was found"),
    "without VERSION": (b"", "has no readable VERSION file"),
    "of another bookie that nobody knows": (version("bk-z:3181"), "has bookie id bk-z:3181"),
    "of another cluster": (version(A, instance="other"), "belongs to another cluster, other"),
}


@pytest.mark.parametrize(("cookie", "reason"), TROUBLES.values(), ids=TROUBLES.keys())
def test_a_journal_directory_that_is_not_surely_the_bookies_is_not_read(
    cookie: bytes | None, reason: str, tmp_path: Path
) -> None:
    directory(tmp_path / "bk-a_3181/ledgers0", version(A), {"lastMark": (5000, 900)})
    if cookie is not None:
        directory(tmp_path / "bk-a_3181/journal", cookie or None)
    found = journals(tmp_path)
    assert found.directories == ()
    assert found.gap_reason is not None
    assert reason in found.gap_reason


def test_a_journal_that_lies_in_anothers_place_is_read_for_nobody(tmp_path: Path) -> None:
    for bookie, place, other in ((A, "bk-a_3181", B), (B, "bk-b_3181", A)):
        directory(tmp_path / place / "ledgers0", version(bookie), {"lastMark": (5000, 900)})
        directory(tmp_path / place / "journal", version(other))
    for bookie, place in ((A, "bk-b:3181"), (B, "bk-a:3181")):
        trouble = journals(tmp_path, bookie).gap_reason
        assert trouble is not None
        assert f"is at the path of bookie {place}" in trouble


def test_one_journal_of_two_that_is_missing_leaves_none_to_be_read(tmp_path: Path) -> None:
    cookie = version(A, journals="/data/j0,/data/j1")
    directory(tmp_path / "bk-a_3181/j0", cookie)
    directory(tmp_path / "bk-a_3181/ledgers0", cookie, {"lastMark.0": (5000, 1), "lastMark.1": (3000, 2)})
    found = journals(tmp_path)
    assert found.gap_reason == "journal directory /data/j1: no such directory was found"


def test_a_ledger_directory_that_is_missing_may_have_the_greatest_mark(tmp_path: Path) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    directory(tmp_path / "bk-a_3181/journal", two)
    directory(tmp_path / "bk-a_3181/ledgers0", two, {"lastMark": (5000, 900)})
    found = journals(tmp_path)
    assert found.gap_reason is not None
    assert found.gap_reason.startswith("ledger directory /data/ledgers1 (its lastMark is needed)")
    assert (found.index_time, found.clean_stop_ms) == (None, None)


def test_disks_that_name_different_journals_leave_none_to_be_read(tmp_path: Path) -> None:
    directory(tmp_path / "bk-a_3181/journal", version(A))
    directory(
        tmp_path / "bk-a_3181/ledgers0", version(A, ("ledgers0", "ledgers1")), {"lastMark": (5000, 900)}
    )
    other = version(A, ("ledgers0", "ledgers1"), journals="/data/journal,/data/more")
    directory(tmp_path / "bk-a_3181/ledgers1", other, {"lastMark": (5000, 900)})
    trouble = journals(tmp_path).gap_reason
    assert trouble is not None
    assert "the VERSION files of this bookie list different journal directories" in trouble


@pytest.mark.parametrize("spoil", [lambda mark: mark.write_bytes(b"cut"), os.mkfifo])
def test_a_mark_that_cannot_be_read_is_named_and_the_other_one_counts(
    spoil: Callable[[Path], object], tmp_path: Path
) -> None:
    two = version(A, ("ledgers0", "ledgers1"))
    directory(tmp_path / "bk-a_3181/journal", two)
    directory(tmp_path / "bk-a_3181/ledgers0", two, {"lastMark": (5000, 900)})
    spoil(directory(tmp_path / "bk-a_3181/ledgers1", two) / "current/lastMark")
    found = journals(tmp_path)
    assert found.directories_without_mark == (str(tmp_path / "bk-a_3181/ledgers1"),)
    assert (found.directories[0].mark_file_id, found.index_time, found.clean_stop_ms) == (5000, None, None)


def test_a_directory_without_a_mark_is_not_named(tmp_path: Path) -> None:
    one = version(A)
    directory(tmp_path / "bk-a_3181/journal", one)
    directory(tmp_path / "bk-a_3181/ledgers0", one)
    assert journals(tmp_path).directories_without_mark == ()
