"""Bookies' indexes by the path of their directories alone, on what real bookies wrote."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import auditor
from auditor.errors import StoreError, UsageError
from auditor.sources.bookies.part_rows import SCHEMA
from auditor.sources.bookies.spark_source import UnreadPath, find_indexes, make_unread_rows
from tests.sources.bookie_corpora import DATA, unpack_bookies


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_bookies("interleaved-hier", tmp_path_factory.mktemp("by_name"))


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("dump") / "metadata.jsonl"
    path.write_bytes(gzip.decompress((DATA / "interleaved-hier" / "metadata.jsonl.gz").read_bytes()))
    return f"dump://{path}"


def ids(bookies: Path) -> set[str]:
    return {place.name.replace("_", ":") for place in bookies.iterdir()}


def test_sql_reads_indexes_by_a_path(spark: SparkSession, bookies: Path) -> None:
    auditor.register(spark)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW held USING bookkeeper_indexes "
        f"OPTIONS (bookies '{bookies}', tasks '2')"
    )
    counted = spark.sql("SELECT bookie_id, count(*) AS n FROM held WHERE state = 'ok' GROUP BY bookie_id")
    files = {
        place.name.replace("_", ":"): {path.name for path in place.rglob("*.idx")}
        for place in bookies.iterdir()
    }
    read = {row.bookie_id: row.n for row in counted.collect()}
    assert set(read) == {name for name, own in files.items() if own}
    assert all(0 < n <= len(files[name]) for name, n in read.items())


def test_a_list_of_paths_is_json_and_a_comma_is_part_of_a_path(bookies: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a, b"
    other = tmp_path / "other"
    places = sorted(bookies.iterdir())
    for target, some in ((odd, places[:2]), (other, places[2:])):
        for place in some:
            shutil.copytree(place, target / place.name)
    whole = find_indexes({"bookies": json.dumps([str(odd), str(other)])})
    assert {part.bookie_id for part in whole.index_parts} == ids(bookies)
    assert {part.bookie_id for part in find_indexes({"bookies": str(odd)}).index_parts} == ids(odd)


def test_two_swapped_disks_are_read_as_their_cookies_say(bookies: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bookies"
    shutil.copytree(bookies, copy)
    first, second = sorted(copy.iterdir())[:2]
    (first / "ledgers0").rename(tmp_path / "away")
    (second / "ledgers0").rename(first / "ledgers0")
    (tmp_path / "away").rename(second / "ledgers0")
    found = find_indexes({"bookies": str(copy)})
    owners = {each.path: part.bookie_id for part in found.index_parts for each in part.directories}
    assert owners[str(first / "ledgers0")] == second.name.replace("_", ":")
    assert owners[str(second / "ledgers0")] == first.name.replace("_", ":")


def test_a_bookie_that_is_not_whole_says_so_in_a_row_of_its_own(
    spark: SparkSession, bookies: Path, dump: str, tmp_path: Path
) -> None:
    auditor.register(spark)
    copy = tmp_path / "bookies"
    shutil.copytree(bookies, copy)
    place = next(each for each in sorted(copy.iterdir()) if (each / "ledgers1").exists())
    shutil.rmtree(place / "ledgers1")
    rows = spark.read.format("bookkeeper_indexes").options(bookies=str(copy), metadata=dump).load()
    (gap,) = rows.where("state = 'gap'").collect()
    assert gap.bookie_id == place.name.replace("_", ":")
    assert gap.ledger_id is None
    assert "index directory" in gap.reason
    assert "ledgers1" in gap.reason


def test_metadata_names_a_bookie_whose_own_cookies_are_gone(bookies: Path, dump: str, tmp_path: Path) -> None:
    copy = tmp_path / "bookies"
    shutil.copytree(bookies, copy)
    place = sorted(copy.iterdir())[0]
    name = place.name.replace("_", ":")
    for version in place.rglob("VERSION"):
        version.unlink()
    (alone,) = {each.bookie_id for each in find_indexes({"bookies": str(copy)}).unread_paths}
    assert alone is None
    (told,) = {each.bookie_id for each in find_indexes({"bookies": str(copy), "metadata": dump}).unread_paths}
    assert told == name


def test_what_nobody_owns_is_a_gap_of_nobody() -> None:
    (row,) = make_unread_rows([UnreadPath(None, "/disk", "broken")]).to_pylist()
    assert set(row) == set(SCHEMA.names)
    assert Row(**row) == Row(
        **dict.fromkeys(SCHEMA.names) | {"state": "gap", "path": "/disk", "reason": "broken"}
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "bookkeeper_indexes: set the option bookies to a directory"),
        ({"bookies": "/", "thread": "1"}, "thread: no such option. Valid options: bookies, metadata"),
        ({"parts": "[]", "bookies": "/"}, "parts: no such option"),
        ({"bookies": "/no/such"}, "/no/such: no such directory"),
        ({"bookies": "[/no/such]"}, "neither a path nor a JSON list of paths"),
        ({"bookies": "[]"}, "not a JSON list of strings"),
        ({"bookies": "[1]"}, "not a JSON list of strings"),
        ({"bookies": "rpc:"}, "rpc: works only in an audit"),
        ({"bookies": "/dev", "tasks": "none"}, "tasks: 'none' is not a number of 1 or more"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find_indexes(options)


def test_metadata_that_cannot_be_read_is_an_error(bookies: Path) -> None:
    with pytest.raises(StoreError, match="no/such"):
        find_indexes({"bookies": str(bookies), "metadata": "dump:///no/such.jsonl"})
