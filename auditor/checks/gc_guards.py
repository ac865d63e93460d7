"""When a missing ledger should not be believed gone: the guards before garbage collection.

A bookie deletes what its metadata store does not list. A listing that is wrong, or of another cluster, makes
it delete everything. So many orphans at once, or a foreign instance id, say that the listing may be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.attribution import with_attribution

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables

# More than one in twenty, and so many: retention deletes old ledgers every day.
_SHARE = 20
_LEAST = 100


def distrusted_bookies(tables: Tables) -> DataFrame:
    """Bookies for which the metadata looks wrong: bookie_id, rules (that hold), and their figures.

    ``ledgers`` and ``orphans`` are counts; ``vanished`` counts whole ranges of ids. They lie from ``low`` to
    ``high`` in the scope ``vanished_scope``, the one that has most of them.
    """
    from pyspark.sql import functions as F

    of_scope = tables.vanished_ranges.groupBy("bookie_id", F.col("scope_id").alias("vanished_scope")).agg(
        F.count("*").alias("count"), F.min("low").alias("low"), F.max("high").alias("high")
    )
    most = F.max_by(F.struct("vanished_scope", "low", "high"), F.struct("count", "vanished_scope"))
    ranges = (
        of_scope.groupBy("bookie_id")
        .agg(F.sum("count").alias("vanished"), most.alias("most"))
        .select("bookie_id", "vanished", "most.*")
    )
    rows = (
        tables.bookies.select("bookie_id", "foreign_instance")
        .join(tables.holdings.select("bookie_id", "ledgers", "orphans"), "bookie_id", "left")
        .join(ranges, "bookie_id", "left")
        .fillna({"ledgers": 0, "orphans": 0, "vanished": 0})
    )
    rules = {
        "orphan-share": (F.col("orphans") >= _LEAST) & (F.col("orphans") * _SHARE > F.col("ledgers")),
        "every-ledger": (F.col("ledgers") > 0) & (F.col("orphans") >= F.col("ledgers")),
        "vanished-ranges": F.col("vanished") > 0,
        "foreign-instance": F.col("foreign_instance"),
    }
    held = F.array_compact(F.array(*(F.when(rule, F.lit(name)) for name, rule in rules.items())))
    return rows.withColumn("rules", held).where("size(rules) > 0")


def doubted_orphans(tables: Tables) -> DataFrame:
    """The rows of ``orphans`` with ``doubts``: why each may not be one."""
    from pyspark.sql import functions as F

    distrusted = distrusted_bookies(tables).select("bookie_id", F.lit(True).alias("distrusted"))
    rows = with_attribution(tables.orphans, tables).join(F.broadcast(distrusted), "bookie_id", "left")
    doubts = {
        "newer-than-scan": F.col("newer_than_scan"),
        "metadata-suspect": F.col("distrusted"),
        "attribution-suspect": F.col("attribution_suspect"),
    }
    return rows.withColumn(
        "doubts", F.array_compact(F.array(*(F.when(doubt, F.lit(name)) for name, doubt in doubts.items())))
    )
