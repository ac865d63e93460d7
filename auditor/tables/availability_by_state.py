"""availability as the checks ask it: each state of an index by itself.

Checks ask for the few indexes that are not ok, and a cluster has tens of millions of others. Which states
occur at all is known before. So a question after one that does not is answered without a look at any table;
of the others Spark reads the parts of the table that have it, and of no path but these rows' own.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from auditor.model.states import OF_PLACES, OF_REPLICAS, IndexState
from auditor.spark import functions as F
from auditor.tables.unequal import held_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.sources.bookies.index_files.page_size import IndexShapes


def by_state(availability: DataFrame, shapes: IndexShapes) -> DataFrame:
    """The rows of `auditor.tables.unequal.held_groups`, and those of what is not an index of a ledger.

    ``shapes`` must be of these rows. A replica is one row: no bookie's index came in pieces that overlap.
    """

    def of(state: str) -> DataFrame:
        rows = availability.where(F.col("state") == state)
        if state == IndexState.OK and shapes.cut:
            rows = rows.where(~may_be_cut)
        return rows.withColumn("state", F.lit(state))

    may_be_cut = F.col("bookie_id").isin(*shapes.cut)
    parts = [of(state) for state in (*OF_REPLICAS, *OF_PLACES) if state in shapes.states]
    if shapes.cut:
        # No others than these are any longer when they are taken for cut.
        parts.append(
            held_groups(availability.where((F.col("state") == IndexState.OK) & may_be_cut), shapes.pages)
        )
    return reduce(lambda some, more: some.unionByName(more), parts or [availability.where(F.lit(False))])
