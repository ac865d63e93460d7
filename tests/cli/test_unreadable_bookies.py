"""``--bookies`` that this user may not read: exit code 4, with the path and the system's error text."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.errors import FileSystemError
from auditor.sources.bookies.source_kinds import split_sources
from tests.cli.test_doors import bkaudit
from tests.corpora.cluster import Cluster
from tests.servers.nobody import as_nobody, make_reachable

BOOKIES = ("bk-a:3181", "bk-b:3181")
COMMANDS = {
    "collect": ("collect", "--out", "{place}/new/out"),
    "audit": ("audit", "--metadata", "dump://{place}/metadata.jsonl", "--out", "{place}/new/out"),
    "doctor": ("doctor", "--metadata", "dump://{place}/metadata.jsonl"),
}
MODES = {"neither listed nor entered": 0, "not listed": 0o311, "not entered": 0o644}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    cluster = Cluster()
    for bookie in BOOKIES:
        cluster.bookie(bookie)
    cluster.ledger(1, {0: list(BOOKIES)}, (2, 2), 9)
    cluster.write(tmp_path)
    (tmp_path / "new").mkdir()
    make_reachable(tmp_path)
    (tmp_path / "new").chmod(0o777)
    return tmp_path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", COMMANDS)
def test_unreadable_directory_of_bookies_is_a_file_system_error(place: Path, command: str, mode: str) -> None:
    words = [word.format(place=place) for word in COMMANDS[command]]
    bookies = place / "bookies"
    if command == "doctor":  # modules that lie where nobody else may look are loaded first
        assert bkaudit(*words, "--bookies", str(bookies)).exit_code == 0
    bookies.chmod(MODES[mode])
    with as_nobody():
        ended = bkaudit(*words, "--bookies", str(bookies))
    bookies.chmod(0o755)
    assert ended.exit_code == 4, ended.output
    assert ended.stderr == f"bkaudit: --bookies {bookies}: Permission denied\n"


def test_one_unreadable_bookie_is_unread_and_the_others_are_read(place: Path) -> None:
    bookie = place / "bookies" / "bk-a_3181"
    # Modules that lie where nobody else may look are loaded first.
    assert (
        bkaudit("collect", "--bookies", str(place / "bookies"), "--out", str(place / "first")).exit_code == 0
    )
    bookie.chmod(0)
    with as_nobody():
        ended = bkaudit("collect", "--bookies", str(place / "bookies"), "--out", str(place / "new" / "out"))
    bookie.chmod(0o755)
    assert ended.exit_code == 3, ended.output
    assert f"bkaudit: not read: {bookie}: Permission denied\n" in ended.stderr


def test_unreadable_collection_among_others_is_a_file_system_error(place: Path) -> None:
    collections = place / "new" / "collections"
    collections.mkdir()
    for name in ("a", "b"):
        ended = bkaudit("collect", "--bookies", str(place / "bookies"), "--out", str(collections / name))
        assert ended.exit_code == 0, ended.output
    (collections / "a").chmod(0)
    with as_nobody(), pytest.raises(FileSystemError, match=r"collections: Permission denied"):
        split_sources([str(collections)])
    (collections / "a").chmod(0o755)
    assert split_sources([str(collections)]).collections == (f"{collections}/a", f"{collections}/b")
