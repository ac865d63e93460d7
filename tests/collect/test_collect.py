"""Collections of real bookies' directories, and messages about incomplete directories."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from auditor.codecs.bookie.last_mark import LastMark
from auditor.collect.collect import VERSIONS_SCHEMA, collect
from auditor.errors import UsageError
from auditor.sources.bookies.collections.collection import (
    DIRECTORIES_SCHEMA,
    PLACES_SCHEMA,
    Collection,
    parse_places,
)
from auditor.sources.bookies.collections.tables import INDEX_SCHEMA
from auditor.sources.bookies.entry_logs import rows as entry_logs
from auditor.sources.bookies.owners import attribute_directories
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import plan_parts
from auditor.sources.bookies.places import find_places
from tests.codecs.bookie.test_entry_log import HEADER, MAP, MAP_AT, filled
from tests.sources.bookie_corpora import cookie, make_directory, unpack_bookies

SCHEMAS = {
    "places": PLACES_SCHEMA,
    "directories": DIRECTORIES_SCHEMA,
    "cookies": VERSIONS_SCHEMA,
    "availability": INDEX_SCHEMA,
    "entry_logs": entry_logs.SCHEMA,
}


def rows_of(collection: str | Path, table: str) -> list[dict[str, Any]]:
    source = Collection(str(collection))
    return list(source.read_rows(table, source.manifest()))


def read_on_disk(root: Path) -> list[dict[str, Any]]:
    """Return the index rows of the bookies below ``root``, by cookie bookie id, as an audit reads them."""
    places = find_places([str(root)])
    cookie_ids = {row.cookie_bookie_id for row in attribute_directories(places, set(), {}, None).directories}
    bookies = attribute_directories(places, {bookie for bookie in cookie_ids if bookie}, {}, None).bookies
    planned = plan_parts([(bookie.bookie_id, bookie.index_directories) for bookie in bookies.values()], 4)
    return [row for part in planned for batch in read_part(part) for row in batch.to_pylist()]


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows sorted and without stamps: a file gets a stamp only some time after it was written."""
    return sorted(({name: row[name] for name in row if name != "stamp"} for row in rows), key=repr)


@pytest.mark.parametrize("corpus", ["flat-v1", "interleaved-hier"])
def test_collected_rows_match_the_disks_and_the_disks_are_unchanged(corpus: str, tmp_path: Path) -> None:
    root = unpack_bookies(corpus, tmp_path)
    before = {path: path.stat() for path in root.rglob("*")}
    collected = collect([str(root)], str(tmp_path / "out"))
    rows = rows_of(tmp_path / "out", "availability")
    pieces = {row.pop("piece") for row in rows}
    assert sorted_rows(rows) == sorted_rows(read_on_disk(root))
    assert len(rows) == collected.manifest.rows("availability") > 80
    assert len(pieces) == 4
    assert all(re.fullmatch(f"{collected.manifest.id}:[0-9]+", piece) for piece in pieces)
    for table, schema in SCHEMAS.items():
        for file in collected.manifest.tables[table]:
            file_table = pq.read_table(tmp_path / "out" / file.path)
            assert file_table.schema.equals(schema)
            assert file_table.num_rows == file.rows
    # Nothing was written, not even a time of last access that a reader could help.
    after = {path: path.stat() for path in root.rglob("*")}
    assert {path: (s.st_mtime_ns, s.st_size, s.st_mode) for path, s in after.items()} == {
        path: (s.st_mtime_ns, s.st_size, s.st_mode) for path, s in before.items()
    }


def test_damaged_indexes_are_rows_and_are_reported(tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    collected = collect([str(root)], str(tmp_path / "out"))
    states = [row["state"] for row in rows_of(tmp_path / "out", "availability")]
    assert collected.unread_count == len(states) - states.count("ok") - states.count("stray") == 5
    assert any("0/4/4.idx: ends inside a slot" in line for line in collected.unread_lines)


def test_manifest_has_the_time_the_sources_and_the_row_counts(tmp_path: Path) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    first = collect([str(root)], str(tmp_path / "one"))
    second = collect([str(root)], str(tmp_path / "two"))
    assert first.manifest.id != second.manifest.id
    assert first.manifest.made <= first.manifest.finished <= second.manifest.made
    manifest = json.loads((tmp_path / "one" / "collection.json").read_text())
    assert manifest["schema"] == "bookkeeper-auditor/collection/1"
    assert manifest["sources"] == [str(root)]
    assert manifest["tables"]["places"]["rows"] == 4
    assert Collection(first.path).manifest() == first.manifest
    Collection(first.path).verify(first.manifest)


def test_places_directories_and_cookies_are_collected_unchanged(tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    collect([str(root)], str(tmp_path / "out"))
    places = find_places([str(root)])
    rows = rows_of(tmp_path / "out", "directories")
    assert parse_places(rows_of(tmp_path / "out", "places"), rows) == places
    [marked] = {
        LastMark(row["mark_file_id"], row["mark_offset"])
        for row in rows
        if row["path"].endswith("127.0.101.1_3181/ledgers0")
    }
    raw = (root / "127.0.101.1_3181/ledgers0/current/lastMark").read_bytes()
    assert marked == LastMark(int.from_bytes(raw[:8]), int.from_bytes(raw[8:]))
    cookies = rows_of(tmp_path / "out", "cookies")
    assert {row["bookie_id"] for row in cookies} == {f"127.0.101.{n}:3181" for n in (1, 2, 3, 4)}
    assert all(row["damage"] is None and row["ledger_dirs"] for row in cookies)


def test_entry_log_is_summarised_and_its_entries_are_not_copied(tmp_path: Path) -> None:
    version = cookie("bk-a:3181", ["/data/ledgers0"])
    current = make_directory(tmp_path / "bookies/bk-a_3181/ledgers0", version) / "current"
    (current / "0.log").write_bytes(filled(HEADER) + b"the entries themselves".ljust(MAP_AT - 1024) + MAP)
    (current / "1.log").write_bytes(filled(HEADER[:8]) + b"the entries themselves")
    (current / "2.log").write_bytes(b"the entries themselves")
    collected = collect([str(tmp_path / "bookies")], str(tmp_path / "out"))
    rows = rows_of(tmp_path / "out", "entry_logs")
    assert [(row["log_id"], row["state"], row["entry_bytes"]) for row in rows] == [
        (0, "ok", 66),
        (1, "no-map", None),
        (2, "unreadable", None),
    ]
    assert collected.unread_lines == (f"{current}/2.log: only 22 of 1024 header bytes",)
    assert b"themselves" not in b"".join(
        path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()
    )


def test_missing_disk_of_a_cookie_is_reported(tmp_path: Path) -> None:
    version = cookie("bk-a:3181", ["/data/ledgers0", "/data/ledgers1"])
    make_directory(tmp_path / "bookies/bk-a_3181/ledgers0", version)
    collected = collect([str(tmp_path / "bookies")], str(tmp_path / "out"))
    index, journal = collected.unread_lines
    assert index == "bk-a:3181: index directory /data/ledgers1: no such directory was found"
    # The mark from which the journal would be replayed may be on that disk.
    assert journal.startswith(
        "journal of bk-a:3181: ledger directory /data/ledgers1 (its lastMark is needed)"
    )


def test_inventory_is_collected_with_its_declared_directories(tmp_path: Path) -> None:
    version = cookie("bk-a:3181", ["/d/l0", "/d/l1"])
    for name in ("x", "y"):
        make_directory(tmp_path / name, version)
    inventory = tmp_path / "bookies.toml"
    inventory.write_text('[bookies."bk-a:3181"]\nledgers = ["x", "y"]\n')
    collected = collect([str(inventory)], str(tmp_path / "out"))
    assert collected.unread_count == 0
    rows = rows_of(tmp_path / "out", "directories")
    assert parse_places(rows_of(tmp_path / "out", "places"), rows) == find_places([str(inventory)])
    assert len({row["piece"] for row in rows}) == 1


def test_existing_directory_is_not_overwritten(tmp_path: Path) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="already exists; choose a new directory"):
        collect([str(root)], str(tmp_path / "out"))
    assert not list((tmp_path / "out").iterdir())


def test_source_without_a_bookie_directory_is_a_usage_error(tmp_path: Path) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    collect([str(root)], str(tmp_path / "one"))
    for source, error_text in (
        ("rpc:", "reads only bookies' own directories"),
        (str(tmp_path / "one"), "reads only bookies' own directories"),
        (
            str(root / "bookie1.dc1.example_3181/journal"),
            "no directory with a subdirectory current/ was found",
        ),
        (str(root / "bookie1.dc1.example_3181/journal/current"), ": contains no directory of a bookie"),
    ):
        with pytest.raises(UsageError, match=error_text):
            collect([source], str(tmp_path / "two"))
    assert not (tmp_path / "two").exists()


def test_unwritable_target_is_a_usage_error(tmp_path: Path) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        collect([str(root)], str(tmp_path / "file" / "out"))


def test_collection_is_written_to_a_uri_as_to_a_path(tmp_path: Path) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    collected = collect([str(root)], (tmp_path / "out").as_uri())
    assert collected.path == (tmp_path / "out").as_uri()
    assert len(rows_of(collected.path, "availability")) == len(rows_of(tmp_path / "out", "availability"))


def test_interrupted_collection_has_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpack_bookies("flat-v1", tmp_path)

    def broken(directory: str) -> list[dict[str, Any]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry_logs, "read_logs", broken)
    with pytest.raises(KeyboardInterrupt):
        collect([str(root)], str(tmp_path / "out"))
    assert (tmp_path / "out" / "availability").is_dir()
    assert not (tmp_path / "out" / "collection.json").exists()


def test_spark_collects_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    for place in sorted(root.iterdir()):
        log = place / "ledgers0" / "current" / "0.log"
        log.write_bytes(filled(HEADER).ljust(MAP_AT, b"e") + MAP)
        os.utime(log, (70, 70))
    local = collect([str(root)], str(tmp_path / "here"))
    remote = collect([str(root)], str(tmp_path / "there"), spark=spark)
    assert (remote.unread_count, sorted(remote.unread_lines)) == (
        local.unread_count,
        sorted(local.unread_lines),
    )
    for table in SCHEMAS:
        rows = [rows_of(tmp_path / name, table) for name in ("here", "there")]
        for result, collected in zip(rows, (local, remote), strict=True):
            for row in result:
                if row.get("piece"):
                    row["piece"] = row["piece"].removeprefix(collected.manifest.id)
        assert sorted_rows(rows[0]) == sorted_rows(rows[1]), table
    Collection(remote.path).verify(remote.manifest)
    assert remote.manifest.rows("entry_logs") == 4
    types = [
        pq.read_schema(tmp_path / "there" / file.path) for file in remote.manifest.tables["availability"]
    ]
    assert all(isinstance(result, pa.Schema) and result.names == INDEX_SCHEMA.names for result in types)
