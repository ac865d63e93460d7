from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.sources.bookies import places as bookie_places
from auditor.sources.bookies.places import DeclaredRole, find_places
from tests.sources.bookie_corpora import make_directory, unpack_bookies

VERSION = b"5\n..."


def test_each_subdirectory_is_a_place_with_the_directories_that_contain_current(tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    places = find_places([str(root)])
    assert [place.name for place in places] == [f"127.0.101.{n}_3181" for n in (1, 2, 3, 4)]
    directories = places[3].directories
    directories = tuple(directory for directory in directories if directory.has_current)
    assert [directory.parts_in_place for directory in directories] == [
        ("127.0.101.4_3181", name) for name in ("index0", "journal", "ledgers0")
    ]
    assert all(directory.version and b'"127.0.101.4:3181"' in directory.version for directory in directories)
    mark = root / "127.0.101.4_3181/ledgers0/current/lastMark"
    assert [data_directory.marked_ms for data_directory in directories] == [
        None,
        None,
        mark.stat().st_mtime_ns // 1_000_000,
    ]
    assert not any(data_directory.has_rocksdb for data_directory in directories)


def test_directories_are_found_at_any_depth_and_not_below_current(tmp_path: Path) -> None:
    place = tmp_path / "bookies" / "bk"
    make_directory(place / "data/disk1/ledgers", VERSION)
    make_directory(place / "data/disk1/ledgers/nested", VERSION)
    make_directory(place / "data/disk1/ledgers/current/0/7", VERSION)
    (place / "data/disk2/ledgers").mkdir(parents=True)
    (bookie_place,) = find_places([str(tmp_path / "bookies")])
    assert [
        "/".join(directory.parts_in_place) for directory in bookie_place.directories if directory.has_current
    ] == [
        "bk/data/disk1/ledgers",
        "bk/data/disk1/ledgers/nested",
    ]
    bare_directories = [directory for directory in bookie_place.directories if not directory.has_current]
    assert [directory.parts_in_place[-1] for directory in bare_directories] == [
        "bk",
        "data",
        "disk1",
        "disk2",
        "ledgers",
    ]
    assert {directory.version_error for directory in bare_directories} == {"No such file or directory"}


def test_links_are_followed_once_and_not_in_circles(tmp_path: Path) -> None:
    place = tmp_path / "bookies" / "bk"
    elsewhere = make_directory(tmp_path / "disk", VERSION)
    (place / "a").mkdir(parents=True)
    (place / "a/again").symlink_to(place)
    (place / "ledgers0").symlink_to(elsewhere)
    (place / "ledgers1").symlink_to(elsewhere)
    (bookie_place,) = find_places([str(tmp_path / "bookies")])
    assert [directory.parts_in_place for directory in bookie_place.directories if directory.has_current] == [
        ("bk", "ledgers0")
    ]


def test_search_depth_and_size_are_bounded_and_the_gaps_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bookies" / "bk"
    make_directory(place.joinpath(*"abcdefgh", "ledgers"), VERSION)
    (bookie_place,) = find_places([str(tmp_path / "bookies")])
    assert not any(directory.has_current for directory in bookie_place.directories)
    assert bookie_place.gaps == (
        (str(place.joinpath(*"abcdef")), f"not searched: more than 6 levels below {place}"),
    )
    monkeypatch.setattr(bookie_places, "MAX_DIRECTORIES", 3)
    (bookie_place,) = find_places([str(tmp_path / "bookies")])
    assert bookie_place.gaps == (
        (str(place / "a/b/c"), f"not searched: more than 3 directories below {place}"),
    )


def test_newest_mark_of_several_journals_counts_and_rocksdb_is_detected(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "bookies/bk/ledgers0", VERSION, marked=50.0)
    second_mark = directory / "current/lastMark.1"
    second_mark.touch()
    os.utime(second_mark, (70.25, 70.25))
    (directory / "current/locations").mkdir()
    (place,) = find_places([str(tmp_path / "bookies")])
    (ledger_directory,) = [candidate for candidate in place.directories if candidate.has_current]
    assert (ledger_directory.marked_ms, ledger_directory.has_rocksdb) == (70_250, True)


def test_inventory_directories_have_a_role_and_a_position(tmp_path: Path) -> None:
    make_directory(tmp_path / "mnt/l0", VERSION)
    inventory = tmp_path / "bookies.toml"
    inventory.write_text('[bookies."bk-a:3181"]\nledgers = ["mnt/l0", "/gone/l1"]\njournal = ["mnt/j"]\n')
    (place,) = find_places([str(inventory)])
    assert (place.name, place.names_bookie) == ("bk-a:3181", True)
    assert [(directory.declared_role, directory.has_current) for directory in place.directories] == [
        (DeclaredRole(str(tmp_path / "mnt/j"), "journal", 0, 1), False),
        (DeclaredRole(str(tmp_path / "mnt/l0"), "ledger", 0, 2), True),
        (DeclaredRole("/gone/l1", "ledger", 1, 2), False),
    ]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("bookies = 3", id="no table of bookies"),
        pytest.param("", id="empty"),
        pytest.param("[bookies.a", id="not TOML"),
        pytest.param("[bookies]\na = 1", id="a bookie that is not a table"),
        pytest.param("[bookies.a]\nledger = []", id="an unknown list"),
        pytest.param('[bookies.a]\nledgers = "x"', id="a path for a list"),
        pytest.param("[bookies.a]\nledgers = [1]", id="a number for a path"),
        pytest.param('[bookies."bad id"]\nledgers = ["x"]', id="an id that no bookie can have"),
        pytest.param('[bookies.readOnly]\nledgers = ["x"]', id="the reserved word"),
    ],
)
def test_invalid_inventory_is_a_usage_error(tmp_path: Path, content: str) -> None:
    inventory = tmp_path / "bookies.toml"
    inventory.write_text(content)
    with pytest.raises(UsageError, match=r"bookies\.toml"):
        find_places([str(inventory)])


def test_missing_source_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        find_places([str(tmp_path / "gone")])


def test_places_keep_the_order_of_their_sources(tmp_path: Path) -> None:
    for source, name in (("one", "b"), ("one", "a"), ("two", "a")):
        make_directory(tmp_path / source / name / "l0", VERSION)
    places = find_places([str(tmp_path / "two"), str(tmp_path / "one")])
    assert [place.path for place in places] == [str(tmp_path / path) for path in ("two/a", "one/a", "one/b")]


def test_empty_source_directory_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "lost+found").write_text("a file is no bookie")
    with pytest.raises(UsageError, match="check whether a disk is not mounted"):
        find_places([str(tmp_path)])
