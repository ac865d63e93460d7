"""Whose data an index is: not sure where a directory's cookie and its place name two bookies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


def with_attribution(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add the column ``attribution_suspect`` to rows that have a ``bookie_id``.

    Two swapped disks lose nothing. What rests on the data of such a bookie is therefore never confirmed.
    """
    from pyspark.sql import functions as F

    suspect = tables.bookies.where("suspect").select("bookie_id", F.lit(True).alias("attribution_suspect"))
    joined = rows.join(F.broadcast(suspect), "bookie_id", "left")
    return joined.fillna({"attribution_suspect": False})
