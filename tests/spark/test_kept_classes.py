"""Class archives that the servers of one test leave for the next: only complete ones are used."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from auditor.embedded.zookeeper import zookeeper_jars
from auditor.spark.java import find_java
from tests.servers.java import SHORT_LIVED, KeptClasses

pytestmark = pytest.mark.server

MAIN = "org.apache.zookeeper.version.VersionInfoMain"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "bookkeeper-auditor"


def run(classes: KeptClasses, class_path: str) -> str:
    """Run a program in Java with these classes, and return its output."""
    command = [str(find_java().executable), *SHORT_LIVED, *classes.options(), "-cp", class_path, MAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def truncate(archive: Path) -> None:
    os.truncate(archive, archive.stat().st_size // 2)


def delete_archive(archive: Path) -> None:
    archive.unlink()


def leave_unchanged(archive: Path) -> None:
    """Leave the archive as a process that ended normally leaves it."""


@pytest.mark.parametrize(
    ("harm", "archive_count"), [(leave_unchanged, 1), (truncate, 0), (delete_archive, 0)]
)
def test_archive_is_stored_only_if_complete(
    harm: Callable[[Path], None], archive_count: int, cache: Path
) -> None:
    jars = os.pathsep.join(map(str, zookeeper_jars()))
    classes = KeptClasses(MAIN, jars)
    output = run(classes, jars)
    assert classes.awaited
    [archive] = cache.glob("*/classes.jsa")
    archive.chmod(0o600)
    harm(archive)
    classes.keep()
    assert not classes.awaited
    assert len(list(cache.glob("classes-*.jsa"))) == archive_count
    assert list(cache.glob("*/")) == []
    again = KeptClasses(MAIN, jars)
    assert any("SharedArchiveFile" in option for option in again.options()) == bool(archive_count)
    assert run(KeptClasses(MAIN, jars), jars) == output
