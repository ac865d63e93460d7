"""What bookies hold and metadata does not ask of them: orphans, and ledgers of other ensembles.

All of it starts from the unequal pairs, so the work follows what is odd and not the size of the cluster.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from auditor.model.check_settings import CheckSettings
from auditor.model.columns import LEDGER, schema_of
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID
from auditor.model.states import ON_DISK
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.parts import filter_part
from auditor.tables.scans import deleted_ids, new_ids, scan_ids, with_both_doubts

COLLECTED_WITHIN_MS = 3_600_000
"""A bookie's collector has passed within so long: it does every 15 minutes, unless compaction holds it up."""

_PAIR = ("bookie_id", *LEDGER)


class Lately(NamedTuple):
    """What says that a ledger was in the metadata within the collectors' last interval before the first scan.

    ``listed``: the ids that an earlier run listed then; None: there is no such run. ``drawn``: the store's id
    generator gave out the ids from the first to before the second since then; None: nothing says which.
    """

    listed: DataFrame | None = None
    drawn: tuple[int, int] | None = None


ORPHANS = schema_of(
    ("bookie_id", pa.string(), "the bookie that holds it"),
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "a ledger that the last scan of the metadata does not list"),
    ("groups", pa.binary(), "the entries held, 24 bytes a group"),
    ("in_m0", pa.bool_(), "the first scan listed it"),
    ("in_m1", pa.bool_(), "the last scan listed it"),
    (
        "newer_than_scan",
        pa.bool_(),
        "its index file is newer than a saved scan, or its id above all that one lists (RocksDB)",
    ),
    (
        "doubt",
        pa.string(),
        "why the store may have it all the same, where it was not seen; null: nothing says so",
    ),
)

HOLDINGS = schema_of(
    ("bookie_id", pa.string(), "a bookie with an index"),
    ("ledgers", pa.int64(), "ledgers that it has an index of"),
    ("orphans", pa.int64(), "of these, ledgers that the metadata does not list"),
    ("in_doubt", pa.int64(), "of the orphans, those with a doubt (orphans)"),
    (
        "lasting",
        pa.int64(),
        "of the others, those that a run which ended an hour or more before had already; 0: or none did",
    ),
    (
        "recent",
        pa.int64(),
        "of these others, those that were in the metadata within a collector's interval before the scan",
    ),
    (
        "unexplained",
        pa.int64(),
        "orphans that both scans lack, less those that are recent, newer than the scan, or dropped by their "
        "owner: owners were read, and none names them",
    ),
)

VANISHED_RANGES = schema_of(
    ("bookie_id", pa.string(), "the bookie"),
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("low", pa.int64(), "first id of a range of 10,000 of which it holds orphans only"),
    ("high", pa.int64(), "last id of the range"),
    ("ledgers", pa.int64(), "ledgers that it holds there"),
    ("in_doubt", pa.int64(), "of these, orphans with a doubt (orphans)"),
)


def orphans(
    unequal: DataFrame,
    indexes: DataFrame,
    ledgers: DataFrame,
    again: DataFrame | None,
    moved: DataFrame | None,
    scan_time: int,
    index_times: Mapping[str, int | None],
    doubtful: DataFrame | None = None,
    all_ledgers: DataFrame | None = None,
) -> DataFrame:
    """Ledgers on a bookie that the store does not list, one row per pair.

    ``indexes`` is what the bookies hold, ``again`` a live store's second scan and ``moved`` what is different
    in it (`auditor.tables.scans`; None for a saved store), ``index_times`` how new each bookie's index is, in
    ms, None where nothing says. A ledger that the first scan lists and the second does not was deleted in
    between, and each of its copies is here, a healthy one too. A ledger that only the second lists was made
    in between, and is none. ``doubt`` says why the store may have the ledger all the same, unseen: its id is
    one of ``doubtful`` (`auditor.tables.scans`; None: no id is); null where nothing says so.

    Of ``ledgers`` those of the unequal pairs are enough; ``all_ledgers`` has all of them then. So it is with
    ``indexes`` where nothing moved. Of ``index_times`` those of RocksDB indexes are asked for.
    """
    had = unequal.where(F.col("index_state").isin(*ON_DISK))
    scanned_ids = scan_ids(ledgers)
    # Of all ledgers only those that an unequal pair is of: what is joined stays as small as the pairs are.
    never = had.join(scanned_ids.join(had.select(*LEDGER), [*LEDGER], "left_semi"), [*LEDGER], "left_anti")
    orphan_rows = never.select(*_PAIR, F.col("held").alias("groups"), F.lit(False).alias("in_m0"))
    candidates = had.select(*_PAIR)
    if again is not None and moved is not None:
        deleted_indexes = indexes.where(_is_had()).join(deleted_ids(moved), [*LEDGER])
        orphan_rows = orphan_rows.join(new_ids(moved), [*LEDGER], "left_anti").unionByName(
            deleted_indexes.select(*_PAIR, "groups", F.lit(True).alias("in_m0"))
        )
        candidates = candidates.unionByName(deleted_indexes.select(*_PAIR))
    orphan_rows = orphan_rows.withColumn("doubt", F.lit(None).cast("string"))
    if doubtful is not None:
        # One that the first scan lists is in question only where the second may have missed it.
        doubt = F.coalesce("second", F.when(~F.col("in_m0"), F.col("first")))
        orphan_rows = with_both_doubts(orphan_rows.drop("doubt"), doubtful).withColumn("doubt", doubt)
        orphan_rows = orphan_rows.drop("first", "second")
    dated = indexes.where(F.col("mtime") > scan_time).select(*_PAIR)
    later = [name for name, index_time in index_times.items() if index_time is None or index_time > scan_time]
    if again is None and later:
        dated = dated.unionByName(
            _above_all(indexes, scan_ids(ledgers if all_ledgers is None else all_ledgers), later)
        )
    newer = dated.join(candidates, [*_PAIR], "left_semi").distinct().withColumn("newer", F.lit(True))
    return orphan_rows.join(newer, [*_PAIR], "left").select(
        *_PAIR,
        "groups",
        "in_m0",
        F.lit(False).alias("in_m1"),
        F.coalesce("newer", F.lit(False)).alias("newer_than_scan"),
        "doubt",
    )


def _is_had(empty: str = "length(groups) = 0") -> Column:
    """Which rows of availability are of a ledger that the bookie has."""
    # A bookie that was asked for one ledger and has nothing of it does not have it.
    asked_in_vain = (F.col("storage") == "rpc") & F.expr(empty)
    return F.col("state").isin(*ON_DISK) & ~asked_in_vain


def _above_all(indexes: DataFrame, listed: DataFrame, bookies: list[str]) -> DataFrame:
    """Pairs of a RocksDB index, which keeps no times, whose ledger may be younger than the scan.

    Ids grow: one above the highest that the scan lists in its scope, or in a scope of which it lists none,
    may have been made after it.
    """
    highest = listed.groupBy("scope_id").agg(F.max("ledger_id").alias("highest"))
    rows = indexes.where((F.col("storage") == "rocksdb") & F.col("bookie_id").isin(bookies)).select(*_PAIR)
    above = F.col("highest").isNull() | (F.col("ledger_id") > F.col("highest"))
    return rows.join(F.broadcast(highest), "scope_id", "left").where(above).select(*_PAIR)


def _with_recent(orphans: DataFrame, lately: Lately) -> DataFrame:
    """The orphans with ``recent``: they were in the metadata lately, and await their collector."""
    recent = F.lit(False)
    if lately.drawn is not None:
        first, following = lately.drawn
        recent = (F.col("scope_id") == 0) & F.col("ledger_id").between(first, following - 1)
    if lately.listed is None:
        return orphans.withColumn("recent", recent)
    # Of all ledgers only those that are orphans now.
    listed = lately.listed.join(orphans.select(*LEDGER).distinct(), [*LEDGER], "left_semi")
    rows = orphans.join(listed.distinct().withColumn("seen", F.lit(True)), [*LEDGER], "left")
    return rows.withColumn("recent", recent | F.col("seen").isNotNull()).drop("seen")


def _with_dropped(orphans: DataFrame, owned: DataFrame | None) -> DataFrame:
    """Return the orphans with ``dropped``: owners were read, and none of them names the ledger."""
    if owned is None:
        return orphans.withColumn("dropped", F.lit(False))
    owned_ids = owned.select(*LEDGER).distinct().withColumn("named", F.lit(True))
    rows = orphans.join(owned_ids, [*LEDGER], "left")
    return rows.withColumn("dropped", F.col("named").isNull()).drop("named")


def holdings(
    counts: DataFrame,
    orphans: DataFrame,
    earlier: DataFrame | None = None,
    lately: Lately | None = None,
    owned: DataFrame | None = None,
) -> DataFrame:
    """How many ledgers each bookie has an index of, how many are orphans, and how many of these in doubt.

    One row per bookie. ``counts`` are those of all indexes (`auditor.tables.index_counts`). ``earlier`` are
    the orphans of a run that ended `COLLECTED_WITHIN_MS` before, or more: ``lasting`` counts those that are
    orphans here too, without a doubt; None: there is no such run. ``recent`` counts those of the others that
    were in the metadata ``lately``. ``owned`` are the ledgers that owners name, or None if owners were not
    read: then no orphan counts as dropped by its owner.
    """
    ledgers = counts.where(_is_had("empty")).groupBy("bookie_id").agg(F.sum("number").alias("ledgers"))
    recent = F.count_if(F.col("recent") & F.col("doubt").isNull()).alias("recent")
    dated = _with_dropped(_with_recent(orphans, lately or Lately()), owned)
    explained = F.col("recent") | F.col("in_m0") | F.col("newer_than_scan") | F.col("dropped")
    unexplained = F.count_if(~explained).alias("unexplained")
    rows = _with_orphans(ledgers, dated, ["bookie_id"], recent, unexplained)
    if earlier is None:
        return rows.withColumn("lasting", F.lit(0).cast("long"))
    lasting_orphans = orphans.where("doubt is null").join(earlier.select(*_PAIR), [*_PAIR], "left_semi")
    lasting = lasting_orphans.groupBy("bookie_id").agg(F.count("*").alias("lasting"))
    return rows.join(lasting, "bookie_id", "left").fillna({"lasting": 0})


def vanished_ranges(
    availability: DataFrame,
    orphans: DataFrame,
    lately: Lately | None = None,
    settings: CheckSettings | None = None,
) -> DataFrame:
    """Blocks of ids of which a bookie holds ledgers, all of them orphans, ``vanished_ledgers`` or more.

    Rows of `VANISHED_RANGES`; ``in_doubt`` counts those whose id is. Orphans that were in the metadata
    ``lately`` do not count among the least number. By default a block is a leaf of the hierarchical layouts:
    a vanished inner znode takes a whole one along.
    """
    settings = settings or CheckSettings()
    block = settings.vanished_block_ids
    # Downwards, for negative ids too: other scopes have them.
    leaf = F.expr(f"ledger_id div {block} - if(ledger_id % {block} < 0, 1, 0)")
    leaves = ["bookie_id", "scope_id", "leaf"]
    lost = _with_recent(orphans, lately or Lately()).withColumn("leaf", leaf)
    many = (
        lost.where("not recent").groupBy(*leaves).count().where(F.col("count") >= settings.vanished_ledgers)
    )
    held_ledgers = availability.where(_is_had()).withColumn("leaf", leaf).join(many, leaves, "left_semi")
    ledgers = held_ledgers.groupBy(*leaves).agg(F.count("*").alias("ledgers"))
    whole = _with_orphans(ledgers, lost, leaves).where(F.col("ledgers") == F.col("orphans"))
    # The first and the last leaf of all reach beyond the least and the greatest id.
    low = F.try_multiply("leaf", F.lit(block))
    high = F.try_multiply(F.col("leaf") + 1, F.lit(block)) - 1
    return whole.select(
        "bookie_id",
        "scope_id",
        F.coalesce(low, F.lit(MIN_LEDGER_ID)).alias("low"),
        F.coalesce(high, F.lit(MAX_LEDGER_ID)).alias("high"),
        "ledgers",
        "in_doubt",
    )


def _with_orphans(ledgers: DataFrame, orphans: DataFrame, keys: list[str], *counts: Column) -> DataFrame:
    """How many ledgers are held by some columns, with the orphans, those whose id is in doubt, and more
    counts."""
    doubted = F.count("doubt").alias("in_doubt")
    lost = orphans.groupBy(*keys).agg(F.count("*").alias("orphans"), doubted, *counts)
    numbers = [name for name in lost.columns if name not in keys]
    return ledgers.join(lost, keys, "left").fillna(0, numbers)


def find_over_replicated(
    judged: DataFrame, ledgers: DataFrame, marks: DataFrame, locks: DataFrame, bookies: DataFrame
) -> DataFrame:
    """Ledgers on a bookie that no ensemble of theirs names, one row per pair.

    scope_id, ledger_id, bookie_id, count (entries held), behind_end (of these, unexplained ones behind the
    ledger's end), state, marked, locked, exposed (a member is
    unregistered or read-only, so that the copy may be one that an operator is making).
    """
    pairs = filter_part("over_replicated", judged).select(*LEDGER, "state", F.explode("foreign").alias("f"))
    pairs = pairs.select(*LEDGER, "state", "f.bookie_id", F.col("f.count").alias("count"), "f.behind_end")
    weak = F.broadcast(
        bookies.where("registered is null or registered = 'readonly'").select(
            F.col("bookie_id").alias("member")
        )
    )
    members = (
        ledgers.select(*LEDGER, "replicas")
        .join(pairs.select(*LEDGER).distinct(), [*LEDGER], "left_semi")
        .select(*LEDGER, F.explode("replicas.bookie_id").alias("member"))
    )
    exposed = members.join(weak, "member").select(*LEDGER).distinct().withColumn("exposed", F.lit(True))
    flagged = (
        pairs.join(exposed, [*LEDGER], "left")
        .join(marks.select(*LEDGER, F.lit(True).alias("marked")).distinct(), [*LEDGER], "left")
        .join(locks.select(*LEDGER, F.lit(True).alias("locked")).distinct(), [*LEDGER], "left")
    )
    return flagged.fillna({"exposed": False, "marked": False, "locked": False})
