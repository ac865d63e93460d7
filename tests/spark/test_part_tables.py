"""Tables that tasks write themselves equal the tables that Spark would write."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import fs
from pyarrow import parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.errors import StoreError
from auditor.sources.bookies.parts import IndexDirectory, IndexPart
from auditor.sources.bookies.spark_source import IndexSourceReader
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.spark.part_tables import PartTable, ReadCost
from auditor.spark.tasks import restore_task_errors
from tests.tables.rows import ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

LOCAL = fs.LocalFileSystem()


def ledger_batches(ids: range) -> Iterator[pa.RecordBatch]:
    """Yield one batch for each ledger."""
    for number in ids:
        values = {"path": f"/L{number}", "custom_metadata": [("a", b"b")], "rules": []}
        row = ledger(number, {"a:1": {1, 2}, "b:1": set()}, **values)
        yield pa.RecordBatch.from_pylist([row], schema=LEDGERS)


def encoded_ledgers(ids: range) -> Iterator[pa.RecordBatch]:
    """Yield one dictionary-encoded batch for each ledger; no two batches have the same dictionary."""
    for batch in ledger_batches(ids):
        place = batch.schema.get_field_index("path")
        yield batch.set_column(place, "path", batch.column("path").dictionary_encode())


def fail(ids: range) -> Iterator[pa.RecordBatch]:
    yield from ledger_batches(ids)
    raise StoreError("nobody answers")


@dataclass(frozen=True)
class RecordedPart:
    """A part that writes a file to a directory each time it is unpickled."""

    ids: range
    place: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_recorded, (self.ids, self.place)


def _unpickle_recorded(ids: range, place: Path) -> RecordedPart:
    (place / str(uuid.uuid4())).touch()
    return RecordedPart(ids, place)


def recorded_ledgers(part: RecordedPart) -> Iterator[pa.RecordBatch]:
    return ledger_batches(part.ids)


@pytest.fixture
def schema() -> StructType:
    return from_arrow_schema(LEDGERS)


def test_tables_written_by_tasks_equal_their_input_rows(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    parts = ((ledger_batches, range(3)), (ledger_batches, range(0)), (encoded_ledgers, range(3, 7)))
    table = PartTable(spark, schema, parts[:1]).with_parts(parts[1:], ReadCost())
    place = tmp_path / "t"
    (place / "part-00000-of-a-run-that-broke-off.parquet").mkdir(parents=True)
    table.write(LOCAL, str(place))
    written = spark.read.parquet(str(place))
    assert written.schema == table.schema
    plain = PartTable(spark, schema, ((ledger_batches, range(7)),)).frame()
    assert sorted(written.collect()) == sorted(plain.collect())
    names = sorted(path.name for path in place.iterdir())
    assert [name[:11] for name in names] == ["_SUCCESS", "part-00000-", "part-00002-"]


def test_a_task_unpickles_only_its_own_parts(spark: SparkSession, schema: StructType, tmp_path: Path) -> None:
    parts = [RecordedPart(range(number, number + 1), tmp_path / "noted") for number in range(100)]
    (tmp_path / "noted").mkdir()
    table = PartTable(spark, schema, tuple((recorded_ledgers, part) for part in parts))
    assert table.frame().rdd.getNumPartitions() <= 100
    table.write(LOCAL, str(tmp_path / "t"))
    assert spark.read.parquet(str(tmp_path / "t")).count() == 100
    assert len(list((tmp_path / "noted").iterdir())) == 100


def test_pickled_index_reader_excludes_its_parts() -> None:
    directory = IndexDirectory("/d/current", None)
    parts = [IndexPart(f"bookie-{number}:3181", (directory,), ("0",)) for number in range(1000)]
    assert len(pickle.dumps(IndexSourceReader(parts, []).read)) < 1000


def test_part_table_files_match_files_written_by_spark(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    table = PartTable(spark, schema, ((ledger_batches, range(5)),))
    table.write(LOCAL, str(tmp_path / "ours"))
    table.frame().write.parquet(str(tmp_path / "sparks"))
    ours, sparks = (pq.read_table(tmp_path / name, partitioning=None) for name in ("ours", "sparks"))
    assert ours.schema == sparks.schema
    assert ours.to_pylist() == sparks.to_pylist()
    [file] = (tmp_path / "ours").glob("*.parquet")
    column = pq.ParquetFile(file).schema.column(0)
    assert column.max_definition_level == 1  # no column is required
    ids = pq.read_metadata(file).row_group(0).column(1)
    data = bytearray(file.read_bytes())
    data[ids.data_page_offset + ids.total_compressed_size - 1] ^= 1
    file.write_bytes(data)
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(file, page_checksum_verification=True).read()


def test_empty_part_table_keeps_its_schema(spark: SparkSession, schema: StructType, tmp_path: Path) -> None:
    for number, parts in enumerate(((), ((ledger_batches, range(0)),))):
        place = tmp_path / str(number)
        PartTable(spark, schema, parts).write(LOCAL, str(place))
        assert spark.read.parquet(str(place)).schema == schema
        assert pq.read_table(place, partitioning=None).num_rows == 0


def test_failed_task_leaves_no_table_files(spark: SparkSession, schema: StructType, tmp_path: Path) -> None:
    table = PartTable(spark, schema, ((ledger_batches, range(3)), (fail, range(2))))
    with pytest.raises(StoreError, match="nobody answers"), restore_task_errors():
        table.write(LOCAL, str(tmp_path / "t"))
    assert not (tmp_path / "t" / "_SUCCESS").exists()
    assert not list((tmp_path / "t").glob("part-*"))
