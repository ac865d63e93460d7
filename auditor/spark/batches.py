"""Arrow batches to tables and back: read and worked on by Spark's tasks, or by the driver where they are few.

Two Python processes start before a task has its first row, and load what the driver has loaded already. A
data source that is asked for by name is planned in four more: so sources are planned here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from auditor.spark.part_tables import PartTable, part_table
from auditor.spark.query_plans import in_one_task
from auditor.spark.types import DataFrame, DataSource, InputPartition, SparkSession, StructType

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

HERE_BYTES = 16 << 20
"""Of rows in memory: some 30,000 ledgers, or their indexes."""
HERE_S = 5.0
"""What takes longer is for tasks, which read side by side."""
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


def read_source(
    spark: SparkSession, source: DataSource, parts: Sequence[InputPartition] | None = None
) -> pa.Table | PartTable:
    """The rows of a source: read here and now where they are few, else a table that tasks will read.

    ``parts`` are those to read, None: all that its reader has.

    Raises: as `source_rows`; what reading raises where it is read here.
    """
    return read_few(part_table(spark, source, parts))


def read_few(table: PartTable) -> pa.Table | PartTable:
    """The rows of a table where they are few; where not, what was read, and the other parts for tasks."""
    held: list[pa.RecordBatch] = []
    size, begun = 0, time.monotonic()
    for number, (read, part) in enumerate(table.parts):
        batches: list[pa.RecordBatch] = []
        with closing(read(part)) as rows:  # type: ignore[type-var]  # ours are generators
            for batch in rows:
                batches.append(batch)
                size += batch.nbytes
                if size > HERE_BYTES or time.monotonic() - begun > HERE_S:
                    others = table.parts[number:]
                    return replace(table, parts=((iter, held), *others) if held else others)
        held += batches
    return table_of(held, table.schema)


def as_frame(spark: SparkSession, rows: pa.Table | PartTable | DataFrame) -> DataFrame:
    """What `read_source` gives as a table that queries can be asked of."""
    if isinstance(rows, pa.Table):
        return arrow_frame(spark, rows)
    return rows.frame() if isinstance(rows, PartTable) else rows


def source_rows(spark: SparkSession, source: DataSource) -> DataFrame:
    """The table of a source, one task a part, as `part_table` has it.

    Raises: what the source's ``reader`` and ``partitions`` raise.
    """
    return part_table(spark, source).frame()
