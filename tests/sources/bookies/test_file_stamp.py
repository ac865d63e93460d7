"""Tests that every change of a file changes its stamp, and that a possible unseen change gives no stamp."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from auditor.sources.bookies.availability import MIN_STAMP_AGE_NS, combine_stamps, compute_stamps

LATER_NS = 60 * 10**9


def stamp_of(*paths: Path, now_ns: int | None = None) -> int | None:
    return combine_stamps([(path.name, path.stat()) for path in paths], now_ns or time.time_ns() + LATER_NS)


def rewrite(path: Path) -> None:
    path.write_bytes(b"1" * 100)


def replace_file(path: Path) -> None:
    """Replace a file by another of the same size and time, as a restored copy is."""
    before = path.stat()
    new_file = path.with_name("other")
    new_file.write_bytes(b"1" * 100)
    os.utime(new_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    new_file.replace(path)


def rewrite_with_old_time(path: Path) -> None:
    """Change the bytes of a file and set its modification time back to the old value."""
    before = path.stat()
    path.write_bytes(b"1" * 100)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def append_byte(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1")


@pytest.mark.parametrize("change", [rewrite, replace_file, rewrite_with_old_time, append_byte])
def test_a_file_that_changed_has_another_stamp(tmp_path: Path, change: Callable[[Path], None]) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0" * 100)
    before = stamp_of(file)
    time.sleep(0.02)  # more than a tick of the clock that files are dated by
    assert before == stamp_of(file)
    change(file)
    assert None is not before != stamp_of(file)


def test_stamp_of_several_files_changes_when_a_file_is_added_or_renamed(tmp_path: Path) -> None:
    first, second = tmp_path / "1.sst", tmp_path / "2.sst"
    first.touch()
    second.touch()
    pair_stamp = stamp_of(first, second)
    assert pair_stamp == stamp_of(second, first)
    name_stats = [(path.name, path.stat()) for path in (first, second)]
    renamed = combine_stamps([("3.sst", name_stats[0][1]), name_stats[1]], time.time_ns() + LATER_NS)
    assert len({pair_stamp, stamp_of(first), stamp_of(second), stamp_of(), renamed}) == 5


@pytest.mark.parametrize("ago", [-LATER_NS, 0, MIN_STAMP_AGE_NS - 1])
@pytest.mark.parametrize("which", ["modified", "changed"])
def test_file_with_a_recent_or_future_time_has_no_stamp(ago: int, which: str) -> None:
    now_ns = 10**18
    times = {"modified": now_ns - LATER_NS, "changed": now_ns - LATER_NS, which: now_ns - ago}
    stamps = compute_stamps([1], [1], [times["modified"]], [times["changed"]], now_ns)
    assert stamps.is_valid.tolist() == [False]
    assert compute_stamps([1], [1], [now_ns - LATER_NS], [now_ns - LATER_NS], now_ns).is_valid.tolist() == [
        True
    ]


def test_file_changed_just_now_has_no_stamp(tmp_path: Path) -> None:
    file = tmp_path / "CURRENT"
    file.touch()
    assert stamp_of(file, now_ns=file.stat().st_ctime_ns + 1) is None


def test_stamps_of_similar_files_do_not_collide() -> None:
    count = 100_000
    inodes, sizes = np.arange(count) // 10, np.arange(count) % 10
    values = compute_stamps(inodes.tolist(), sizes.tolist(), [0] * count, [0] * count, 0).hashes
    assert len(np.unique(values)) == count
