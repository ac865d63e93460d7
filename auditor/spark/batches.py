"""Whole Arrow batches: put together, handed to Spark, worked on by its tasks, or where tiny by the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.spark.query_plans import in_one_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ROWS = 4096


def map_batches(rows: DataFrame, work: Work, schema: StructType) -> DataFrame:
    """What ``work`` makes of the batches of a table: rows of ``schema``.

    Of tiny tables it is made here and now, for the Python processes of a task take longer to start than the
    work takes.
    """
    spark = rows.sparkSession
    if not in_one_task(spark):
        return rows.mapInArrow(work, schema)
    batches = rows.toArrow().to_batches(max_chunksize=_ROWS)
    return arrow_frame(spark, table_of(work(iter(batches)), schema), schema)


def arrow_frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """A table that the driver holds, as Spark has it; in the types of ``schema``, or as Arrow has them.

    It goes over in one chunk: Spark 4.3 takes an empty one for the end, and drops the rows behind it.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    made = spark.createDataFrame(table.combine_chunks(), schema or from_arrow_schema(table.schema))
    # Told so, Spark drops every join with an empty table from the plans of the queries to come.
    return in_one_part(made) if table.num_rows else made.where("false")


def in_one_part(rows: DataFrame) -> DataFrame:
    """Rows, in one partition where all tables are; of the driver's and of a file's Spark does not know it."""
    return rows.coalesce(1) if in_one_task(rows.sparkSession) else rows


def table_of(batches: Iterable[pa.RecordBatch], schema: StructType) -> pa.Table:
    """Batches as one table, in the Arrow types that Spark has for the columns of ``schema``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema)
    parts = [pa.Table.from_batches([batch]).cast(wanted) for batch in batches]
    return pa.concat_tables(parts) if parts else wanted.empty_table()
