"""Names of Spark's classes for annotations, without importing Spark, which takes a second.

Annotations are never evaluated. A function that needs one of the classes at run time imports it from
`pyspark.sql`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource, InputPartition
    from pyspark.sql.types import StructType
else:
    Column = DataFrame = SparkSession = DataSource = InputPartition = StructType = Any

__all__ = ["Column", "DataFrame", "DataSource", "InputPartition", "SparkSession", "StructType"]
