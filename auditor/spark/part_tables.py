"""Tables that tasks make part by part, and write themselves where they can.

A data source of this package hands its rows over in Arrow batches. To have Spark write them they go to Java,
become rows one by one, and are put into columns again: more work than it was to read them. So a task writes
its part as Parquet itself, on the file system of the run as pyarrow knows it, and the driver gets the file's
name. An object store asks its credentials of the tasks' environment as of the driver's.

    TABLE/_temporary/<unique>.parquet     while a task writes it
    TABLE/part-00007-<unique>.snappy.parquet    once all parts are there: those that tasks named, no others
    TABLE/_SUCCESS                        last
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from auditor.model.columns import LEDGER
from auditor.model.run_facts import WHOLE
from auditor.spark.types import DataFrame, DataSource, InputPartition, SparkSession, StructType

_TEMPORARY = "_temporary"
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
"""Under this key Spark keeps a table's columns, with what each means, in each of its files."""
_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 64 << 20
_UNLIKE = (LEDGER[-1], "path")
"""Columns in which hardly two rows have the same value: a dictionary of them is work for nothing."""

Reader = Callable[[Any], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class PartTable:
    """A table of ``schema``; each of ``parts`` is how one task reads it, and what."""

    spark: SparkSession
    schema: StructType
    parts: tuple[tuple[Reader, Any], ...]

    @classmethod
    def of(cls, spark: SparkSession, columns: pa.Schema, read: Reader, parts: Iterable[Any]) -> PartTable:
        """The table of these columns, of which ``read`` gives the rows of each part."""
        return cls(spark, spark_schema(columns), tuple((read, part) for part in parts))

    def frame(self) -> DataFrame:
        """The rows as Spark has them, one task a part."""
        parts = self.parts

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in _ids(numbers):
                rows, part = parts[number]
                yield from rows(part)

        return self._tasks().mapInArrow(read, self.schema)

    def write(self, system: fs.FileSystem, where: str) -> None:
        """Write the table below a path of a file system that every task sees; what lies there goes first."""
        from pyspark.sql.pandas.types import to_arrow_schema

        parts, metadata = self.parts, {_SPARK_SCHEMA: self.schema.json()}
        temporary = f"{where}/{_TEMPORARY}"
        if system.get_file_info(where).type != fs.FileType.NotFound:
            system.delete_dir(where)
        system.create_dir(temporary, recursive=True)

        def write(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in _ids(numbers):
                rows, part = parts[number]
                # An attempt that is not the one that counts writes a file of its own.
                name = f"{uuid.uuid4()}.parquet"
                if _write_part(system, f"{temporary}/{name}", rows(part), metadata):
                    yield pa.record_batch({"number": [number], "name": [name]})

        # As many rows as there are parts.
        written = self._tasks().mapInArrow(write, "number long, name string").collect()
        for row in written:
            unique = row["name"].removesuffix(".parquet")
            target = f"{where}/part-{row['number']:05}-{unique}.snappy.parquet"
            system.move(f"{temporary}/{row['name']}", target)
        if not written:
            nothing = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(self.schema))
            _write_part(system, f"{where}/part-00000.snappy.parquet", iter([nothing]), metadata)
        system.delete_dir(temporary)
        system.open_output_stream(f"{where}/{WHOLE}").close()

    def with_parts(self, parts: Iterable[tuple[Reader, Any]]) -> PartTable:
        """The table with more parts, whose rows have the same columns."""
        return PartTable(self.spark, self.schema, (*self.parts, *parts))

    def _tasks(self) -> DataFrame:
        return self.spark.range(0, len(self.parts), 1, max(1, len(self.parts)))


def spark_types(columns: pa.Schema | StructType) -> StructType:
    """Arrow's columns as Spark has them, without their meaning."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns) if isinstance(columns, pa.Schema) else columns


def spark_schema(columns: pa.Schema) -> StructType:
    """Arrow's columns as Spark has them, each with its meaning as the comment where it has one."""
    schema = spark_types(columns)
    for field, column in zip(schema, columns, strict=True):
        if comment := (column.metadata or {}).get(b"comment"):
            field.metadata = {"comment": comment.decode()}
    return schema


def part_table(
    spark: SparkSession, source: DataSource, parts: Sequence[InputPartition] | None = None
) -> PartTable:
    """The table of a data source of this package, one task a part: of ``parts``, or of all that there are.

    Raises: what the source's ``reader`` and ``partitions`` raise.
    """
    schema = source.schema()
    reader = source.reader(schema)  # type: ignore[arg-type]  # ours say StructType
    planned = reader.partitions() if parts is None else parts
    return PartTable(spark, schema, tuple((reader.read, part) for part in planned))  # type: ignore[arg-type]


def _ids(numbers: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in numbers:
        yield from batch.column("id").to_pylist()


def _write_part(
    system: fs.FileSystem, path: str, batches: Iterator[pa.RecordBatch], metadata: Mapping[str, str]
) -> bool:
    """Write batches as they come, some at a time; False, and no file, where there is none."""
    from pyarrow import parquet as pq

    writer: pq.ParquetWriter | None = None
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    try:
        for batch in batches:
            if writer is None:
                schema = batch.schema.remove_metadata()
                writer = pq.ParquetWriter(
                    path,
                    schema,
                    filesystem=system,
                    compression="snappy",
                    use_dictionary=[
                        leaf for column in schema for leaf in _leaves(column) if leaf not in _UNLIKE
                    ],
                    write_page_checksum=True,  # as Spark does: what a later run takes over is checked by them
                    store_schema=False,
                )
                writer.add_key_value_metadata(dict(metadata))
            waiting.append(batch if batch.schema.equals(schema) else batch.cast(schema))
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting).unify_dictionaries())
                waiting, rows, size = [], 0, 0
        if writer is not None and waiting:
            writer.write_table(pa.Table.from_batches(waiting).unify_dictionaries())
    finally:
        if writer is not None:
            writer.close()
    return writer is not None


def _leaves(field: pa.Field, path: str = "") -> Iterator[str]:
    """The names that Parquet gives to what a column is made of.

    >>> list(_leaves(pa.field("a", pa.list_(pa.struct([("b", pa.int64()), ("c", pa.string())])))))
    ['a.list.element.b', 'a.list.element.c']
    """
    leaf_path, kind = path or field.name, field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves(child, f"{leaf_path}.{child.name}")
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_field, f"{leaf_path}.key_value.key")
        yield from _leaves(kind.item_field, f"{leaf_path}.key_value.value")
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_field, f"{leaf_path}.list.element")
    else:
        yield leaf_path
