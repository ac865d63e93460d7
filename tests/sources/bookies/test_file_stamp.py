"""Every change of a file moves its stamp, and what could have changed unseen has none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from auditor.sources.bookies.availability import MIN_STAMP_AGE_NS, combine_stamps, compute_stamps

LATER = 60 * 10**9


def stamp_of(*paths: Path, now: int | None = None) -> int | None:
    return combine_stamps([(path.name, path.stat()) for path in paths], now or time.time_ns() + LATER)


def rewritten(path: Path) -> None:
    path.write_bytes(b"1" * 100)


def replaced(path: Path) -> None:
    """Another file of the same size and time in its place, as a restored copy is."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"1" * 100)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def set_back(path: Path) -> None:
    """Bytes changed, and the time of modification set to what it was."""
    before = path.stat()
    path.write_bytes(b"1" * 100)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1")


@pytest.mark.parametrize("change", [rewritten, replaced, set_back, longer])
def test_a_file_that_changed_has_another_stamp(tmp_path: Path, change: Callable[[Path], None]) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0" * 100)
    before = stamp_of(file)
    time.sleep(0.02)  # more than a tick of the clock that files are dated by
    assert before == stamp_of(file)
    change(file)
    assert None is not before != stamp_of(file)


def test_several_files_have_another_stamp_when_one_is_added_or_renamed(tmp_path: Path) -> None:
    one, two = tmp_path / "1.sst", tmp_path / "2.sst"
    one.touch()
    two.touch()
    both = stamp_of(one, two)
    assert both == stamp_of(two, one)
    named = [(path.name, path.stat()) for path in (one, two)]
    renamed = combine_stamps([("3.sst", named[0][1]), named[1]], time.time_ns() + LATER)
    assert len({both, stamp_of(one), stamp_of(two), stamp_of(), renamed}) == 5


@pytest.mark.parametrize("ago", [-LATER, 0, MIN_STAMP_AGE_NS - 1])
@pytest.mark.parametrize("which", ["modified", "changed"])
def test_what_was_touched_a_moment_ago_or_in_the_future_has_no_stamp(ago: int, which: str) -> None:
    now = 10**18
    times = {"modified": now - LATER, "changed": now - LATER, which: now - ago}
    found = compute_stamps([1], [1], [times["modified"]], [times["changed"]], now)
    assert found.is_valid.tolist() == [False]
    assert compute_stamps([1], [1], [now - LATER], [now - LATER], now).is_valid.tolist() == [True]


def test_one_file_of_many_that_changed_a_moment_ago_takes_the_stamp_of_all(tmp_path: Path) -> None:
    file = tmp_path / "CURRENT"
    file.touch()
    assert stamp_of(file, now=file.stat().st_ctime_ns + 1) is None


def test_stamps_of_neighbours_do_not_collide() -> None:
    count = 100_000
    inodes, sizes = np.arange(count) // 10, np.arange(count) % 10
    values = compute_stamps(inodes.tolist(), sizes.tolist(), [0] * count, [0] * count, 0).hashes
    assert len(np.unique(values)) == count
