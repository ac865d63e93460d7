"""Whose data an index is: not sure where a directory's cookie and its place name two bookies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


def with_attribution(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add the column ``attribution_suspect`` to rows that have a ``bookie_id``.

    Two swapped disks lose nothing. What rests on the data of such a bookie is therefore never confirmed.
    """
    of = tables.roster.suspect_ids
    suspect = F.coalesce(F.col("bookie_id").isin(of), F.lit(False)) if of else F.lit(False)
    return rows.withColumn("attribution_suspect", suspect)
