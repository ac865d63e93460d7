"""Many rows told as one: how many there are, and the first few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SHOWN = 10


def with_samples(rows: DataFrame, by: str | Sequence[str], of: str, *others: Column) -> DataFrame:
    """One row for each value of ``by``: ``total`` rows, the first 10 values ``of`` as ``sample``, ``others``.

    ``by`` is a column, or several; ``others`` are further aggregates. Numbering the rows first keeps the list
    of a group of millions short.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = [by] if isinstance(by, str) else list(by)
    number = F.row_number().over(Window.partitionBy(*keys).orderBy(of))
    shown = F.collect_list(F.when(F.col("_number") <= SHOWN, F.col(of)))
    return (
        rows.withColumn("_number", number)
        .groupBy(*keys)
        .agg(F.count("*").alias("total"), F.array_sort(shown).alias("sample"), *others)
    )
