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


def collections(*paths: str) -> BookieSources:
    return BookieSources((), paths, False)


def test_bookie_directories_and_inventories_remain_as_given(tmp_path: Path) -> None:
    (tmp_path / "bookies" / "bk-a").mkdir(parents=True)
    inventory = tmp_path / "bookies.toml"
    inventory.touch()
    sources = [str(tmp_path / "bookies"), str(inventory)]
    assert split_sources(sources) == BookieSources(tuple(sources), (), False)


def test_collections_are_recognised_by_their_manifest_or_their_places(tmp_path: Path) -> None:
    done = make_collection(tmp_path / "done")
    begun = make_collection(tmp_path / "begun", finished=False)
    assert split_sources([done, begun]) == collections(done, begun)
    assert split_sources([f"{done}/"]) == collections(done)


def test_directory_of_collections_is_replaced_by_its_collections_in_name_order(tmp_path: Path) -> None:
    finished = [make_collection(tmp_path / name) for name in ("a", "b")]
    begun = make_collection(tmp_path / "c", finished=False)
    (tmp_path / "lost+found").mkdir()
    assert split_sources([str(tmp_path)]) == collections(*finished, begun)


def test_glob_is_replaced_by_the_matching_collections(tmp_path: Path) -> None:
    monday = [make_collection(tmp_path / name / "monday") for name in ("bk-a", "bk-b")]
    make_collection(tmp_path / "bk-a" / "tuesday")
    make_collection(tmp_path / ".hidden" / "monday")
    (tmp_path / "note").touch()
    assert split_sources([str(tmp_path / "*" / "monday")]) == collections(*monday)
    assert split_sources([str(tmp_path / "bk-[ac]" / "mon*")]) == collections(monday[0])


def test_existing_path_is_not_a_glob(tmp_path: Path) -> None:
    odd = make_collection(tmp_path / "bk[a]")
    make_collection(tmp_path / "bka")
    assert split_sources([odd]) == collections(odd)


def test_uri_of_a_file_system_gives_one_or_several_collections(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_collection(tmp_path / name)
    uri = tmp_path.as_uri()
    assert split_sources([f"{uri}/a"]) == collections(f"{uri}/a")
    assert split_sources([f"{uri}/"]) == collections(f"{uri}/a", f"{uri}/b")
    assert split_sources([f"{uri}/[b]"]) == collections(f"{uri}/b")


def test_kinds_may_be_mixed_and_a_repeated_collection_counts_once(tmp_path: Path) -> None:
    collection = make_collection(tmp_path / "all" / "one")
    (tmp_path / "bookies" / "bk-a").mkdir(parents=True)
    bookies = str(tmp_path / "bookies")
    sources = split_sources(["rpc:", collection, bookies, str(tmp_path / "all")])
    assert sources == BookieSources((bookies,), (collection,), True)


@pytest.mark.parametrize("path", ["bucket/collected", "bucket/*", "bucket/a/[b]"])
def test_a_password_in_a_uri_is_refused_and_not_repeated(path: str) -> None:
    for source in (f"s3://KEY:hidden@{path}", f"s3a://KEY:hid/den@{path}"):
        with pytest.raises(UsageError, match="password") as error:
            split_sources([source])
        assert "hid" not in str(error.value)


def test_invalid_source_is_a_usage_error_with_the_source_in_its_message(tmp_path: Path) -> None:
    (tmp_path / "bookies" / "bk-a").mkdir(parents=True)
    for source, message in {
        "rpc:bk-a:3181": "nothing may follow rpc:",
        str(tmp_path / "gone"): "no such directory or file",
        str(tmp_path / "*.none"): "no collection matches",
        f"{tmp_path.as_uri()}/bookies": "own directories as a local path",
        f"{tmp_path.as_uri()}/gone": "no such directory or file",
        f"{tmp_path.as_uri()}/*": "no collection matches",
        "nowhere://host/path": "no file system found",
    }.items():
        with pytest.raises(UsageError, match=message) as error:
            split_sources([source])
        assert source in str(error.value)
