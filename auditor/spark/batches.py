"""Work on whole Arrow batches: by Spark's tasks, or by the driver where the tables of an audit are tiny."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.spark.query_plans import in_one_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
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
    return spark.createDataFrame(table_of(work(iter(batches)), schema), schema)


def table_of(batches: Iterable[pa.RecordBatch], schema: StructType) -> pa.Table:
    """Batches as one table, in the Arrow types that Spark has for the columns of ``schema``.

    None of its chunks is empty: Spark takes the first empty one for the end of a table that it is given.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema)
    parts = [pa.Table.from_batches([batch]).cast(wanted) for batch in batches if batch.num_rows]
    return pa.concat_tables(parts) if parts else wanted.empty_table()
