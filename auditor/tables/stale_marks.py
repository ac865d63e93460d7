"""stale_marks: the marks of ledgers that have all their copies.

A mark tells a replication worker to look at a ledger and names the bookies that were missing. Nothing but a
worker takes it away, so that marks stay behind when bookies come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.model.columns import LEDGER, schema_of
from auditor.model.states import DECODED
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STALE_MARKS = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; marks are of 0"),
    ("ledger_id", pa.int64(), "a ledger with all its copies, nothing of it being unknown"),
    ("path", pa.string(), "the mark's znode"),
    ("replicas", pa.list_(pa.string()), "the bookies that it says lack copies"),
    ("since", pa.int64(), "when it was last marked, ms"),
    (
        "why",
        pa.string(),
        "returned: all these bookies are registered; repaired: none of them is in an ensemble any more",
    ),
)


def named_marks(marks: DataFrame) -> DataFrame:
    """Readable marks that name a bookie: scope_id, ledger_id, path, replicas, since (ms).

    Marks without a name ask for another placement, and are nobody's trouble.
    """
    return marks.where("damage is null and not misplaced and size(replicas) > 0").select(
        *LEDGER, "path", "replicas", F.coalesce("ctime", "mtime").alias("since")
    )


def stale_marks(marks: DataFrame, verdicts: DataFrame, ledgers: DataFrame, bookies: DataFrame) -> DataFrame:
    """Rows of `STALE_MARKS`, from the tables of a run."""
    named = named_marks(marks)
    healthy = (
        verdicts.where("class = 'healthy' and potential_class = 'healthy'")
        .join(named, [*LEDGER], "left_semi")
        .select(*LEDGER)
    )
    members = (
        ledgers.where(F.col("status").isin(*DECODED))
        .join(named, [*LEDGER], "left_semi")
        .select(*LEDGER, F.col("replicas.bookie_id").alias("members"))
    )
    # A mark is stale only where nothing could still be missing: the potential class is healthy too.
    rows = named.join(healthy, [*LEDGER]).join(members, [*LEDGER]).crossJoin(registered_ids(bookies))
    # Nothing of a mark is done until all its bookies are back, or none of them counts any more.
    returned = F.size(F.array_except("replicas", "registered")) == 0
    repaired = ~F.arrays_overlap("replicas", "members")
    why = F.when(returned, "returned").when(repaired, "repaired")
    return rows.withColumn("why", why).where("why is not null").select(*STALE_MARKS.names)


def registered_ids(bookies: DataFrame) -> DataFrame:
    """One row, one array: the ids of all registered bookies, as many as there are bookies."""
    ids = F.collect_set("bookie_id").alias("registered")
    return F.broadcast(bookies.where("registered is not null").agg(ids))
