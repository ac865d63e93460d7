"""What bookies hold and metadata does not ask of them: orphans, and ledgers of other ensembles.

All of it starts from the unequal pairs, so the work follows what is odd and not the size of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# One leaf of the hierarchical layouts holds this many ids; a vanished inner znode takes a whole one along.
_LEAF_IDS = 10_000
# Retention deletes old ledgers in id order: fewer orphans than this in one leaf are everyday life.
_LEAST_VANISHED = 100


def orphans(
    unequal: DataFrame,
    indexes: DataFrame,
    ledgers: DataFrame,
    again: DataFrame | None,
    scan_time: int,
) -> DataFrame:
    """Ledgers on a bookie that the store does not list, one row a pair.

    ``indexes`` is what the bookies hold, ``again`` a live store's second scan: a ledger that the first scan
    lists and the second does not was deleted in between, and each of its copies is here, a healthy one too. A
    ledger that only the second lists was made in between, and is none. An id that a damaged part of the tree
    could stand for is unknown, and is none either.
    """
    from pyspark.sql import functions as F

    columns = ("bookie_id", "ledger_id")
    known = _listed(ledgers)
    never = unequal.where("index_state != 'absent'").join(known, "ledger_id", "left_anti")
    gone = never.select(*columns, F.col("held").alias("groups"), F.lit(False).alias("in_m0"))
    unclear = _unclear(ledgers)
    if again is not None:
        listed = _listed(again)
        deleted = indexes.join(known.join(listed, "ledger_id", "left_anti"), "ledger_id")
        gone = gone.join(listed, "ledger_id", "left_anti").unionByName(
            deleted.select(*columns, "groups", F.lit(True).alias("in_m0"))
        )
        unclear = unclear.union(_unclear(again))
    could_be = F.col("ledger_id").between(F.col("low"), F.col("high"))
    clear = gone.join(F.broadcast(unclear), could_be, "left_anti")
    dated = indexes.where(F.col("mtime") > scan_time).select(*columns, F.lit(True).alias("newer"))
    return clear.join(dated, [*columns], "left").select(
        *columns,
        "groups",
        "in_m0",
        F.lit(False).alias("in_m1"),
        F.coalesce("newer", F.lit(False)).alias("newer_than_scan"),
    )


def _listed(ledgers: DataFrame) -> DataFrame:
    """The ids that a scan lists as ledgers, whatever their metadata say."""
    return ledgers.where("status in ('ok', 'broken', 'unreadable')").select("ledger_id")


def _unclear(ledgers: DataFrame) -> DataFrame:
    """Ranges of ids about which the store says nothing: bounded by the number of damaged znodes.

    The id that the server makes of a misplaced znode may lie outside of what the znode could stand for.
    """
    broken = ledgers.where("status in ('misplaced', 'gap')")
    listed = broken.where("ledger_id is not null").selectExpr("ledger_id as low", "ledger_id as high")
    return broken.where("low is not null").select("low", "high").union(listed)


def holdings(availability: DataFrame, orphans: DataFrame) -> DataFrame:
    """How many ledgers each bookie has an index of, and how many are orphans: one row a bookie."""
    from pyspark.sql import functions as F

    return (
        _counted(availability, orphans)
        .groupBy("bookie_id")
        .agg(F.sum("ledgers").alias("ledgers"), F.sum("orphans").alias("orphans"))
    )


def vanished_ranges(availability: DataFrame, orphans: DataFrame) -> DataFrame:
    """Leaves of 10,000 ids of which a bookie holds at least 100 ledgers, all of them orphans."""
    from pyspark.sql import functions as F

    whole = _counted(availability, orphans).where(
        (F.col("ledgers") == F.col("orphans")) & (F.col("orphans") >= _LEAST_VANISHED)
    )
    return whole.select(
        "bookie_id",
        (F.col("leaf") * _LEAF_IDS).alias("low"),
        (F.col("leaf") * _LEAF_IDS + (_LEAF_IDS - 1)).alias("high"),
        "ledgers",
    )


def _counted(availability: DataFrame, orphans: DataFrame) -> DataFrame:
    """Ledgers and orphans by bookie and leaf."""
    from pyspark.sql import functions as F

    leaf = F.expr(f"ledger_id div {_LEAF_IDS}").alias("leaf")
    held = availability.where("state in ('ok', 'cut', 'unreadable')").groupBy("bookie_id", leaf)
    lost = orphans.groupBy("bookie_id", leaf)
    return (
        held.agg(F.count("*").alias("ledgers"))
        .join(lost.agg(F.count("*").alias("orphans")), ["bookie_id", "leaf"], "left")
        .fillna({"orphans": 0})
    )


def over_replicated(
    judged: DataFrame, ledgers: DataFrame, marks: DataFrame, locks: DataFrame, bookies: DataFrame
) -> DataFrame:
    """Ledgers on a bookie that no ensemble of theirs names, one row a pair.

    ledger_id, bookie_id, count (entries held), state, marked, locked, exposed (a member is unregistered or
    read-only, so that the copy may be one that an operator is making).
    """
    from pyspark.sql import functions as F

    pairs = judged.where("size(foreign) > 0").select("ledger_id", "state", F.explode("foreign").alias("f"))
    pairs = pairs.select("ledger_id", "state", "f.bookie_id", F.col("f.count").alias("count"))
    weak = F.broadcast(
        bookies.where("registered is null or registered = 'readonly'").select(
            F.col("bookie_id").alias("member")
        )
    )
    members = (
        ledgers.select("ledger_id", "replicas")
        .join(pairs.select("ledger_id").distinct(), "ledger_id", "left_semi")
        .select("ledger_id", F.explode("replicas.bookie_id").alias("member"))
    )
    exposed = members.join(weak, "member").select("ledger_id").distinct().withColumn("exposed", F.lit(True))
    flagged = (
        pairs.join(exposed, "ledger_id", "left")
        .join(marks.select("ledger_id", F.lit(True).alias("marked")).distinct(), "ledger_id", "left")
        .join(locks.select("ledger_id", F.lit(True).alias("locked")).distinct(), "ledger_id", "left")
    )
    return flagged.fillna({"exposed": False, "marked": False, "locked": False})
