"""Names of Spark's classes for type annotations, without the import of Spark, which takes a second.

Annotations are never evaluated. If a function needs one of the classes at run time, it imports the class
from `pyspark.sql`.
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
