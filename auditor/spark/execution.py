"""Decisions on where the work of an audit runs: in the driver or in Spark's tasks.

A caller only says what to compute. This module estimates the time from the sizes of tables, and decides. To
start a task takes about as long as to read the indexes of ten thousand ledgers. So the driver does short
work itself, and tasks do long work. If the driver's work turns out to be long, tasks do the rest of it. The
results are the same in each case.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from auditor.spark import functions as F
from auditor.spark.batches import (
    Rows,
    arrow_frame,
    as_frame,
    coalesce_if_tiny,
    from_files,
    join_batches,
    split_reader_parts,
)
from auditor.spark.part_tables import PartTable, ReadCost, spark_types
from auditor.spark.query_plans import (
    QueryPlans,
    has_one_task_plans,
    is_large,
    partitions_of,
    session_partitions,
)
from auditor.spark.table_files import FileReader, TableFiles
from auditor.spark.tasks import require_shared
from auditor.spark.types import DataFrame, SparkSession, StructType

DRIVER_SECONDS = 1.5
"""Largest estimated time of work that the driver does itself, in seconds. Starting tasks takes as long."""
DRIVER_READ_BYTES = 16 << 20
"""Largest size of rows that the driver reads into memory, in bytes.

The rows of some 30,000 ledgers, or of their indexes, have this size.
"""
DRIVER_READ_SECONDS = 5.0
"""Longest time for reading in the driver, in seconds. After that, tasks read the remaining parts."""
SIZE_LOOKUP_SECONDS = 0.5
"""Longest time for adding up file sizes, in seconds.

If it takes longer, the disk is slow or its cache is empty, and tasks read the files.
"""
_FILE_SECONDS, _BYTE_SECONDS = 15e-6, 1 / 130e6
"""Approximate seconds to open a file, and to read one byte of it, if the file is in the cache."""

MAX_MEMORY_BYTES = 256 << 10
"""Largest Parquet size of a table whose rows the driver keeps in memory, in bytes.

A table of some thousands of ledgers has this size.
"""
MAX_BROADCAST_BYTES = 4 << 20
"""Largest Parquet size of a table that is sent to every task, in bytes.

A table of some hundred thousand narrow rows has this size.
"""

BucketFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class TableLocation(Protocol):
    """The location of one table, in the forms that Spark, pyarrow and the driver need."""

    @property
    def path(self) -> str:
        """Return the path of the table in the form that Spark needs."""

    def files(self) -> TableFiles:
        """Return the files of the table."""

    def file_system_path(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the path of the table in this file system."""

    def shared_directory(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the directory in it that tasks and driver must share."""

    def read(self) -> pa.Table:
        """Return all rows of the table."""

    def write(self, rows: pa.Table) -> None:
        """Write the table."""


@dataclass(frozen=True)
class BucketSource:
    """The files of a table, and a function that makes rows from them.

    Each row has a bucket number. The rows are divided among tasks by this number.
    """

    files: TableFiles
    read: Callable[[TableFiles, int], Iterator[pa.RecordBatch]]


class Execution:
    """The Spark session of an audit, and the settings with which it plans queries.

    If ``plans`` is None, queries use the unchanged settings of the session.
    """

    def __init__(self, spark: SparkSession, plans: QueryPlans | None = None) -> None:
        self.spark = spark
        self._plans = plans
        self._is_shared = False

    def plan_for(self, table_bytes: int, replicas: int = 0) -> None:
        """Choose Spark's settings for query planning by the size of the tables and the number of replicas.

        ``replicas`` is the number of replicas to compare.
        """
        if self._plans is not None:
            self._plans.fit_to_tables(table_bytes, replicas)

    def frame(self, rows: Rows) -> DataFrame:
        """Return rows as a Spark table.

        If reading the rows is short work, they are read now. Otherwise, they are read when a query needs
        them.
        """
        return as_frame(self.spark, read_parts(rows) if isinstance(rows, PartTable) else rows)

    def write_table(self, location: TableLocation, rows: Rows) -> DataFrame:
        """Write rows to a table, and return the written table."""
        schema, table = None, rows
        if isinstance(table, PartTable):
            schema, table = table.schema, read_parts(table)
            if isinstance(table, PartTable):
                self._require_shared(location)
                table.write(*location.file_system_path())
        elif not isinstance(table, pa.Table):
            schema = table.schema  # otherwise Spark runs a job to find the schema
            if has_one_task_plans(self.spark):
                table = table.toArrow()
            else:
                self._require_shared(location)
                table.write.mode("overwrite").parquet(location.path)
        if not isinstance(table, pa.Table):
            return self._open_location(location, schema, None)
        location.write(table)
        return self._open_location(location, schema, table)

    def open_table(self, location: TableLocation) -> DataFrame:
        """Return a table that was written earlier."""
        return self._open_location(location, None, None)

    def _open_location(
        self, location: TableLocation, schema: StructType | None, rows: pa.Table | None
    ) -> DataFrame:
        """Return a written table. Its rows come from memory if it is small, otherwise from its files.

        A query of rows in memory needs no file scan, and no job before a broadcast. Scans and jobs take most
        of the time of a small audit. ``rows`` has the table's rows if they are already in memory. Otherwise
        it is None. ``schema`` is the schema of the table, or None if it is not known yet.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        if location.files().size > MAX_MEMORY_BYTES:  # true for no empty table
            self._require_shared(location)
            if schema is None and rows is not None:
                schema = from_arrow_schema(rows.schema)
            read = self.spark.read.schema(schema) if schema else self.spark.read
            return coalesce_if_tiny(read.parquet(location.path))
        if rows is None:
            rows = location.read()
        # Like a table that Spark reads back: any column may be null.
        return arrow_frame(self.spark, rows, (schema or from_arrow_schema(rows.schema)).toNullable())

    def _require_shared(self, location: TableLocation) -> None:
        """Check that tasks and driver share the run directory.

        Call this before a task writes or reads a table there.
        """
        if not self._is_shared:
            require_shared(self.spark, *location.shared_directory())
            self._is_shared = True

    def merge_tasks(self, union: DataFrame) -> DataFrame:
        """Return ``union``, a union of queries, with the session's number of partitions.

        Without this method, each query would have its own tasks, and most of these would be idle.
        """
        return union.coalesce(session_partitions(self.spark))

    def count_rows(
        self, schema: pa.Schema, table: TableFiles, count_file_rows: FileReader, sum_columns: Sequence[str]
    ) -> pa.Table:
        """Count rows in the files of a table, and add up the counts.

        The result has one row for each combination of values in the columns that are not summed.

        Args:
            schema: the columns of the result.
            table: the files of the table.
            count_file_rows: returns rows with counts for some of the files.
            sum_columns: the columns that are summed.
        """
        if is_large(table.size):
            rows = from_files(self.spark, schema, table, count_file_rows).frame().toArrow().cast(schema)
        else:
            rows = pa.Table.from_batches(count_file_rows(table), schema)
        key_columns = [column_name for column_name in schema.names if column_name not in sum_columns]
        summed_rows = rows.group_by(key_columns).aggregate(
            [(column_name, "sum") for column_name in sum_columns]
        )
        return summed_rows.rename_columns([*key_columns, *sum_columns]).select(schema.names).cast(schema)

    def map_buckets(
        self,
        sources: Sequence[BucketSource],
        schema: pa.Schema,
        map_bucket_rows: BucketFunction,
        columns: pa.Schema,
        replicas: int,
        value_columns: Sequence[str],
    ) -> Rows:
        """Return the rows that ``map_bucket_rows`` makes. Each call gets all rows of some buckets.

        Args:
            sources: the tables that the rows come from.
            schema: the columns of the source rows. The column ``bucket`` contains the number of the bucket.
            map_bucket_rows: makes batches of the result from all batches of a bucket.
            columns: the columns of the result.
            replicas: the number of replicas that the sources' rows describe.
            value_columns: the source columns that a task keeps in memory.
        """
        if not is_large(sum(source.files.size for source in sources)):
            batches = chain.from_iterable(source.read(source.files, 1) for source in sources)
            return pa.Table.from_batches(map_bucket_rows(batches), columns)
        value_bytes = sum(source.files.column_bytes(value_columns) for source in sources)
        buckets = partitions_of(self.spark, replicas, value_bytes)
        parts = chain.from_iterable(
            split_reader_parts(
                self.spark, source.files, partial(_read_bucketed, read=source.read, buckets=buckets)
            )
            for source in sources
        )
        rows = PartTable(self.spark, spark_types(schema), tuple(parts)).frame()
        return rows.repartition(buckets, "bucket").mapInArrow(map_bucket_rows, spark_types(columns))

    def broadcast(
        self, rows: DataFrame, table: TableFiles, max_bytes: int = MAX_BROADCAST_BYTES
    ) -> DataFrame:
        """Mark a written table for broadcast joins if it is small enough.

        Spark then sends the table to every task. Without this hint, Spark assumes that the table is ten
        times as large as its files. Spark would then sort all ledgers to join a few of them. ``table`` has
        the files of ``rows``. A table with more than ``max_bytes`` is not small enough.
        """
        return F.broadcast(rows) if MAX_MEMORY_BYTES < table.size <= max_bytes else rows

    def semi_join(
        self,
        rows: DataFrame,
        key_files: TableFiles,
        write_joined_rows: Callable[[], tuple[DataFrame, TableFiles]],
    ) -> DataFrame:
        """Return the rows of ``rows`` whose key is in ``key_files``, or all rows if there are many keys.

        If there are few keys, the method calls ``write_joined_rows``. This function writes the rows that have
        one of the keys, and returns the written table and its files.
        """
        return self.broadcast(*write_joined_rows()) if key_files.size <= MAX_BROADCAST_BYTES else rows


def _read_bucketed(
    files: TableFiles, read: Callable[[TableFiles, int], Iterator[pa.RecordBatch]], buckets: int
) -> Iterator[pa.RecordBatch]:
    return read(files, buckets)


def read_parts(table: PartTable) -> pa.Table | PartTable:
    """Read the rows of a table in the driver if that is short work, and return them.

    Otherwise, return a table for tasks. It consists of the rows that the driver has already read, and of
    the parts that it has not read.

    Raises:
        Exception: any error of reading in the driver.
    """
    if table.cost is not None and not _is_read_in_driver(table.cost):
        return table
    driver_batches: list[pa.RecordBatch] = []
    file_bytes, start_time = 0, time.monotonic()
    for part_number, (read, part) in enumerate(table.parts):
        batches: list[pa.RecordBatch] = []
        with closing(read(part)) as rows:  # type: ignore[type-var]  # ours are generators
            for batch in rows:
                batches.append(batch)
                file_bytes += batch.nbytes
                if file_bytes > DRIVER_READ_BYTES or time.monotonic() - start_time > DRIVER_READ_SECONDS:
                    remaining_parts = table.parts[part_number:]
                    return replace(
                        table,
                        parts=((iter, driver_batches), *remaining_parts)
                        if driver_batches
                        else remaining_parts,
                    )
        driver_batches += batches
    return join_batches(driver_batches, table.schema)


def _is_read_in_driver(read_cost: ReadCost) -> bool:
    """Return whether the driver can read a table in `DRIVER_SECONDS`, according to the sizes of its files.

    The function stops adding up file sizes as soon as the limit is exceeded.
    """
    seconds_left, start_time = DRIVER_SECONDS - read_cost.seconds, time.monotonic()
    pending_directories = list(reversed(read_cost.directories))
    while pending_directories and seconds_left >= 0:
        if time.monotonic() - start_time > SIZE_LOOKUP_SECONDS:
            return False
        try:
            with os.scandir(pending_directories.pop()) as directory_entries:
                for directory_entry in directory_entries:
                    if directory_entry.is_dir(follow_symlinks=False):
                        pending_directories.append(directory_entry.path)
                        continue
                    seconds_left -= _FILE_SECONDS + directory_entry.stat().st_blocks * 512 * _BYTE_SECONDS
                    if seconds_left < 0:
                        return False
        except OSError:
            continue  # the reader of the table reports the error
    return seconds_left >= 0
