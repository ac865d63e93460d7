"""Directories without VERSION: the file's absence, whether they are empty, and whether they have old data."""

from __future__ import annotations

from pathlib import Path

from auditor.sources.bookies.collections.collection import directory_rows, parse_places, place_rows
from auditor.sources.bookies.places import FoundDirectory, find_places


def _directories_by_name(root: Path) -> dict[str, FoundDirectory]:
    (place,) = find_places([str(root)])
    return {Path(directory.path).name: directory for directory in place.directories}


def _make_directories(root: Path) -> None:
    for name in ("empty", "filled", "stamped", "unreadable"):
        (root / "bk1" / name / "current").mkdir(parents=True)
    (root / "bk1/filled/current/0.log").touch()
    (root / "bk1/stamped/current/VERSION").write_bytes(b"5\n")
    (root / "bk1/unreadable/current/VERSION").mkdir()
    for name in ("old", "bare"):
        (root / "bk1" / name).mkdir()
    (root / "bk1/old/0.txn").touch()


def test_absent_version_file_is_distinguished_from_an_unreadable_one(tmp_path: Path) -> None:
    _make_directories(tmp_path)
    directories = _directories_by_name(tmp_path)
    absent = {name for name, directory in directories.items() if directory.version_absent}
    assert absent == {"bk1", "empty", "filled", "old", "bare"}
    assert {name: directories[name].empty for name in ("empty", "filled", "bare", "stamped")} == {
        "empty": True, "filled": False, "bare": True, "stamped": None,
    }  # fmt: skip
    assert [name for name, directory in directories.items() if directory.old_data] == ["old"]


def test_collection_of_an_older_version_has_unknown_directory_states(tmp_path: Path) -> None:
    _make_directories(tmp_path)
    places = find_places([str(tmp_path)])
    rows = directory_rows(0, places[0], {})
    assert parse_places(place_rows(places), rows) == places
    for row in rows:
        for name in ("version_absent", "empty", "old_data"):
            del row[name]
    (place,) = parse_places(place_rows(places), rows)
    assert {
        (directory.version_absent, directory.empty, directory.old_data) for directory in place.directories
    } == {(False, None, False)}
