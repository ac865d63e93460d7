"""Which ids the check bookie-alias reports as one bookie: others leave to it what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


def reported_aliases(tables: Tables) -> DataFrame:
    """One row an id of an identity that has several: ``identity``, and the columns of both tables of bookies.

    Only identities of which an ensemble names an id that is not registered, and of which another id is named
    or registered. Ids that are all registered answer at one address: `endpoint-duplicate` says so.
    """
    from pyspark.sql import functions as F

    of = tables.identities.where("ids > 1").select("bookie_id", "identity")
    members = tables.bookies.join(F.broadcast(of), "bookie_id")
    reported = (
        members.groupBy("identity")
        .agg(
            F.expr("count_if(named and registered is null)").alias("stranded"),
            F.expr("count_if(named or registered is not null)").alias("known"),
        )
        .where("stranded > 0 and known > 1")
        .select("identity")
    )
    return members.join(F.broadcast(reported), "identity")


def alias_pairs(tables: Tables) -> DataFrame:
    """Every two ids, in both orders, that bookie-alias reports as one: ``bookie_id`` and ``alias``."""
    from pyspark.sql import functions as F

    ids = reported_aliases(tables).select("identity", "bookie_id")
    others = ids.withColumnRenamed("bookie_id", "alias")
    return ids.join(F.broadcast(others), "identity").where("bookie_id <> alias").drop("identity")
