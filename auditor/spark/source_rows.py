"""The rows of a data source of this package as a table, without asking Spark for it by name.

A source that is read by name is looked up, made and planned by Spark in Python processes of their own, each
of which starts anew: four seconds before the first ledger is read. Whoever has the source itself plans it in
the process that he is in; tasks then read the same parts in the same way.

So does the driver itself where a source has little: before a task reads the first of a thousand ledgers, two
Python processes have started and loaded what this one has loaded already.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.spark.batches import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource, InputPartition


HERE_BYTES = 4 << 20
"""Of rows in memory: some 10,000 ledgers or indexes."""
HERE_S = 1.0
"""What takes longer is for tasks, which read side by side."""


def read_source(
    spark: SparkSession, source: DataSource, parts: Sequence[InputPartition] | None = None
) -> pa.Table | DataFrame:
    """The rows of a source: read here and now where they are few, else a table that tasks will read.

    What was read here in vain, a second of it at most, is read again by tasks. ``parts`` as in `source_rows`.

    Raises: as `source_rows`; what reading raises where it is read here.
    """
    few = _read_here(source, parts)
    return source_rows(spark, source, parts) if few is None else few


def as_frame(spark: SparkSession, rows: pa.Table | DataFrame) -> DataFrame:
    """What `read_source` gives as a table that queries can be asked of."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if isinstance(rows, pa.Table):
        return spark.createDataFrame(rows, from_arrow_schema(rows.schema))
    return rows


def _read_here(source: DataSource, parts: Sequence[InputPartition] | None) -> pa.Table | None:
    """All rows of a source; None where they are more than a driver should hold, or take their time."""
    schema = source.schema()
    assert not isinstance(schema, str)
    reader = source.reader(schema)
    batches: list[pa.RecordBatch] = []
    size, begun = 0, time.monotonic()
    for part in reader.partitions() if parts is None else parts:
        with closing(reader.read(part)) as rows:  # type: ignore[type-var]  # ours are generators
            for batch in rows:
                assert isinstance(batch, pa.RecordBatch)
                batches.append(batch)
                size += batch.nbytes
                if size > HERE_BYTES or time.monotonic() - begun > HERE_S:
                    return None
    return table_of(batches, schema)


def source_rows(
    spark: SparkSession, source: DataSource, parts: Sequence[InputPartition] | None = None
) -> DataFrame:
    """The table of a source, one task a part: of ``parts``, or of all that its reader has.

    Raises: what the source's ``reader`` and ``partitions`` raise.
    """
    schema = source.schema()
    reader = source.reader(schema)  # type: ignore[arg-type]  # ours say StructType
    parts = reader.partitions() if parts is None else parts

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                yield from reader.read(parts[number])

    return spark.range(0, len(parts), 1, max(1, len(parts))).mapInArrow(read, schema)
