"""Spark's classes by name, for annotations: these are never evaluated, and Spark takes a second to import.

What needs a class itself imports it from `pyspark.sql`, in a function.
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
