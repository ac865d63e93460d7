"""Tables that tasks make part by part, and write directly as Parquet files.

A data source of this package returns its rows in Arrow batches. If Spark wrote them, it would send them to
Java, split them into rows, and convert them to columns again. That takes longer than reading them. So each
task writes its part as a Parquet file itself, through pyarrow's file system. It reports the file's name to
the driver. For an object store, tasks take the credentials from their environment, as the driver does.

    TABLE/_temporary/<unique>.parquet           while a task writes it
    TABLE/part-00007-<unique>.snappy.parquet    once all parts exist: only files that tasks reported
    TABLE/_SUCCESS                              last
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import fs

from auditor.model.columns import LEDGER
from auditor.model.run_facts import DONE_FILE
from auditor.spark.concurrency import max_slots
from auditor.spark.types import DataFrame, DataSource, InputPartition, SparkSession, StructType

_TEMPORARY_DIRECTORY = "_temporary"
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
"""Key in each Parquet file under which Spark keeps the table's columns with their comments."""
_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 64 << 20
_HIGH_CARDINALITY_COLUMNS = (LEDGER[-1], "path")
"""Columns whose values hardly ever repeat, so that a dictionary would not make them smaller."""

_TASKS_PER_SLOT = 16
"""Largest number of tasks per slot, which runs one task at a time. A task without work takes 20 to 50 ms."""

PartReader = Callable[[Any], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ReadCost:
    """An estimate of the time that one process needs to read a table.

    The time is ``seconds``, plus the time to read every file below ``directories``.
    """

    seconds: float = 0.0
    directories: tuple[str, ...] = ()

    def __add__(self, other_cost: ReadCost) -> ReadCost:
        return ReadCost(self.seconds + other_cost.seconds, (*self.directories, *other_cost.directories))


@dataclass(frozen=True)
class PartTable:
    """A table in parts, with the columns of ``schema``.

    Each element of ``parts`` consists of a reader and the part that it reads. ``cost`` is None if the time
    of reading cannot be estimated.
    """

    spark: SparkSession
    schema: StructType
    parts: tuple[tuple[PartReader, Any], ...]
    cost: ReadCost | None = None

    @classmethod
    def from_parts(
        cls,
        spark: SparkSession,
        columns: pa.Schema,
        read: PartReader,
        parts: Iterable[Any],
        cost: ReadCost | None = None,
    ) -> PartTable:
        """Return the table with these ``columns`` and ``parts``. ``read`` reads each of the parts."""
        return cls(spark, spark_schema(columns), tuple((read, part) for part in parts), cost)

    def frame(self) -> DataFrame:
        """Return the rows as a Spark table."""
        parts = self._pickled_parts()

        def read(part_id_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part_number in _part_numbers(part_id_batches):
                yield from parts.rows(part_number)

        return self._part_tasks().mapInArrow(read, self.schema)

    def write(self, file_system: fs.FileSystem, table_path: str) -> None:
        """Write the table to ``table_path``, and delete existing files there.

        Every task must be able to write to the file system.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        parts, metadata = self._pickled_parts(), {_SPARK_SCHEMA: self.schema.json()}
        temporary_directory = f"{table_path}/{_TEMPORARY_DIRECTORY}"
        if file_system.get_file_info(table_path).type != fs.FileType.NotFound:
            file_system.delete_dir(table_path)
        file_system.create_dir(temporary_directory, recursive=True)

        def write(part_id_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part_number in _part_numbers(part_id_batches):
                # Each attempt of a task writes its own file; only the successful one is reported.
                name = f"{uuid.uuid4()}.parquet"
                if _write_part(
                    file_system, f"{temporary_directory}/{name}", parts.rows(part_number), metadata
                ):
                    yield pa.record_batch({"number": [part_number], "name": [name]})

        # The result has one row per part.
        written_files = self._part_tasks().mapInArrow(write, "number long, name string").collect()
        for row in written_files:
            file_stem = row["name"].removesuffix(".parquet")
            final_path = f"{table_path}/part-{row['number']:05}-{file_stem}.snappy.parquet"
            file_system.move(f"{temporary_directory}/{row['name']}", final_path)
        if not written_files:
            empty_batch = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(self.schema))
            _write_part(file_system, f"{table_path}/part-00000.snappy.parquet", iter([empty_batch]), metadata)
        file_system.delete_dir(temporary_directory)
        file_system.open_output_stream(f"{table_path}/{DONE_FILE}").close()

    def with_parts(self, parts: Iterable[tuple[PartReader, Any]], cost: ReadCost) -> PartTable:
        """Return the table with more parts, which have the same columns.

        ``cost`` is added to the table's cost.
        """
        total_cost = None if self.cost is None else self.cost + cost
        return replace(self, parts=(*self.parts, *parts), cost=total_cost)

    def _pickled_parts(self) -> _PickledParts:
        readers = list({id(reader): reader for reader, _ in self.parts}.values())
        number_by_reader = {id(reader): reader_number for reader_number, reader in enumerate(readers)}
        pickled_parts = tuple(
            (number_by_reader[id(reader)], pickle.dumps(part)) for reader, part in self.parts
        )
        return _PickledParts(tuple(readers), pickled_parts)

    def _part_tasks(self) -> DataFrame:
        """Return the numbers of the parts, divided among at most `_TASKS_PER_SLOT` tasks per slot.

        A slot runs one task at a time.
        """
        slot_count, part_count = max_slots(self.spark), len(self.parts)
        task_count = part_count if slot_count is None else min(part_count, _TASKS_PER_SLOT * slot_count)
        return self.spark.range(0, part_count, 1, max(1, task_count))


@dataclass(frozen=True, slots=True)
class _PickledParts:
    """All parts of a table, in the form in which they are sent to tasks.

    Every task gets all parts. Each part is pickled separately, so that a task unpickles only its own part.
    With 4,000 parts, unpickling all of them took 0.1 s in each of 4,000 tasks.
    """

    readers: tuple[PartReader, ...]
    pickled_parts: tuple[tuple[int, bytes], ...]

    def rows(self, part_number: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of the part with this number."""
        reader, part = self.pickled_parts[part_number]
        return self.readers[reader](pickle.loads(part))


def spark_types(columns: pa.Schema | StructType) -> StructType:
    """Convert Arrow columns to Spark columns, without their comments."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns) if isinstance(columns, pa.Schema) else columns


def spark_schema(columns: pa.Schema) -> StructType:
    """Convert Arrow columns to Spark columns, with their comments."""
    schema = spark_types(columns)
    for spark_field, column in zip(schema, columns, strict=True):
        if column_comment := (column.metadata or {}).get(b"comment"):
            spark_field.metadata = {"comment": column_comment.decode()}
    return schema


def part_table(
    spark: SparkSession, source: DataSource, parts: Sequence[InputPartition] | None = None
) -> PartTable:
    """Return the table of a data source of this package, which is read part by part.

    Args:
        spark: the session.
        source: the data source.
        parts: the parts to read, or None for all parts.

    Raises:
        Exception: any error of the source's ``reader`` and ``partitions``.
    """
    schema = source.schema()
    reader = source.reader(schema)  # type: ignore[arg-type]  # ours say StructType
    planned_parts, read = reader.partitions() if parts is None else parts, reader.read
    return PartTable(spark, schema, tuple((read, part) for part in planned_parts))  # type: ignore[arg-type]  # ours are generators


def _part_numbers(part_id_batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in part_id_batches:
        yield from batch.column("id").to_pylist()


def _write_part(
    file_system: fs.FileSystem, path: str, batches: Iterator[pa.RecordBatch], metadata: Mapping[str, str]
) -> bool:
    """Write batches to a file. If there are no batches, write no file and return False."""
    from pyarrow import parquet as pq

    writer: pq.ParquetWriter | None = None
    pending_batches: list[pa.RecordBatch] = []
    rows = part_bytes = 0
    try:
        for batch in batches:
            if writer is None:
                schema = batch.schema.remove_metadata()
                writer = pq.ParquetWriter(
                    path,
                    schema,
                    filesystem=file_system,
                    compression="snappy",
                    use_dictionary=[
                        column_path
                        for column in schema
                        for column_path in _leaf_paths(column)
                        if column_path not in _HIGH_CARDINALITY_COLUMNS
                    ],
                    write_page_checksum=True,  # as Spark does; later runs check reused files by them
                    store_schema=False,
                )
                writer.add_key_value_metadata(dict(metadata))
            pending_batches.append(batch if batch.schema.equals(schema) else batch.cast(schema))
            rows, part_bytes = rows + batch.num_rows, part_bytes + batch.nbytes
            if rows >= _GROUP_ROWS or part_bytes >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(pending_batches).unify_dictionaries())
                pending_batches, rows, part_bytes = [], 0, 0
        if writer is not None and pending_batches:
            writer.write_table(pa.Table.from_batches(pending_batches).unify_dictionaries())
    finally:
        if writer is not None:
            writer.close()
    return writer is not None


def _leaf_paths(spark_field: pa.Field, path: str = "") -> Iterator[str]:
    """Yield the names that Parquet gives to the leaf columns of a field.

    >>> list(_leaf_paths(pa.field("a", pa.list_(pa.struct([("b", pa.int64()), ("c", pa.string())])))))
    ['a.list.element.b', 'a.list.element.c']
    """
    leaf_path, leaf_type = path or spark_field.name, spark_field.type
    if pa.types.is_struct(leaf_type):
        for child_field in leaf_type:
            yield from _leaf_paths(child_field, f"{leaf_path}.{child_field.name}")
    elif pa.types.is_map(leaf_type):
        yield from _leaf_paths(leaf_type.key_field, f"{leaf_path}.key_value.key")
        yield from _leaf_paths(leaf_type.item_field, f"{leaf_path}.key_value.value")
    elif pa.types.is_list(leaf_type):
        yield from _leaf_paths(leaf_type.value_field, f"{leaf_path}.list.element")
    else:
        yield leaf_path
