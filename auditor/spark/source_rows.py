"""The rows of a data source of this package as a table, without asking Spark for it by name.

A source that is read by name is looked up, made and planned by Spark in Python processes of their own, each
of which starts anew: four seconds before the first ledger is read. Whoever has the source itself plans it in
the process that he is in; tasks then read the same parts in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource


def source_rows(spark: SparkSession, source: DataSource) -> DataFrame:
    """The table of a source, one task a part, which is one of what ``partitions`` of its reader gives.

    Raises: what the source's ``reader`` and ``partitions`` raise.
    """
    schema = source.schema()
    reader = source.reader(schema)  # type: ignore[arg-type]  # ours say StructType
    parts = reader.partitions()

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                yield from reader.read(parts[number])

    return spark.range(0, len(parts), 1, max(1, len(parts))).mapInArrow(read, schema)
