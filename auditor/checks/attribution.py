"""Whose data a directory is, where its cookie, its place and the ledgers in it may name different bookies."""

from __future__ import annotations

from auditor.model.alias_evidence import LEAST_LEDGERS
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.roster import Row


def with_attribution(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add the column ``attribution_suspect`` to rows that have a ``bookie_id``.

    Two swapped disks lose nothing. What rests on the data of such a bookie is therefore never confirmed.
    """
    of = tables.roster.suspect_ids
    suspect = F.coalesce(F.col("bookie_id").isin(of), F.lit(False)) if of else F.lit(False)
    return rows.withColumn("attribution_suspect", suspect)


MARGIN = 10
"""So many ledgers speak for the candidate for each that speaks for the owner."""


def points_elsewhere(row: Row) -> bool:
    """Whether a row of the table contents says that its directory is the candidate's, and not its owner's."""
    least = max(LEAST_LEDGERS, MARGIN * row["worse"])
    return bool(row["candidate"] != row["owner"] and row["better"] >= least)
