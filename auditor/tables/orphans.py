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
    unequal: DataFrame, ledgers: DataFrame, again: DataFrame | None, dated: DataFrame | None, scan_time: int
) -> DataFrame:
    """Ledgers on a bookie that the store does not list: bookie_id, ledger_id, groups, in_m0, newer_than_scan.

    ``again`` is the second scan of a live store: a ledger that either scan lacks is here, ``in_m0`` and
    ``in_m1`` say which had it; a ledger that only the second lists was made in between, and is none. An id
    that a damaged part of the tree could stand for is unknown, and is none either. ``dated`` is availability
    with the times of the index files, where bookies were read later than a saved scan.
    """
    from pyspark.sql import functions as F

    held = unequal.where("index_state != 'absent'")
    known = ledgers.where("status in ('ok', 'broken', 'unreadable')").select(
        "ledger_id", F.lit(True).alias("m0")
    )
    rows = held.join(known, "ledger_id", "left")
    if again is None:
        rows = rows.withColumn("m1", F.col("m0"))
        ranges = _unclear(ledgers)
    else:
        seen = again.where("status in ('ok', 'broken', 'unreadable')").select(
            "ledger_id", F.lit(True).alias("m1")
        )
        rows = rows.join(seen, "ledger_id", "left")
        ranges = _unclear(ledgers).union(_unclear(again))
    gone = rows.where("m1 is null")
    clear = gone.join(
        F.broadcast(ranges), F.col("ledger_id").between(F.col("low"), F.col("high")), "left_anti"
    )
    if dated is None:
        clear = clear.withColumn("index_mtime", F.lit(None).cast("long"))
    else:
        times = dated.where("mtime is not null").select(
            "bookie_id", "ledger_id", F.col("mtime").alias("index_mtime")
        )
        clear = clear.join(times, ["bookie_id", "ledger_id"], "left")
    return clear.select(
        "bookie_id",
        "ledger_id",
        F.col("held").alias("groups"),
        F.coalesce("m0", F.lit(False)).alias("in_m0"),
        F.lit(False).alias("in_m1"),
        F.coalesce(F.col("index_mtime") > scan_time, F.lit(False)).alias("newer_than_scan"),
    )


def _unclear(ledgers: DataFrame) -> DataFrame:
    """Ranges of ids about which the store says nothing: bounded by the number of damaged znodes."""
    return ledgers.where("status in ('misplaced', 'gap') and low is not null").select("low", "high")


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
