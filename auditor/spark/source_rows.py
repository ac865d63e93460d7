"""The rows of a data source of this package as a table, without asking Spark for it by name.

A source that is read by name is looked up, made and planned by Spark in Python processes of their own, each
of which starts anew: four seconds before the first ledger is read. Whoever has the source itself plans it in
the process that he is in; tasks then read the same parts in the same way.

So does the driver itself where a source has little: before a task reads the first of a thousand ledgers, two
Python processes have started and loaded what this one has loaded already.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.spark.batches import arrow_frame, table_of
from auditor.spark.part_tables import PartTable, part_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource, InputPartition


HERE_BYTES = 16 << 20
"""Of rows in memory: some 30,000 ledgers, or their indexes."""
HERE_S = 5.0
"""What takes longer is for tasks, which read side by side."""


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
