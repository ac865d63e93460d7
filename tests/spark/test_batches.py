"""Batches that the driver makes a table of are all in the table that Spark makes of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.spark.batches import arrow_frame, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_batch_without_rows_is_not_the_end_of_a_table(spark: SparkSession) -> None:
    batches = [pa.record_batch({"id": pa.array(ids, pa.int64())}) for ids in ([], [1, 2], [], [3], [])]
    schema = from_arrow_schema(batches[0].schema)
    table = table_of(batches, schema)
    assert [row["id"] for row in arrow_frame(spark, table, schema).collect()] == [1, 2, 3]
    assert table_of(batches[:1], schema).num_rows == 0
    assert table_of([], schema).num_rows == 0
