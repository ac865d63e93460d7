"""When a missing ledger should not be believed gone: the guards before garbage collection.

A bookie deletes what its metadata store does not list. A listing that is wrong, or of another cluster, makes
it delete everything. So many orphans at once, or a foreign instance id, say that the listing may be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.attribution import with_attribution
from auditor.checks.finding_rows import comma_list, if_known, words
from auditor.spark import functions as F
from auditor.tables.once import once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from auditor.tables import Tables

# More than one in twenty, and so many: retention deletes old ledgers every day, and a handful that was made
# and deleted within one interval of garbage collection may be all that a new bookie has.
_SHARE = 20
_LEAST = 100


@once
def distrusted_bookies(tables: Tables) -> DataFrame:
    """Bookies for which the metadata looks wrong: bookie_id, rules (that hold), and their figures.

    ``ledgers``, ``orphans`` and ``in_doubt`` are counts, the last of orphans that the store may have unseen;
    ``sure`` says that a rule holds without these. On a live store `orphan-share` and `vanished-ranges` need
    so many that an earlier run had already (``lasting``). Of the orphans ``recent`` were in the metadata
    within the collectors' last interval, and count for neither. ``vanished`` counts whole ranges of ids, from
    ``low`` to ``high``, in the scope ``vanished_scope``, the one that has most of them. ``undrawn`` counts
    orphans whose ids, from ``lowest`` to ``highest``, the store's id generator has not given out.
    """
    of_scope = tables.vanished_ranges.groupBy("bookie_id", F.col("scope_id").alias("vanished_scope")).agg(
        F.count("*").alias("count"),
        F.count_if(F.col("in_doubt") == 0).alias("seen"),
        F.min("low").alias("low"),
        F.max("high").alias("high"),
    )
    most = F.max_by(F.struct("vanished_scope", "low", "high"), F.struct("count", "vanished_scope"))
    ranges = (
        of_scope.groupBy("bookie_id")
        .agg(F.sum("count").alias("vanished"), F.sum("seen").alias("seen"), most.alias("most"))
        .select("bookie_id", "vanished", "seen", "most.*")
    )
    rows = (
        tables.bookies.select("bookie_id", "foreign_instance")
        .join(
            tables.holdings.select("bookie_id", "ledgers", "orphans", "in_doubt", "lasting", "recent"),
            "bookie_id",
            "left",
        )
        .join(ranges, "bookie_id", "left")
        .join(F.broadcast(tables.undrawn), "bookie_id", "left")
        .fillna(0, ["ledgers", "orphans", "in_doubt", "lasting", "recent", "vanished", "seen", "undrawn"])
    )
    bare, live = F.lit(tables.cluster.bare), F.lit(tables.cluster.live)
    every = _rules(F.col("orphans"), F.col("orphans") - F.col("recent"), F.col("vanished"), bare)
    seen = F.col("orphans") - F.col("in_doubt")
    # Ledgers that were deleted since the last collection can be most of what a busy cluster's bookie has, and
    # with one age for all of them the oldest ids go range by range.
    share = F.when(live, F.col("lasting")).otherwise(seen - F.col("recent"))
    ranges_gone = F.when(live & (F.col("lasting") < _LEAST), 0).otherwise(F.col("seen"))
    # A saved store that looks bare may be a copy that was cut short.
    sure = _rules(seen, share, ranges_gone, bare & live)
    return rows.withColumns({"rules": every, "sure": F.size(sure) > 0}).where("size(rules) > 0")


def _rules(orphans: Column, share: Column, vanished: Column, bare: Column) -> Column:
    """The rules that hold with so many orphans and vanished ranges, in a store that is bare or not.

    ``share`` is how many of the orphans count for `orphan-share`.
    """
    rules = {
        "orphan-share": (share >= _LEAST) & (share * _SHARE > F.col("ledgers")),
        "every-ledger": (orphans >= _LEAST) & (orphans >= F.col("ledgers")),
        "vanished-ranges": vanished > 0,
        "foreign-instance": F.col("foreign_instance"),
        "store-older": F.col("undrawn") > 0,
        "store-bare": bare & (orphans > 0),
    }
    return F.array_compact(F.array(*(F.when(rule, F.lit(name)) for name, rule in rules.items())))


@once
def doubted_orphans(tables: Tables) -> DataFrame:
    """The rows of ``orphans`` with ``doubts``: why each may not be one."""
    distrusted = distrusted_bookies(tables).select("bookie_id", F.lit(True).alias("distrusted"))
    rows = with_attribution(tables.orphans, tables).join(F.broadcast(distrusted), "bookie_id", "left")
    doubts = {
        "newer-than-scan": F.col("newer_than_scan"),
        "metadata-suspect": F.col("distrusted"),
        "attribution-suspect": F.col("attribution_suspect"),
        "id-in-doubt": F.col("doubt").isNotNull(),
    }
    return rows.withColumn(
        "doubts", F.array_compact(F.array(*(F.when(doubt, F.lit(name)) for name, doubt in doubts.items())))
    )


def doubt_clause() -> Column:
    """The end of a sentence about a row of `doubted_orphans`: its doubts, and which part of the store."""
    which = if_known(words(" (", F.col("doubt"), ")"))
    return F.when(F.size("doubts") > 0, words("; in doubt: ", comma_list(F.col("doubts")), which)).otherwise(
        ""
    )
