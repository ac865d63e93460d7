"""Conversion between Arrow batches and tables, by Spark's tasks or, for few rows, by the driver.

A task starts two Python processes before it has its first row, and these load modules that the driver has
loaded already. For a data source that is requested by name, Spark starts four more processes to plan it. This
module therefore plans data sources itself. If no query needs the rows of a finished table, driver and tasks
read its files directly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from auditor.model.batch_bounds import batch_rows, column_bytes, group_lots
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable, part_table, spark_types
from auditor.spark.query_plans import in_one_task
from auditor.spark.types import DataFrame, DataSource, InputPartition, SparkSession, StructType

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

DRIVER_READ_BYTES = 16 << 20
"""Largest size of rows that the driver reads into memory, in bytes.

The rows of some 30,000 ledgers, or of their indexes, have this size.
"""
DRIVER_READ_SECONDS = 5.0
"""Longest time for work on the driver, in seconds. Work that takes longer is left to tasks."""
_ROWS_A_BATCH = 4096


def map_batches(rows: DataFrame, work: Work, columns: pa.Schema | StructType) -> DataFrame:
    """Return the rows that ``work`` makes from the batches of a table.

    For tiny tables the driver calls ``work``, because the Python processes of a task take longer to start.

    Args:
        rows: the table.
        work: the function from batches to batches.
        columns: the columns of the result.
    """
    spark, schema = rows.sparkSession, spark_types(columns)
    if not in_one_task(spark):
        return rows.mapInArrow(work, schema)
    batches = rows.toArrow().to_batches(max_chunksize=_ROWS_A_BATCH)
    return arrow_frame(spark, table_of(work(iter(batches)), schema), schema)


def map_rows(
    rows: DataFrame, make: Callable[[list[dict[str, Any]]], pa.RecordBatch], columns: pa.Schema
) -> DataFrame:
    """Return the rows that ``make`` makes from each batch. ``make`` gets rows as dicts; see `map_batches`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (make(batch.to_pylist()) for batch in batches)

    return map_batches(rows, work, columns)


def arrow_frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return a table of the driver as a Spark table, in the types of ``schema``, or else those of Arrow.

    The data is passed in one chunk: Spark 4.3 takes an empty chunk for the end, and drops the rows after it.
    """
    frame = spark.createDataFrame(table.combine_chunks(), schema or spark_types(table.schema))
    # With a constant filter, Spark drops joins with the empty table from later query plans.
    return in_one_part(frame) if table.num_rows else frame.where("false")


def in_one_part(rows: DataFrame) -> DataFrame:
    """Put rows into one partition if all tables are tiny.

    Spark does not know the number of rows that come from the driver or from a file.
    """
    return rows.coalesce(1) if in_one_task(rows.sparkSession) else rows


def table_of(batches: Iterable[pa.RecordBatch], schema: StructType) -> pa.Table:
    """Join batches to one table, in the Arrow types that Spark uses for the columns of ``schema``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow_schema = to_arrow_schema(schema)
    parts = [pa.Table.from_batches([batch]).cast(arrow_schema) for batch in batches]
    return pa.concat_tables(parts) if parts else arrow_schema.empty_table()


def read_source(
    spark: SparkSession, source: DataSource, parts: Sequence[InputPartition] | None = None
) -> pa.Table | PartTable:
    """Read the rows of a source on the driver if they are few; else return a table that tasks will read.

    Args:
        spark: the session.
        source: the source.
        parts: the parts to read; None for all parts of its reader.

    Raises:
        Exception: as in `source_rows`, and any error of reading on the driver.
    """
    return read_few(part_table(spark, source, parts))


def read_few(table: PartTable) -> pa.Table | PartTable:
    """Read the rows of a table on the driver if they are few.

    Otherwise return a table for tasks. It has the rows that were already read, and the remaining parts.
    """
    driver_batches: list[pa.RecordBatch] = []
    size, start_time = 0, time.monotonic()
    for number, (read, part) in enumerate(table.parts):
        batches: list[pa.RecordBatch] = []
        with closing(read(part)) as rows:  # type: ignore[type-var]  # ours are generators
            for batch in rows:
                batches.append(batch)
                size += batch.nbytes
                if size > DRIVER_READ_BYTES or time.monotonic() - start_time > DRIVER_READ_SECONDS:
                    remaining_parts = table.parts[number:]
                    return replace(
                        table,
                        parts=((iter, driver_batches), *remaining_parts)
                        if driver_batches
                        else remaining_parts,
                    )
        driver_batches += batches
    return table_of(driver_batches, table.schema)


def as_frame(spark: SparkSession, rows: pa.Table | PartTable | DataFrame) -> DataFrame:
    """Return the result of `read_source` as a Spark table."""
    if isinstance(rows, pa.Table):
        return arrow_frame(spark, rows)
    return rows.frame() if isinstance(rows, PartTable) else rows


def source_rows(spark: SparkSession, source: DataSource) -> DataFrame:
    """Return the table of a source, with one task for each part, as `part_table` does.

    Raises:
        Exception: any error of the source's ``reader`` and ``partitions``.
    """
    return part_table(spark, source).frame()


_LOTS_PER_CORE = 4
_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True)
class TableFiles:
    """Parquet files of one table on a file system, each with its size in bytes. It can be sent to tasks."""

    system: fs.FileSystem
    files: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, system: fs.FileSystem, where: str) -> TableFiles:
        """Return all files of the table in the directory ``where``. There are none if there is no table."""
        file_infos = system.get_file_info(fs.FileSelector(where, allow_not_found=True))
        parts = [file_info for file_info in file_infos if file_info.type == fs.FileType.File]
        parts = [file_info for file_info in parts if file_info.base_name.endswith(".parquet")]
        return cls(system, tuple(sorted((file_info.path, file_info.size) for file_info in parts)))

    def lots(self, lot_count: int) -> list[TableFiles]:
        """Divide the files among tasks: into at most ``lot_count`` groups of about equal size."""
        task_files: list[list[tuple[str, int]]] = [[] for _ in range(min(lot_count, len(self.files)))]
        sizes = [0] * len(task_files)
        for path, size in sorted(self.files, key=lambda file: (-file[1], file[0])):
            smallest_lot = sizes.index(min(sizes))
            task_files[smallest_lot].append((path, size))
            sizes[smallest_lot] += size
        return [replace(self, files=tuple(files)) for files in task_files]

    def row_groups(self, columns: Sequence[str], coded: Sequence[str], group_rows: int) -> Iterator[pa.Table]:
        """Yield some columns in tables of about ``group_rows`` rows, within the limits of `read_bounded`.

        ``coded`` columns are dictionary codes.
        """
        for path, _ in self.files:
            yield from read_bounded(
                partial(self._open_parquet, path), slice(None), columns, coded, group_rows
            )

    def open(self, coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """Open each file in turn, and close it before the next. ``coded`` columns become dictionary codes."""
        for path, _ in self.files:
            with self._open_parquet(path, coded) as file:
                yield file

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read some columns of all rows into memory. Use it only for tables that are known to be small."""
        tables = [file.read(list(columns), use_threads=False) for file in self.open()]
        return pa.concat_tables(tables)

    def column_bytes(self, columns: Sequence[str]) -> int:
        """Return the number of bytes that some columns of all files take in memory, by the files' footers."""
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            return sum(pool.map(partial(self._file_bytes, columns), [path for path, _ in self.files]))

    def _open_parquet(self, path: str, coded: Sequence[str]) -> pq.ParquetFile:
        # Read ahead from remote stores, because each small read is a request; local disks need no read-ahead.
        reads_ahead = self.system.type_name != "local"
        return pq.ParquetFile(
            path, read_dictionary=list(coded), pre_buffer=reads_ahead, filesystem=self.system
        )

    def _file_bytes(self, columns: Sequence[str], path: str) -> int:
        metadata = pq.read_metadata(path, filesystem=self.system)
        return sum(column_bytes(metadata, group, columns) for group in range(metadata.num_row_groups))


OpenParquet = Callable[[Sequence[str]], pq.ParquetFile]
"""Type of a function that opens a file so that the given columns are read as dictionary codes."""


def read_bounded(
    open_file: OpenParquet, groups: slice, columns: Sequence[str], coded: Sequence[str], max_rows: int
) -> Iterator[pa.Table]:
    """Yield some columns of some row groups of a file, in tables of bounded size.

    A table has whole row groups, with about ``max_rows`` rows together. If a row group is larger than
    `auditor.model.batch_bounds.MAX_BATCH_BYTES`, a table has only a part of it.

    Args:
        open_file: opens the file.
        groups: the row groups to read.
        columns: the columns to read.
        coded: the columns that are read as dictionary codes.
        max_rows: number of rows after which a table ends.
    """
    with open_file(coded) as file:
        metadata = file.metadata
        for row_groups in group_lots(metadata, range(file.num_row_groups)[groups], columns, max_rows):
            first = metadata.row_group(row_groups[0])
            max_batch_rows = batch_rows(
                first.num_rows, column_bytes(metadata, row_groups[0], columns), max_rows
            )
            if len(row_groups) > 1 or max_batch_rows >= first.num_rows:
                yield file.read_row_groups(row_groups, list(columns), use_threads=False)
                continue
            # With dictionary codes, each batch would carry the values of all earlier batches.
            with open_file(()) as plain_file:
                for batch in plain_file.iter_batches(
                    max_batch_rows, row_groups, list(columns), use_threads=False
                ):
                    yield _encode_columns(batch, coded)


def _encode_columns(batch: pa.RecordBatch, coded: Sequence[str]) -> pa.Table:
    columns = {
        name: column.dictionary_encode() if name in coded else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.table(columns)


Reader = Callable[[TableFiles], Iterator[pa.RecordBatch]]


def select_columns(rows: DataFrame, columns: pa.Schema) -> DataFrame:
    """Return the rows with these columns, in this order. A column that the rows lack is null."""
    kinds = {field.name: field.dataType for field in spark_types(columns).fields}
    values = {name: F.col(name) if name in rows.columns else F.lit(None) for name in kinds}
    return rows.select(*(value.cast(kinds[name]).alias(name) for name, value in values.items()))


def lots_of(spark: SparkSession, table: TableFiles, read: Reader) -> Iterable[tuple[Reader, TableFiles]]:
    """Yield the parts of a `PartTable` that reads the files of a table, some parts for each core."""
    return ((read, files) for files in table.lots(spark.sparkContext.defaultParallelism * _LOTS_PER_CORE))


def from_files(
    spark: SparkSession, columns: pa.Schema | StructType, table: TableFiles, read: Reader
) -> PartTable:
    """Return the rows that ``read`` makes from the files of a table, with one task per group of files."""
    return PartTable(spark, spark_types(columns), tuple(lots_of(spark, table, read)))


def counts_in_files(
    spark: SparkSession | None, schema: pa.Schema, table: TableFiles, count: Reader, numbers: Sequence[str]
) -> pa.Table:
    """Count rows in the files of a table, and add up the counts.

    The driver adds up the results of the tasks. There are only as many results as kinds of rows.

    Args:
        spark: the session whose tasks count; None to count on the driver.
        schema: the columns of the result.
        table: the files.
        count: makes rows with counts from some of the files.
        numbers: the columns that are summed.
    """
    if spark is None:
        rows = pa.Table.from_batches(count(table), schema)
    else:
        rows = from_files(spark, schema, table, count).frame().toArrow().cast(schema)
    kinds = [name for name in schema.names if name not in numbers]
    sums = rows.group_by(kinds).aggregate([(name, "sum") for name in numbers])
    return sums.rename_columns([*kinds, *numbers]).select(schema.names).cast(schema)
