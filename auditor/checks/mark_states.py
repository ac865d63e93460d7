"""Under-replication marks beside what they speak of: which are stale, and which belong to no ledger.

A mark tells a replication worker to look at a ledger and names the bookies that were missing. Marks without
a name ask for another placement, and are nobody's trouble. Those that cannot be read are another check's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import LEDGER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


def named_marks(tables: Tables) -> DataFrame:
    """Readable marks that name a bookie: scope_id, ledger_id, path, replicas, since (ms)."""
    from pyspark.sql import functions as F

    return tables.marks.where("damage is null and not misplaced and size(replicas) > 0").select(
        *LEDGER, "path", "replicas", F.coalesce("ctime", "mtime").alias("since")
    )


def stale_marks(tables: Tables) -> DataFrame:
    """Marks of ledgers that have all their copies: those of `named_marks`, with ``why``.

    ``why`` is "returned" where every bookie that the mark names is registered, "repaired" where none of them
    is in an ensemble any more.
    """
    from pyspark.sql import functions as F

    marks = named_marks(tables)
    healthy = (
        tables.verdicts.where("class = 'healthy' and potential_class = 'healthy'")
        .join(marks, [*LEDGER], "left_semi")
        .select(*LEDGER)
    )
    members = (
        tables.ledgers.where("status in ('ok', 'broken')")
        .join(marks, [*LEDGER], "left_semi")
        .select(*LEDGER, F.col("replicas.bookie_id").alias("members"))
    )
    rows = marks.join(healthy, [*LEDGER]).join(members, [*LEDGER]).crossJoin(registered(tables))
    returned = F.size(F.array_except("replicas", "registered")) == 0
    repaired = ~F.arrays_overlap("replicas", "members")
    why = F.when(returned, "returned").when(repaired, "repaired")
    return rows.withColumn("why", why).where("why is not null").drop("members", "registered")


def deleted_marks(tables: Tables) -> DataFrame:
    """Marks of ledgers that no row of the ledger tree stands for, or could stand for."""
    from pyspark.sql import functions as F

    marks = named_marks(tables)
    # Of all ledgers only those that a mark is of: what is joined stays as small as the marks are.
    known = (
        tables.ledgers.where("ledger_id is not null")
        .select(*LEDGER)
        .join(marks.select(*LEDGER), [*LEDGER], "left_semi")
    )
    # Marks are of scope 0; a gap without a scope could be of any.
    unclear = tables.ledgers.where(
        "status in ('misplaced', 'gap') and low is not null and coalesce(scope_id, 0) = 0"
    ).select("low", "high")
    return marks.join(known, [*LEDGER], "left_anti").join(
        F.broadcast(unclear), F.col("ledger_id").between(F.col("low"), F.col("high")), "left_anti"
    )


def registered(tables: Tables) -> DataFrame:
    """One row, one array: the ids of all registered bookies, as many as there are bookies."""
    from pyspark.sql import functions as F

    ids = F.collect_set("bookie_id").alias("registered")
    return F.broadcast(tables.bookies.where("registered is not null").agg(ids))
