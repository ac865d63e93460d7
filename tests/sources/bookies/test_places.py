from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.sources.bookies import places as bookie_places
from auditor.sources.bookies.places import DeclaredRole, find_places
from tests.sources.bookie_corpora import make_directory, unpack_bookies

VERSION = b"5\n..."


def test_each_sub_directory_is_a_place_and_each_current_a_directory(tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    places = find_places([str(root)])
    assert [place.name for place in places] == [f"127.0.101.{n}_3181" for n in (1, 2, 3, 4)]
    found = places[3].directories
    found = tuple(directory for directory in found if directory.has_current)
    assert [directory.parts_in_place for directory in found] == [
        ("127.0.101.4_3181", name) for name in ("index0", "journal", "ledgers0")
    ]
    assert all(directory.version and b'"127.0.101.4:3181"' in directory.version for directory in found)
    mark = root / "127.0.101.4_3181/ledgers0/current/lastMark"
    assert [each.marked_ms for each in found] == [None, None, mark.stat().st_mtime_ns // 1_000_000]
    assert not any(each.has_rocksdb for each in found)


def test_directories_are_found_at_any_depth_and_none_below_current(tmp_path: Path) -> None:
    place = tmp_path / "bookies" / "bk"
    make_directory(place / "data/disk1/ledgers", VERSION)
    make_directory(place / "data/disk1/ledgers/nested", VERSION)
    make_directory(place / "data/disk1/ledgers/current/0/7", VERSION)
    (place / "data/disk2/ledgers").mkdir(parents=True)
    (found,) = find_places([str(tmp_path / "bookies")])
    assert ["/".join(each.parts_in_place) for each in found.directories if each.has_current] == [
        "bk/data/disk1/ledgers",
        "bk/data/disk1/ledgers/nested",
    ]
    others = [each for each in found.directories if not each.has_current]
    assert [each.parts_in_place[-1] for each in others] == ["bk", "data", "disk1", "disk2", "ledgers"]
    assert {each.version_error for each in others} == {"No such file or directory"}


def test_links_are_followed_once_and_never_in_circles(tmp_path: Path) -> None:
    place = tmp_path / "bookies" / "bk"
    elsewhere = make_directory(tmp_path / "disk", VERSION)
    (place / "a").mkdir(parents=True)
    (place / "a/again").symlink_to(place)
    (place / "ledgers0").symlink_to(elsewhere)
    (place / "ledgers1").symlink_to(elsewhere)
    (found,) = find_places([str(tmp_path / "bookies")])
    assert [each.parts_in_place for each in found.directories if each.has_current] == [("bk", "ledgers0")]


def test_the_walk_is_bounded_and_says_what_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bookies" / "bk"
    make_directory(place.joinpath(*"abcdefgh", "ledgers"), VERSION)
    (found,) = find_places([str(tmp_path / "bookies")])
    assert not any(each.has_current for each in found.directories)
    assert found.gaps == (
        (str(place.joinpath(*"abcdef")), f"not searched: more than 6 levels below {place}"),
    )
    monkeypatch.setattr(bookie_places, "MAX_DIRECTORIES", 3)
    (found,) = find_places([str(tmp_path / "bookies")])
    assert found.gaps == ((str(place / "a/b/c"), f"not searched: more than 3 directories below {place}"),)


def test_the_newest_mark_of_several_journals_counts_and_rocksdb_is_seen(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "bookies/bk/ledgers0", VERSION, marked=50.0)
    other = directory / "current/lastMark.1"
    other.touch()
    os.utime(other, (70.25, 70.25))
    (directory / "current/locations").mkdir()
    (place,) = find_places([str(tmp_path / "bookies")])
    (found,) = [each for each in place.directories if each.has_current]
    assert (found.marked_ms, found.has_rocksdb) == (70_250, True)


def test_an_inventory_names_directories_with_role_and_position(tmp_path: Path) -> None:
    make_directory(tmp_path / "mnt/l0", VERSION)
    inventory = tmp_path / "bookies.toml"
    inventory.write_text('[bookies."bk-a:3181"]\nledgers = ["mnt/l0", "/gone/l1"]\njournal = ["mnt/j"]\n')
    (place,) = find_places([str(inventory)])
    assert (place.name, place.names_bookie) == ("bk-a:3181", True)
    assert [(each.declared_role, each.has_current) for each in place.directories] == [
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
def test_an_inventory_that_cannot_be_meant_is_a_usage_error(tmp_path: Path, content: str) -> None:
    inventory = tmp_path / "bookies.toml"
    inventory.write_text(content)
    with pytest.raises(UsageError, match=r"bookies\.toml"):
        find_places([str(inventory)])


def test_a_source_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        find_places([str(tmp_path / "gone")])


def test_several_sources_are_taken_in_the_order_given(tmp_path: Path) -> None:
    for source, name in (("one", "b"), ("one", "a"), ("two", "a")):
        make_directory(tmp_path / source / name / "l0", VERSION)
    places = find_places([str(tmp_path / "two"), str(tmp_path / "one")])
    assert [place.path for place in places] == [str(tmp_path / path) for path in ("two/a", "one/a", "one/b")]


def test_an_empty_directory_is_no_source_of_bookies(tmp_path: Path) -> None:
    (tmp_path / "lost+found").write_text("a file is no bookie")
    with pytest.raises(UsageError, match="check whether a disk is not mounted"):
        find_places([str(tmp_path)])
