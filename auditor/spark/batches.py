"""Conversion between Arrow batches, tables in the driver, and Spark's tables.

Before a Spark task has its first row, it starts two Python processes. These load modules that the driver
has already loaded. Spark also starts four processes to plan a data source that is requested by name. To
avoid these four processes, this module plans data sources itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable, ReadCost, part_table, spark_types
from auditor.spark.query_plans import has_one_task_plans
from auditor.spark.table_files import FileReader, TableFiles
from auditor.spark.table_queries import empty_frame
from auditor.spark.types import DataFrame, DataSource, SparkSession, StructType

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Rows: TypeAlias = pa.Table | PartTable | DataFrame
"""Rows as a table in the driver, as parts that are still to be read, or as a Spark query."""

_ROWS_PER_BATCH = 4096


def map_batches(rows: DataFrame, map_partition: BatchFunction, columns: pa.Schema | StructType) -> DataFrame:
    """Return the rows that ``map_partition`` makes from the batches of the table ``rows``.

    If the audit's tables are tiny, the driver calls ``map_partition`` itself. A task would take longer,
    because it would have to start Python processes.

    Args:
        rows: the input table.
        map_partition: the function that converts batches to batches.
        columns: the columns of the result.
    """
    spark, schema = rows.sparkSession, spark_types(columns)
    if not has_one_task_plans(spark):
        return rows.mapInArrow(map_partition, schema)
    batches = rows.toArrow().to_batches(max_chunksize=_ROWS_PER_BATCH)
    return arrow_frame(spark, join_batches(map_partition(iter(batches)), schema), schema)


def map_rows(
    rows: DataFrame, make_batch: Callable[[list[dict[str, Any]]], pa.RecordBatch], columns: pa.Schema
) -> DataFrame:
    """Return the rows that ``make_batch`` makes from each batch of the table ``rows``.

    ``make_batch`` gets the rows of a batch as dicts. The driver may call it itself (see `map_batches`).
    """

    def map_batch_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (make_batch(batch.to_pylist()) for batch in batches)

    return map_batches(rows, map_batch_rows, columns)


def arrow_frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Convert a table in the driver to a Spark table.

    The column types are those of ``schema`` or, without it, those of the Arrow table. The data is passed in
    one chunk. Otherwise, Spark 4.3 would treat an empty chunk as the end and drop the rows after it.
    """
    frame = spark.createDataFrame(table.combine_chunks(), schema or spark_types(table.schema))
    return coalesce_if_tiny(frame) if table.num_rows else empty_frame(frame)


def coalesce_if_tiny(rows: DataFrame) -> DataFrame:
    """Put rows into one partition if the audit's tables are tiny.

    Spark cannot decide this, because it does not know the number of rows in the driver or in a file.
    """
    return rows.coalesce(1) if has_one_task_plans(rows.sparkSession) else rows


def join_batches(batches: Iterable[pa.RecordBatch], schema: StructType) -> pa.Table:
    """Join batches into one table, with the Arrow types that Spark uses for the columns of ``schema``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow_schema = to_arrow_schema(schema)
    arrow_tables = [pa.Table.from_batches([batch]).cast(arrow_schema) for batch in batches]
    return pa.concat_tables(arrow_tables) if arrow_tables else arrow_schema.empty_table()


def as_frame(spark: SparkSession, rows: Rows) -> DataFrame:
    """Return rows as a Spark table."""
    if isinstance(rows, pa.Table):
        return arrow_frame(spark, rows)
    return rows.frame() if isinstance(rows, PartTable) else rows


def source_rows(spark: SparkSession, source: DataSource) -> DataFrame:
    """Return the rows of a data source as a Spark table.

    The source is read part by part, with at most one task per part (see `part_table`).

    Raises:
        Exception: any error of the source's ``reader`` and ``partitions``.
    """
    return part_table(spark, source).frame()


_PARTS_PER_CORE = 4
_PARQUET_BYTE_SECONDS = 150e-9
"""Approximate time to make new rows from one byte of Parquet, in seconds."""


def select_columns(rows: DataFrame, columns: pa.Schema) -> DataFrame:
    """Return the rows with these columns, in this order.

    A column that is not in ``rows`` is null in the result.
    """
    spark_types_by_name = {
        schema_field.name: schema_field.dataType for schema_field in spark_types(columns).fields
    }
    column_values = {
        name: F.col(name) if name in rows.columns else F.lit(None) for name in spark_types_by_name
    }
    return rows.select(
        *(
            column_value.cast(spark_types_by_name[name]).alias(name)
            for name, column_value in column_values.items()
        )
    )


def split_reader_parts(
    spark: SparkSession, table: TableFiles, read: FileReader
) -> Iterable[tuple[FileReader, TableFiles]]:
    """Yield the parts of a `PartTable`, a few for each core.

    Each part consists of the function ``read`` and a group of the table's files. The function makes rows
    from these files.
    """
    return (
        (read, files) for files in table.split_files(spark.sparkContext.defaultParallelism * _PARTS_PER_CORE)
    )


def from_files(
    spark: SparkSession, columns: pa.Schema | StructType, table: TableFiles, read: FileReader
) -> PartTable:
    """Return the rows that ``read`` makes from the files of a table.

    The files are divided into groups, a few for each core. Each group is one part of the result.
    """
    return PartTable(
        spark, spark_types(columns), tuple(split_reader_parts(spark, table, read)), estimate_cost(table)
    )


def estimate_cost(table: TableFiles) -> ReadCost:
    """Return the estimated time that one process needs to make rows from the files of a table."""
    return ReadCost(table.size * _PARQUET_BYTE_SECONDS)
