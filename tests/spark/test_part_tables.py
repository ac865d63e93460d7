"""Tables that tasks write themselves are those that Spark would have written."""

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


def some_ledgers(ids: range) -> Iterator[pa.RecordBatch]:
    """A batch for each ledger."""
    for number in ids:
        said = {"path": f"/L{number}", "custom_metadata": [("a", b"b")], "rules": []}
        row = ledger(number, {"a:1": {1, 2}, "b:1": set()}, **said)
        yield pa.RecordBatch.from_pylist([row], schema=LEDGERS)


def coded_ledgers(ids: range) -> Iterator[pa.RecordBatch]:
    """The same with codes for texts; no two batches have the same."""
    for batch in some_ledgers(ids):
        place = batch.schema.get_field_index("path")
        yield batch.set_column(place, "path", batch.column("path").dictionary_encode())


def fail(ids: range) -> Iterator[pa.RecordBatch]:
    yield from some_ledgers(ids)
    raise StoreError("nobody answers")


@dataclass(frozen=True)
class NotedPart:
    """A part that leaves a file in a directory whenever it is unpickled."""

    ids: range
    place: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_noted, (self.ids, self.place)


def _unpickle_noted(ids: range, place: Path) -> NotedPart:
    (place / str(uuid.uuid4())).touch()
    return NotedPart(ids, place)


def noted_ledgers(part: NotedPart) -> Iterator[pa.RecordBatch]:
    return some_ledgers(part.ids)


@pytest.fixture
def schema() -> StructType:
    return from_arrow_schema(LEDGERS)


def test_what_tasks_write_is_what_they_read(spark: SparkSession, schema: StructType, tmp_path: Path) -> None:
    parts = ((some_ledgers, range(3)), (some_ledgers, range(0)), (coded_ledgers, range(3, 7)))
    table = PartTable(spark, schema, parts[:1]).with_parts(parts[1:], ReadCost())
    place = tmp_path / "t"
    (place / "part-00000-of-a-run-that-broke-off.parquet").mkdir(parents=True)
    table.write(LOCAL, str(place))
    written = spark.read.parquet(str(place))
    assert written.schema == table.schema
    plain = PartTable(spark, schema, ((some_ledgers, range(7)),)).frame()
    assert sorted(written.collect()) == sorted(plain.collect())
    names = sorted(each.name for each in place.iterdir())
    assert [name[:11] for name in names] == ["_SUCCESS", "part-00000-", "part-00002-"]


def test_a_task_unpickles_only_its_own_parts(spark: SparkSession, schema: StructType, tmp_path: Path) -> None:
    parts = [NotedPart(range(number, number + 1), tmp_path / "noted") for number in range(100)]
    (tmp_path / "noted").mkdir()
    table = PartTable(spark, schema, tuple((noted_ledgers, part) for part in parts))
    assert table.frame().rdd.getNumPartitions() <= 100
    table.write(LOCAL, str(tmp_path / "t"))
    assert spark.read.parquet(str(tmp_path / "t")).count() == 100
    assert len(list((tmp_path / "noted").iterdir())) == 100


def test_what_reads_the_parts_of_an_index_carries_none() -> None:
    directory = IndexDirectory("/d/current", None)
    parts = [IndexPart(f"bookie-{number}:3181", (directory,), ("0",)) for number in range(1000)]
    assert len(pickle.dumps(IndexSourceReader(parts, []).read)) < 1000


def test_its_files_are_as_spark_would_write_them(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    table = PartTable(spark, schema, ((some_ledgers, range(5)),))
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


def test_a_table_without_rows_has_its_columns(
    spark: SparkSession, schema: StructType, tmp_path: Path
) -> None:
    for number, parts in enumerate(((), ((some_ledgers, range(0)),))):
        place = tmp_path / str(number)
        PartTable(spark, schema, parts).write(LOCAL, str(place))
        assert spark.read.parquet(str(place)).schema == schema
        assert pq.read_table(place, partitioning=None).num_rows == 0


def test_a_task_that_fails_leaves_no_table(spark: SparkSession, schema: StructType, tmp_path: Path) -> None:
    table = PartTable(spark, schema, ((some_ledgers, range(3)), (fail, range(2))))
    with pytest.raises(StoreError, match="nobody answers"), restore_task_errors():
        table.write(LOCAL, str(tmp_path / "t"))
    assert not (tmp_path / "t" / "_SUCCESS").exists()
    assert not list((tmp_path / "t").glob("part-*"))
