"""Tests that read bookies' indexes by only the path of their directories, on data of real bookies."""

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


def bookie_ids(bookies: Path) -> set[str]:
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


def test_json_list_of_paths_is_split_and_a_comma_stays_in_a_path(bookies: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a, b"
    plain = tmp_path / "other"
    places = sorted(bookies.iterdir())
    for target, subset in ((odd, places[:2]), (plain, places[2:])):
        for place in subset:
            shutil.copytree(place, target / place.name)
    whole = find_indexes({"bookies": json.dumps([str(odd), str(plain)])})
    assert {part.bookie_id for part in whole.index_parts} == bookie_ids(bookies)
    assert {part.bookie_id for part in find_indexes({"bookies": str(odd)}).index_parts} == bookie_ids(odd)


def test_swapped_disks_are_attributed_by_their_cookies(bookies: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bookies"
    shutil.copytree(bookies, copy)
    first, second = sorted(copy.iterdir())[:2]
    (first / "ledgers0").rename(tmp_path / "away")
    (second / "ledgers0").rename(first / "ledgers0")
    (tmp_path / "away").rename(second / "ledgers0")
    indexes = find_indexes({"bookies": str(copy)})
    owners = {
        directory.path: part.bookie_id for part in indexes.index_parts for directory in part.directories
    }
    assert owners[str(first / "ledgers0")] == second.name.replace("_", ":")
    assert owners[str(second / "ledgers0")] == first.name.replace("_", ":")


def test_bookie_without_an_index_directory_gets_one_gap_row(
    spark: SparkSession, bookies: Path, dump: str, tmp_path: Path
) -> None:
    auditor.register(spark)
    copy = tmp_path / "bookies"
    shutil.copytree(bookies, copy)
    place = next(path for path in sorted(copy.iterdir()) if (path / "ledgers1").exists())
    shutil.rmtree(place / "ledgers1")
    rows = spark.read.format("bookkeeper_indexes").options(bookies=str(copy), metadata=dump).load()
    (gap,) = rows.where("state = 'gap'").collect()
    assert gap.bookie_id == place.name.replace("_", ":")
    assert gap.ledger_id is None
    assert "index directory" in gap.reason
    assert "ledgers1" in gap.reason


def test_metadata_identifies_a_bookie_without_cookies(bookies: Path, dump: str, tmp_path: Path) -> None:
    copy = tmp_path / "bookies"
    shutil.copytree(bookies, copy)
    place = sorted(copy.iterdir())[0]
    name = place.name.replace("_", ":")
    for version in place.rglob("VERSION"):
        version.unlink()
    (unnamed_id,) = {
        unread_path.bookie_id for unread_path in find_indexes({"bookies": str(copy)}).unread_paths
    }
    assert unnamed_id is None
    (named_id,) = {
        unread_path.bookie_id
        for unread_path in find_indexes({"bookies": str(copy), "metadata": dump}).unread_paths
    }
    assert named_id == name


def test_gap_without_an_owner_has_no_bookie_id() -> None:
    (row,) = make_unread_rows([UnreadPath(None, "/disk", "broken")]).to_pylist()
    assert set(row) == set(SCHEMA.names)
    assert Row(**row) == Row(
        **dict.fromkeys(SCHEMA.names) | {"state": "gap", "path": "/disk", "reason": "broken"}
    )


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_invalid_options_are_usage_errors(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_indexes(options)


def test_unreadable_metadata_is_an_error(bookies: Path) -> None:
    with pytest.raises(StoreError, match="no/such"):
        find_indexes({"bookies": str(bookies), "metadata": "dump:///no/such.jsonl"})
