from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from auditor.collect.collect import collect
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.index import collected_availability
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.bookies.spark_source import SPARK_SCHEMA
from tests.sources.bookie_corpora import unpack_bookies

Whole = tuple[Collection, CollectionManifest]


@pytest.fixture
def whole(tmp_path: Path) -> Whole:
    root = unpack_bookies("flat-v1", tmp_path)
    collection = Collection(collect([str(root)], str(tmp_path / "out")).path)
    return collection, collection.manifest()


def owner(whole: Whole, name: str, *roots: str) -> PieceOwner:
    places = whole[0].path.removesuffix("out") + "bookies"
    return PieceOwner(name, tuple(f"{places}/{root}" for root in roots))


def test_rows_go_to_the_owner_of_their_piece_and_unowned_ones_nowhere(
    spark: SparkSession, whole: Whole
) -> None:
    owners = {f"{whole[1].id}:2": owner(whole, "somebody else", "bookie3.dc1.example_3181/ledgers0")}
    table = collected_availability(spark, [whole], owners)
    assert table.columns == SPARK_SCHEMA.names
    rows = table.collect()
    assert rows
    assert {row["bookie_id"] for row in rows} == {"somebody else"}
    assert all("/bookie3.dc1.example_3181/ledgers0/" in row["path"] for row in rows)


def test_rows_of_directories_that_do_not_count_are_left_out(spark: SparkSession, whole: Whole) -> None:
    # The name of a directory may be the beginning of another's.
    owners = {f"{whole[1].id}:0": owner(whole, "bookie1", "bookie1.dc1.example_3181/ledgers")}
    assert collected_availability(spark, [whole], owners).isEmpty()


def test_a_collection_without_owned_pieces_is_not_read(spark: SparkSession, whole: Whole) -> None:
    (Path(whole[0].path) / "availability/part-00000.parquet").unlink()
    assert collected_availability(spark, [whole], {"other:0": PieceOwner("bk", ("/",))}).isEmpty()


def test_a_byte_that_changed_since_fails_the_job_by_its_checksum(spark: SparkSession, whole: Whole) -> None:
    file = Path(whole[0].path) / "availability/part-00000.parquet"
    groups = pq.read_metadata(file).row_group(0).column(3)
    data = bytearray(file.read_bytes())
    # The last byte of the column's last page; there is no telling what it would decode to.
    data[(groups.dictionary_page_offset or groups.data_page_offset) + groups.total_compressed_size - 1] ^= 1
    file.write_bytes(data)
    owners = {
        f"{whole[1].id}:{n}": owner(whole, "bk", f"bookie{n + 1}.dc1.example_3181/ledgers0") for n in range(4)
    }
    with pytest.raises(Py4JJavaError, match="CRC checksum verification failed"):
        collected_availability(spark, [whole], owners).collect()
