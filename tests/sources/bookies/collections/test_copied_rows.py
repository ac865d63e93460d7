"""Tests of collections that tasks read: each row belongs to the bookie that owns its piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import fs
from pyarrow import parquet as pq

from auditor.audit import index_scan
from auditor.collect.collect import collect
from auditor.errors import UsageError
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.collections import copied_rows
from auditor.sources.bookies.collections.collection import CollectedFile, Collection, CollectionManifest
from auditor.sources.bookies.collections.copied_rows import CopiedRowsReader, RowGroupShare, make_shares
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.bookies.collections.tables import LOG_SCHEMA, rows_of_directories
from tests.sources.bookie_corpora import unpack_bookies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Whole = tuple[Collection, CollectionManifest]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    place = tmp_path_factory.mktemp("collected")
    root = unpack_bookies("flat-v1", place)
    collection = Collection(collect([str(root)], str(place / "out")).path)
    return collection, collection.manifest()


@pytest.fixture(scope="module")
def owners(whole: Whole) -> dict[str, PieceOwner]:
    """Return the owners of four pieces: one has none, and of another only a missing directory counts."""
    places = whole[0].path.removesuffix("out") + "bookies"
    roots = [f"{places}/bookie{number}.dc1.example_3181/ledgers0" for number in range(1, 5)]
    owned = {0: "a:1", 1: "b:1", 3: "d:1"}
    return {
        f"{whole[1].id}:{number}": PieceOwner(name, (roots[number][:-1] if number == 3 else roots[number],))
        for number, name in owned.items()
    }


def read_copied(whole: Whole, owners: Mapping[str, PieceOwner], share_count: int = 2) -> list[dict[str, Any]]:
    share_lists = make_shares([whole], owners, share_count)
    batches = [batch for share_list in share_lists for batch in CopiedRowsReader(owners).read(share_list)]
    assert all(batch.schema.names == SCHEMA.names for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def one_by_one(whole: Whole, owners: Mapping[str, PieceOwner]) -> list[dict[str, Any]]:
    """Return the rows read singly, under the owner of their piece, if they are in a directory that counts."""
    [file] = whole[1].tables["availability"]
    rows = []
    for row in pq.read_table(Path(whole[0].base_path, file.path)).to_pylist():
        owner = owners.get(row["piece"])
        if owner and any(
            row["path"] == root or row["path"].startswith(f"{root}/") for root in owner.owned_paths
        ):
            copied_row = {**row, "bookie_id": owner.bookie_id, "stamp": None, "reused": False}
            rows.append({name: copied_row.get(name) for name in SCHEMA.names})
    return rows


def test_copied_rows_are_those_of_owned_pieces_and_directories(
    whole: Whole, owners: dict[str, PieceOwner]
) -> None:
    rows = read_copied(whole, owners)
    assert {row["bookie_id"] for row in rows} == {"a:1", "b:1"}
    assert sorted(rows, key=repr) == sorted(one_by_one(whole, owners), key=repr)
    assert make_shares([whole], {"other:0": PieceOwner("bk", ("/",))}, 2) == []


def test_each_row_group_is_read_once_in_any_number_of_shares(
    whole: Whole, owners: dict[str, PieceOwner], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [file] = whole[1].tables["availability"]
    table = pq.read_table(Path(whole[0].base_path, file.path))
    pq.write_table(table, tmp_path / "cut.parquet", row_group_size=7)
    cut = CollectedFile("cut.parquet", file.rows, 1000)
    manifest = replace(whole[1], tables={**whole[1].tables, "availability": (cut,)})
    monkeypatch.setattr(copied_rows, "_MAX_SHARE_BYTES", 300)
    collection = Collection(str(tmp_path))
    share_lists = make_shares([(collection, manifest)], owners, 2)
    assert [share.first_row_group for share_list in share_lists for share in share_list] == [0, 1, 2, 3]
    assert len(share_lists) == 2
    rows = read_copied((collection, manifest), owners)
    assert sorted(rows, key=repr) == sorted(read_copied(whole, owners), key=repr)


def test_columns_missing_in_an_older_collection_are_null(
    whole: Whole, owners: dict[str, PieceOwner], tmp_path: Path
) -> None:
    [file] = whole[1].tables["availability"]
    table = pq.read_table(Path(whole[0].base_path, file.path)).drop_columns(["answered", "mtime"])
    pq.write_table(table, tmp_path / "old.parquet")
    [batch] = CopiedRowsReader(owners).read(
        [RowGroupShare(fs.LocalFileSystem(), str(tmp_path / "old.parquet"), 0, 1)]
    )
    assert batch.column("mtime").null_count == batch.num_rows > 0


def test_row_without_piece_or_path_has_no_owner(owners: dict[str, PieceOwner], tmp_path: Path) -> None:
    [piece, *_] = owners
    [root] = owners[piece].owned_paths
    rows = [
        {"piece": piece, "path": root, "ledger_id": 1},
        {"piece": piece, "path": f"{root}/current/1.idx", "ledger_id": 2},
        {"piece": piece, "path": f"{root}1/current/1.idx", "ledger_id": 3},
        {"piece": piece, "path": None, "ledger_id": 4},
        {"piece": None, "path": root, "ledger_id": 5},
        {"piece": "another:0", "path": root, "ledger_id": 6},
    ]
    schema = pa.schema([*SCHEMA.remove_metadata(), pa.field("piece", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "odd.parquet")
    [batch] = CopiedRowsReader(owners).read(
        [RowGroupShare(fs.LocalFileSystem(), str(tmp_path / "odd.parquet"), 0, 1)]
    )
    assert batch.column("ledger_id").to_pylist() == [1, 2]
    assert batch.column("bookie_id").to_pylist() == ["a:1", "a:1"]


def test_changed_byte_of_a_copied_file_is_reported(
    whole: Whole, owners: dict[str, PieceOwner], tmp_path: Path
) -> None:
    [file] = whole[1].tables["availability"]
    path = Path(whole[0].base_path, file.path)
    groups = pq.read_metadata(path).row_group(0).column(3)
    data = bytearray(path.read_bytes())
    data[(groups.dictionary_page_offset or groups.data_page_offset) + groups.total_compressed_size - 1] ^= 1
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        list(
            CopiedRowsReader(owners).read(
                [RowGroupShare(fs.LocalFileSystem(), str(tmp_path / "x.parquet"), 0, 1)]
            )
        )


def test_collection_under_a_uri_is_read_like_one_at_a_path(
    whole: Whole, owners: dict[str, PieceOwner]
) -> None:
    remote = (Collection(f"file://{whole[0].base_path}"), whole[1])
    assert sorted(read_copied(remote, owners), key=repr) == sorted(read_copied(whole, owners), key=repr)


def moved_collection(whole: Whole, path: str) -> Any:
    """Return the collection under another path, at which it does not exist."""
    return SimpleNamespace(path=path, base_path=path, files=whole[0].files), whole[1]


def test_collection_that_tasks_do_not_see_is_not_reported_as_damaged(
    whole: Whole, owners: dict[str, PieceOwner], spark: SparkSession
) -> None:
    hidden: Any = SimpleNamespace(
        directory_owners=SimpleNamespace(owner_by_piece_id=owners),
        collection_places=SimpleNamespace(readable_collections=[moved_collection(whole, "/hidden")]),
    )
    assert index_scan._damaged_collections(spark, hidden) == {"/hidden": index_scan.NO_FILE_REASON}


def test_collection_path_without_spark_classes_is_named(whole: Whole, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"^s3a://bucket/collected/entry_logs/part-00000.parquet: Spark has"):
        rows_of_directories(
            spark, "entry_logs", LOG_SCHEMA, [moved_collection(whole, "s3a://bucket/collected")], []
        )
