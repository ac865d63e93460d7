"""Resources that test processes share: one process makes each, and no process sees one half made."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.corpora.shared import Corpora, make_once


def test_directory_is_built_once_and_every_caller_sees_it_complete(tmp_path: Path) -> None:
    made_paths: list[Path] = []

    def make(place: Path) -> None:
        made_paths.append(place)
        (place / "first").touch()
        time.sleep(0.1)
        (place / "last").touch()

    def want(_: int) -> list[str]:
        # Locks are of open files: threads wait for each other as processes do.
        return sorted(path.name for path in make_once(tmp_path / "shared", "run", make).iterdir())

    with ThreadPoolExecutor(4) as pool:
        listings = list(pool.map(want, range(4)))
    assert listings == [["first", "last"]] * 4
    assert made_paths == [tmp_path / "shared" / "run"]


def test_directory_of_a_failed_build_is_built_again(tmp_path: Path) -> None:
    def fail(place: Path) -> None:
        (place / "half").touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        make_once(tmp_path, "run", fail)
    place = make_once(tmp_path, "run", lambda place: (place / "whole").touch())
    assert [path.name for path in place.iterdir()] == ["whole"]


def test_second_corpora_object_reuses_the_unpacked_corpus(tmp_path: Path) -> None:
    first, second = Corpora(tmp_path).get("flat-v1"), Corpora(tmp_path).get("flat-v1")
    assert first == second
    assert first.dump.stat().st_mtime_ns == second.dump.stat().st_mtime_ns
