"""How many ids may be there unseen, as a report says it: the table doubtful_ids, summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.keys.ledger_tree import MAX_LEDGER_ID, MIN_LEDGER_ID
from auditor.model.report import InDoubt
from auditor.tables.doubtful_ids import WIDE, unseen_ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASONS = 5
"""So many reasons a report gives for ids in doubt."""


def count_ids_in_doubt(doubtful: DataFrame) -> InDoubt | None:
    """How many ids may be there unseen, and why; None where there are none. Runs up to two queries."""
    from pyspark.sql import functions as F

    once = unseen_ranges(doubtful)
    width = F.col("high").cast(WIDE) - F.col("low") + 1
    every = F.col("scope_id").isNull() & (F.col("low") == MIN_LEDGER_ID) & (F.col("high") == MAX_LEDGER_ID)
    row = once.agg(F.sum(width).alias("ids"), F.max(every).alias("every")).first()
    if row is None or row["ids"] is None:
        return None
    # The widest ranges say most of what is not known.
    widest = once.orderBy(width.desc(), "why").limit(REASONS).select("why").collect()
    return InDoubt(ids=None if row["every"] else str(row["ids"]), reasons=[each["why"] for each in widest])
