"""What lies in bookies' directories besides entry logs, read by Spark's tasks: one task a directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.sources.bookies.disks import SIZES, sizes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def disk_sizes(spark: SparkSession, directories: Sequence[str]) -> DataFrame:
    """Rows of `SIZES`; of a directory that a task cannot see, one that says so."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [sizes_of(directories[number]) for number in batch.column("id").to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=SIZES)

    count = len(directories)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(read, from_arrow_schema(SIZES))
