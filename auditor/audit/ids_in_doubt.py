"""How many ids may be there unseen, as a report says it: the table doubtful_ids, summed up.

And whether that is all of them, for the ledgers lie where LAYOUT does not say.
"""

from __future__ import annotations

from auditor.keys.ledger_tree import MAX_LEDGER_ID, MIN_LEDGER_ID
from auditor.model.amounts import plural
from auditor.model.run_facts import InDoubt
from auditor.model.states import LISTED
from auditor.sources.metadata.ledger_rows import PATH_OF_LAYOUT
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.doubtful_ids import IN_ANOTHER_LAYOUT, WIDE, lost_elsewhere, unseen_ranges

REASONS = 5
"""So many reasons a report gives for ids in doubt."""

MOST_ELSEWHERE = 10_000
"""More ledgers than this in other layouts' places are a whole tree: each of them would be a range."""

_LAYOUT = f"substring(damage, {len(PATH_OF_LAYOUT) + 1})"


def count_ids_in_doubt(doubtful: DataFrame) -> InDoubt | None:
    """How many ids may be there unseen, and why; None where there are none. Runs up to two queries."""
    once = unseen_ranges(doubtful)
    width = F.col("high").cast(WIDE) - F.col("low") + 1
    every = F.col("scope_id").isNull() & (F.col("low") == MIN_LEDGER_ID) & (F.col("high") == MAX_LEDGER_ID)
    row = once.agg(F.sum(width).alias("ids"), F.max(every).alias("every")).first()
    if row is None or row["ids"] is None:
        return None
    # The widest ranges say most of what is not known.
    widest = once.orderBy(width.desc(), "why").limit(REASONS).select("why").collect()
    return InDoubt(ids=None if row["every"] else str(row["ids"]), reasons=[each["why"] for each in widest])


def whole_tree_elsewhere(ledgers: DataFrame, says: str) -> str | None:
    """That at least half of a scan's ledgers, or very many, lie where other layouts keep them; None: not so.

    ``says`` is what says which layout the store has. Runs a query or two.
    """
    if ledgers.where(IN_ANOTHER_LAYOUT).isEmpty():
        return None
    layouts = F.array_sort(F.collect_set(F.expr(_LAYOUT))).alias("layouts")
    own = ledgers.where(F.col("status").isin(*LISTED)).agg(F.count("*").alias("own"))
    [row] = lost_elsewhere(ledgers).agg(F.count("*").alias("lost"), layouts).crossJoin(own).collect()
    if not row["lost"] or (row["lost"] < row["own"] and row["lost"] <= MOST_ELSEWHERE):
        return None
    lie = plural(row["lost"], "ledger lies", "ledgers lie")
    at = " and ".join(row["layouts"])
    return f"{says}, but {lie} at paths of layout {at}, and {row['own']:,} at its own"
