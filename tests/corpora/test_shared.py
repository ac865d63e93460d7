"""What processes of tests share is made by one of them, and never seen half made."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.corpora.shared import Corpora, made_once


def test_a_directory_is_made_once_and_whole_for_all_who_want_it(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(place: Path) -> None:
        made.append(place)
        (place / "first").touch()
        time.sleep(0.1)
        (place / "last").touch()

    def want(_: int) -> list[str]:
        # Locks are of open files: threads wait for each other as processes do.
        return sorted(path.name for path in made_once(tmp_path / "shared", "run", make).iterdir())

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(want, range(4)))
    assert seen == [["first", "last"]] * 4
    assert made == [tmp_path / "shared" / "run"]


def test_what_failed_half_way_is_made_anew(tmp_path: Path) -> None:
    def fail(place: Path) -> None:
        (place / "half").touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        made_once(tmp_path, "run", fail)
    place = made_once(tmp_path, "run", lambda place: (place / "whole").touch())
    assert [path.name for path in place.iterdir()] == ["whole"]


def test_a_corpus_that_another_process_laid_out_is_the_same(tmp_path: Path) -> None:
    first, second = Corpora(tmp_path).of("flat-v1"), Corpora(tmp_path).of("flat-v1")
    assert first == second
    assert first.dump.stat().st_mtime_ns == second.dump.stat().st_mtime_ns
