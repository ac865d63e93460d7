from __future__ import annotations

from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.sources.bookies.source_kinds import BookieSources, split_sources


def make_collection(path: Path, *, finished: bool = True) -> str:
    (path / "places").mkdir(parents=True)
    (path / "places" / "part-00000.parquet").touch()
    if finished:
        (path / "collection.json").touch()
    return str(path)


def collections(*found: str) -> BookieSources:
    return BookieSources((), found, False)


def test_bookies_directories_and_inventories_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "bookies" / "bk-a").mkdir(parents=True)
    inventory = tmp_path / "bookies.toml"
    inventory.touch()
    sources = [str(tmp_path / "bookies"), str(inventory)]
    assert split_sources(sources) == BookieSources(tuple(sources), (), False)


def test_a_collection_is_known_by_its_manifest_and_an_unfinished_one_by_its_places(tmp_path: Path) -> None:
    done = make_collection(tmp_path / "done")
    begun = make_collection(tmp_path / "begun", finished=False)
    assert split_sources([done, begun]) == collections(done, begun)
    assert split_sources([f"{done}/"]) == collections(done)


def test_a_directory_of_collections_stands_for_all_of_them_by_name(tmp_path: Path) -> None:
    found = [make_collection(tmp_path / name) for name in ("a", "b")]
    begun = make_collection(tmp_path / "c", finished=False)
    (tmp_path / "lost+found").mkdir()
    assert split_sources([str(tmp_path)]) == collections(*found, begun)


def test_a_glob_stands_for_the_collections_that_match_it(tmp_path: Path) -> None:
    monday = [make_collection(tmp_path / name / "monday") for name in ("bk-a", "bk-b")]
    make_collection(tmp_path / "bk-a" / "tuesday")
    make_collection(tmp_path / ".hidden" / "monday")
    (tmp_path / "note").touch()
    assert split_sources([str(tmp_path / "*" / "monday")]) == collections(*monday)
    assert split_sources([str(tmp_path / "bk-[ac]" / "mon*")]) == collections(monday[0])


def test_a_path_that_is_there_is_no_glob_whatever_its_name(tmp_path: Path) -> None:
    odd = make_collection(tmp_path / "bk[a]")
    make_collection(tmp_path / "bka")
    assert split_sources([odd]) == collections(odd)


def test_a_uri_of_another_file_system_is_a_collection_or_several(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_collection(tmp_path / name)
    uri = tmp_path.as_uri()
    assert split_sources([f"{uri}/a"]) == collections(f"{uri}/a")
    assert split_sources([f"{uri}/"]) == collections(f"{uri}/a", f"{uri}/b")
    assert split_sources([f"{uri}/[b]"]) == collections(f"{uri}/b")


def test_kinds_may_be_mixed_and_a_collection_given_twice_counts_once(tmp_path: Path) -> None:
    one = make_collection(tmp_path / "all" / "one")
    (tmp_path / "bookies" / "bk-a").mkdir(parents=True)
    bookies = str(tmp_path / "bookies")
    found = split_sources(["rpc:", one, bookies, str(tmp_path / "all")])
    assert found == BookieSources((bookies,), (one,), True)


@pytest.mark.parametrize("path", ["bucket/collected", "bucket/*", "bucket/a/[b]"])
def test_a_password_in_a_uri_is_refused_and_not_repeated(path: str) -> None:
    for source in (f"s3://KEY:hidden@{path}", f"s3a://KEY:hid/den@{path}"):
        with pytest.raises(UsageError, match="password") as error:
            split_sources([source])
        assert "hid" not in str(error.value)


def test_what_cannot_be_meant_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "bookies" / "bk-a").mkdir(parents=True)
    for source, said in {
        "rpc:bk-a:3181": "nothing may follow rpc:",
        str(tmp_path / "gone"): "no such directory or file",
        str(tmp_path / "*.none"): "no collection matches",
        f"{tmp_path.as_uri()}/bookies": "own directories as a local path",
        f"{tmp_path.as_uri()}/gone": "no such directory or file",
        f"{tmp_path.as_uri()}/*": "no collection matches",
        "nowhere://host/path": "no file system found",
    }.items():
        with pytest.raises(UsageError, match=said) as error:
            split_sources([source])
        assert source in str(error.value)
