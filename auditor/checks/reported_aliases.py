"""Which ids the check bookie-alias reports as one bookie: others leave to it what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


def reported_aliases(tables: Tables) -> DataFrame:
    """One row an id that bookie-alias speaks of: its ``identity``, and the columns of the table bookies.

    Only identities that strand a ledger: ids that are all registered are of one address, and
    `endpoint-duplicate` says so.
    """
    from pyspark.sql import functions as F

    stranded = tables.identities.where("stranded").select("bookie_id", "identity")
    return tables.bookies.join(F.broadcast(stranded), "bookie_id")


def alias_pairs(tables: Tables) -> DataFrame:
    """Every two ids, in both orders, that bookie-alias reports as one: ``bookie_id`` and ``alias``."""
    from pyspark.sql import functions as F

    return tables.identities.where("stranded").select("bookie_id", F.explode("aliases").alias("alias"))
