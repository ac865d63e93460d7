"""orphans, over_replicated: copies on bookies that the metadata does not require.

An orphan is a ledger that is on a bookie but not in the store's listing. An over-replicated copy is on a
bookie that no ensemble of the ledger names. All queries start from the unequal pairs, which are the (ledger,
bookie) pairs whose expected and held entries differ. So the time of the queries depends on the number of
differences, not on the size of the cluster.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from auditor.model.check_settings import CheckSettings
from auditor.model.columns import LEDGER, make_schema
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID
from auditor.model.states import DISK_STATES
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.parts import filter_table_part
from auditor.tables.scans import add_both_doubt_columns, deleted_ids, ids_in_scan, new_ids

MAX_GC_INTERVAL_MS = 3_600_000
"""Time in which a bookie's garbage collector certainly runs once, in ms.

It runs every 15 minutes, unless compaction delays it.
"""

_REPLICA_KEY = ("bookie_id", *LEDGER)


class RecentIds(NamedTuple):
    """Evidence that the metadata had a ledger until recently.

    Recently means: within one interval of the garbage collectors before the first scan. ``listed_ids`` are
    the ids that an earlier run listed in that interval. It is None if there is no such run.
    ``issued_id_range`` is the range of ids that the store's generator has given out since the interval began.
    It has the first id, and the id after the last. It is None if the range is unknown.
    """

    listed_ids: DataFrame | None = None
    issued_id_range: tuple[int, int] | None = None


ORPHANS = make_schema(
    ("bookie_id", pa.string(), "the bookie that has the ledger"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("ledger_id", pa.int64(), "a ledger that the last scan of the metadata does not list"),
    ("groups", pa.binary(), "entries of the ledger on the bookie, as groups of 24 bytes"),
    ("in_m0", pa.bool_(), "whether the first scan of the metadata listed the ledger"),
    ("in_m1", pa.bool_(), "whether the last scan of the metadata listed the ledger"),
    (
        "newer_than_scan",
        pa.bool_(),
        "whether the ledger may be newer than the saved metadata: its index file is newer, or, on RocksDB, "
        "its id is above all listed ids",
    ),
    (
        "doubt",
        pa.string(),
        "reason why the ledger may be in the store although no scan saw it; null: no doubt",
    ),
)

HOLDINGS = make_schema(
    ("bookie_id", pa.string(), "a bookie with an index"),
    ("ledgers", pa.int64(), "number of ledgers in the bookie's index"),
    ("orphans", pa.int64(), "number of the bookie's ledgers that the metadata does not list"),
    (
        "in_doubt",
        pa.int64(),
        "number of orphans for which the column doubt of the table orphans has a reason",
    ),
    (
        "lasting",
        pa.int64(),
        "number of orphans, without those of in_doubt, that a run at least an hour earlier had also found. "
        "0 if there is no such run",
    ),
    (
        "recent",
        pa.int64(),
        "number of orphans, without those of in_doubt, whose metadata was deleted less than one garbage "
        "collection interval before the scan",
    ),
    (
        "unexplained",
        pa.int64(),
        "number of orphans that neither scan lists. Recent orphans, orphans newer than the scan, and "
        "orphans that their owner dropped do not count",
    ),
)

VANISHED_RANGES = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("low", pa.int64(), "first id of a range of 10,000 ids in which all ledgers of the bookie are orphans"),
    ("high", pa.int64(), "last id of the range"),
    ("ledgers", pa.int64(), "number of the bookie's ledgers in the range"),
    (
        "in_doubt",
        pa.int64(),
        "number of the range's ledgers for which the column doubt of the table orphans has a reason",
    ),
)


def orphans(
    unequal_pairs: DataFrame,
    indexes: DataFrame,
    ledgers: DataFrame,
    second_scan: DataFrame | None,
    moved_ledgers: DataFrame | None,
    scan_time: int,
    index_times: Mapping[str, int | None],
    doubtful_ids: DataFrame | None = None,
    all_ledgers: DataFrame | None = None,
) -> DataFrame:
    """Find ledgers that are on a bookie but not in the store, with one row per pair of ledger and bookie.

    A ledger that only the first scan lists was deleted between the scans. All its copies have rows, even
    healthy ones. A ledger that only the second scan lists was created between the scans, and is not an
    orphan. ``doubt`` says why the store may have the ledger although no scan saw it. It is null if there is
    no reason.

    Args:
        unequal_pairs: The table ``unequal``: replicas whose expected and present entries differ.
        indexes: Rows of ``availability``. If ``moved_ledgers`` is empty, rows for ledgers in
            ``unequal_pairs`` are enough.
        ledgers: The table of that name. With ``all_ledgers``, rows for ``unequal_pairs`` are enough.
        second_scan: The second scan of a live store, or None for a saved store.
        moved_ledgers: Differences between the two scans (`auditor.tables.scans`), or None for a saved store.
        scan_time: Time of the first scan, in ms.
        index_times: Latest possible time of each bookie's index, in ms, or None if it is unknown. Only
            RocksDB indexes need it.
        doubtful_ids: Ids that a scan may have missed (`auditor.tables.scans`), or None if there are none.
        all_ledgers: All rows of the table ``ledgers``, if ``ledgers`` has only some of them.
    """
    stored_replicas = unequal_pairs.where(F.col("index_state").isin(*DISK_STATES))
    scanned_ids = ids_in_scan(ledgers)
    # Keep only ledgers of unequal pairs, so that the joined table is as small as the pairs.
    never_listed_replicas = stored_replicas.join(
        scanned_ids.join(stored_replicas.select(*LEDGER), [*LEDGER], "left_semi"), [*LEDGER], "left_anti"
    )
    orphan_rows = never_listed_replicas.select(
        *_REPLICA_KEY, F.col("held").alias("groups"), F.lit(False).alias("in_m0")
    )
    candidate_replicas = stored_replicas.select(*_REPLICA_KEY)
    if second_scan is not None and moved_ledgers is not None:
        deleted_indexes = indexes.where(_has_ledger()).join(deleted_ids(moved_ledgers), [*LEDGER])
        orphan_rows = orphan_rows.join(new_ids(moved_ledgers), [*LEDGER], "left_anti").unionByName(
            deleted_indexes.select(*_REPLICA_KEY, "groups", F.lit(True).alias("in_m0"))
        )
        candidate_replicas = candidate_replicas.unionByName(deleted_indexes.select(*_REPLICA_KEY))
    orphan_rows = orphan_rows.withColumn("doubt", F.lit(None).cast("string"))
    if doubtful_ids is not None:
        # A ledger that the first scan lists is in doubt only if the second scan may have missed it.
        scan_doubt = F.coalesce("second", F.when(~F.col("in_m0"), F.col("first")))
        orphan_rows = add_both_doubt_columns(orphan_rows.drop("doubt"), doubtful_ids).withColumn(
            "doubt", scan_doubt
        )
        orphan_rows = orphan_rows.drop("first", "second")
    rows_with_later_index = indexes.where(F.col("mtime") > scan_time).select(*_REPLICA_KEY)
    bookies_with_later_index = [
        bookie_id
        for bookie_id, index_time in index_times.items()
        if index_time is None or index_time > scan_time
    ]
    if second_scan is None and bookies_with_later_index:
        rows_with_later_index = rows_with_later_index.unionByName(
            _find_ids_above_listed(
                indexes,
                ids_in_scan(ledgers if all_ledgers is None else all_ledgers),
                bookies_with_later_index,
            )
        )
    rows_newer_than_scan = (
        rows_with_later_index.join(candidate_replicas, [*_REPLICA_KEY], "left_semi")
        .distinct()
        .withColumn("newer", F.lit(True))
    )
    return orphan_rows.join(rows_newer_than_scan, [*_REPLICA_KEY], "left").select(
        *_REPLICA_KEY,
        "groups",
        "in_m0",
        F.lit(False).alias("in_m1"),
        F.coalesce("newer", F.lit(False)).alias("newer_than_scan"),
        "doubt",
    )


def _has_ledger(emptiness_condition: str = "length(groups) = 0") -> Column:
    """Return a condition that is True if the bookie of a row has the ledger of the row.

    Rows are of ``availability`` or of the index counts. ``emptiness_condition`` is the SQL condition that a
    row has no entry. By default, it is the condition for ``availability``.
    """
    # A bookie that was asked for a ledger and has no entry of it does not have the ledger.
    is_empty_answer = (F.col("storage") == "rpc") & F.expr(emptiness_condition)
    return F.col("state").isin(*DISK_STATES) & ~is_empty_answer


def _find_ids_above_listed(indexes: DataFrame, listed_ids: DataFrame, bookies: list[str]) -> DataFrame:
    """Find (ledger, bookie) pairs in RocksDB indexes whose ledger may have been created after the scan.

    A RocksDB index keeps no times, but new ledgers have higher ids. A ledger may be newer than the scan if
    its id is above all ids that the scan lists in its scope. If the scan lists no id in a scope, this is
    true for every ledger of the scope.
    """
    highest_ids = listed_ids.groupBy("scope_id").agg(F.max("ledger_id").alias("highest"))
    rows = indexes.where((F.col("storage") == "rocksdb") & F.col("bookie_id").isin(bookies)).select(
        *_REPLICA_KEY
    )
    is_above_highest = F.col("highest").isNull() | (F.col("ledger_id") > F.col("highest"))
    return (
        rows.join(F.broadcast(highest_ids), "scope_id", "left").where(is_above_highest).select(*_REPLICA_KEY)
    )


def _add_recent_flag(orphans: DataFrame, recent_ids: RecentIds) -> DataFrame:
    """Add ``recent``: whether the metadata had the orphan until recently, according to ``recent_ids``.

    The garbage collection of such an orphan is still due.
    """
    is_recent = F.lit(False)
    if recent_ids.issued_id_range is not None:
        first_issued_id, next_unissued_id = recent_ids.issued_id_range
        is_recent = (F.col("scope_id") == 0) & F.col("ledger_id").between(
            first_issued_id, next_unissued_id - 1
        )
    if recent_ids.listed_ids is None:
        return orphans.withColumn("recent", is_recent)
    # Keep only the listed ledgers that are orphans now.
    listed_orphans = recent_ids.listed_ids.join(orphans.select(*LEDGER).distinct(), [*LEDGER], "left_semi")
    rows = orphans.join(listed_orphans.distinct().withColumn("seen", F.lit(True)), [*LEDGER], "left")
    return rows.withColumn("recent", is_recent | F.col("seen").isNotNull()).drop("seen")


def _add_owner_dropped_flag(orphans: DataFrame, owner_rows: DataFrame | None) -> DataFrame:
    """Add ``dropped``: whether owners were read, and no owner names the ledger of the orphan.

    Owners are applications' objects, such as topics. ``owner_rows`` is None if owners were not read.
    """
    if owner_rows is None:
        return orphans.withColumn("dropped", F.lit(False))
    ids_with_owner = owner_rows.select(*LEDGER).distinct().withColumn("named", F.lit(True))
    rows = orphans.join(ids_with_owner, [*LEDGER], "left")
    return rows.withColumn("dropped", F.col("named").isNull()).drop("named")


def count_holdings(
    index_counts: DataFrame,
    orphans: DataFrame,
    earlier_orphans: DataFrame | None = None,
    recent_ids: RecentIds | None = None,
    owner_rows: DataFrame | None = None,
) -> DataFrame:
    """Count, for each bookie, the ledgers in its index, its orphans, and its orphans in doubt.

    Args:
        index_counts: Counts over all indexes (`auditor.tables.index_counts`).
        orphans: The table of that name. An orphan is in doubt if the store may have the ledger although no
            scan saw it.
        earlier_orphans: Orphans of a run that ended at least `MAX_GC_INTERVAL_MS` earlier, or None.
            ``lasting`` counts orphans that both runs have and that are not in doubt.
        recent_ids: Evidence of ledgers that were in the metadata until recently. ``recent`` counts orphans
            of such ledgers that are not in doubt.
        owner_rows: Ledgers that owners (such as topics) name, or None if owners were not read. If it is
            None, no orphan counts as dropped.
    """
    index_ledger_counts = (
        index_counts.where(_has_ledger("empty")).groupBy("bookie_id").agg(F.sum("number").alias("ledgers"))
    )
    recent_count = F.count_if(F.col("recent") & F.col("doubt").isNull()).alias("recent")
    orphans_with_flags = _add_owner_dropped_flag(
        _add_recent_flag(orphans, recent_ids or RecentIds()), owner_rows
    )
    is_orphan_explained = F.col("recent") | F.col("in_m0") | F.col("newer_than_scan") | F.col("dropped")
    unexplained_count = F.count_if(~is_orphan_explained).alias("unexplained")
    rows = _add_orphan_counts(
        index_ledger_counts, orphans_with_flags, ["bookie_id"], recent_count, unexplained_count
    )
    if earlier_orphans is None:
        return rows.withColumn("lasting", F.lit(0).cast("long"))
    repeated_orphans = orphans.where("doubt is null").join(
        earlier_orphans.select(*_REPLICA_KEY), [*_REPLICA_KEY], "left_semi"
    )
    lasting_orphan_counts = repeated_orphans.groupBy("bookie_id").agg(F.count("*").alias("lasting"))
    return rows.join(lasting_orphan_counts, "bookie_id", "left").fillna({"lasting": 0})


def find_vanished_ranges(
    availability: DataFrame,
    orphans: DataFrame,
    recent_ids: RecentIds | None = None,
    settings: CheckSettings | None = None,
) -> DataFrame:
    """Find blocks of ids in which all ledgers of a bookie are orphans, which the store does not list.

    A block counts only if it has at least ``vanished_ledgers`` orphans (``settings``). Orphans that the
    metadata had until recently (``recent_ids``) do not count towards this minimum. The result has rows of
    `VANISHED_RANGES`. ``in_doubt`` counts orphans that the store may have although no scan saw them. By
    default, a block is a leaf of the hierarchical layouts, because the loss of an inner znode removes whole
    leaves.
    """
    settings = settings or CheckSettings()
    block_ids = settings.vanished_block_ids
    # Rounded down, also for negative ids, which ledgers of other scopes have.
    block_number = F.expr(f"ledger_id div {block_ids} - if(ledger_id % {block_ids} < 0, 1, 0)")
    block_keys = ["bookie_id", "scope_id", "leaf"]
    orphans_with_flags = _add_recent_flag(orphans, recent_ids or RecentIds()).withColumn("leaf", block_number)
    blocks_with_many_orphans = (
        orphans_with_flags.where("not recent")
        .groupBy(*block_keys)
        .count()
        .where(F.col("count") >= settings.vanished_ledgers)
    )
    indexed_ledgers = (
        availability.where(_has_ledger())
        .withColumn("leaf", block_number)
        .join(blocks_with_many_orphans, block_keys, "left_semi")
    )
    ledgers_by_block = indexed_ledgers.groupBy(*block_keys).agg(F.count("*").alias("ledgers"))
    vanished_blocks = _add_orphan_counts(ledgers_by_block, orphans_with_flags, block_keys).where(
        F.col("ledgers") == F.col("orphans")
    )
    # The first and the last leaf reach beyond the least and the greatest possible id.
    lowest_id = F.try_multiply("leaf", F.lit(block_ids))
    highest_id = F.try_multiply(F.col("leaf") + 1, F.lit(block_ids)) - 1
    return vanished_blocks.select(
        "bookie_id",
        "scope_id",
        F.coalesce(lowest_id, F.lit(MIN_LEDGER_ID)).alias("low"),
        F.coalesce(highest_id, F.lit(MAX_LEDGER_ID)).alias("high"),
        "ledgers",
        "in_doubt",
    )


def _add_orphan_counts(
    ledgers: DataFrame, orphans: DataFrame, group_columns: list[str], *extra_counts: Column
) -> DataFrame:
    """Return ``ledgers`` with three kinds of columns about the orphans with the same ``group_columns``.

    The columns are the number of orphans, the number of orphans in doubt, and ``extra_counts``.
    """
    in_doubt_count = F.count("doubt").alias("in_doubt")
    orphan_counts = orphans.groupBy(*group_columns).agg(
        F.count("*").alias("orphans"), in_doubt_count, *extra_counts
    )
    count_columns = [name for name in orphan_counts.columns if name not in group_columns]
    return ledgers.join(orphan_counts, group_columns, "left").fillna(0, count_columns)


def find_over_replicated(
    judged_ledgers: DataFrame, ledgers: DataFrame, marks: DataFrame, locks: DataFrame, bookies: DataFrame
) -> DataFrame:
    """Find copies on bookies that no ensemble of the ledger names, with one row per ledger and bookie.

    The result has the columns scope_id, ledger_id, bookie_id, count, behind_end, state, marked, locked and
    exposed. ``count`` is the number of held entries. ``behind_end`` is the number of held entries after the
    ledger's end that no takeover (`auditor.tables.past_end`) explains. ``marked`` and ``locked`` tell whether
    ``marks`` and ``locks`` have the ledger. ``exposed`` is True if a member is unregistered or read-only. In
    that case an operator may be making this copy.
    """
    over_replicated_pairs = filter_table_part("over_replicated", judged_ledgers).select(
        *LEDGER, "state", F.explode("foreign").alias("f")
    )
    over_replicated_pairs = over_replicated_pairs.select(
        *LEDGER, "state", "f.bookie_id", F.col("f.count").alias("count"), "f.behind_end"
    )
    bookies_at_risk = F.broadcast(
        bookies.where("registered is null or registered = 'readonly'").select(
            F.col("bookie_id").alias("member")
        )
    )
    members = (
        ledgers.select(*LEDGER, "replicas")
        .join(over_replicated_pairs.select(*LEDGER).distinct(), [*LEDGER], "left_semi")
        .select(*LEDGER, F.explode("replicas.bookie_id").alias("member"))
    )
    ledgers_at_risk = (
        members.join(bookies_at_risk, "member").select(*LEDGER).distinct().withColumn("exposed", F.lit(True))
    )
    rows_with_marks = (
        over_replicated_pairs.join(ledgers_at_risk, [*LEDGER], "left")
        .join(marks.select(*LEDGER, F.lit(True).alias("marked")).distinct(), [*LEDGER], "left")
        .join(locks.select(*LEDGER, F.lit(True).alias("locked")).distinct(), [*LEDGER], "left")
    )
    return rows_with_marks.fillna({"exposed": False, "marked": False, "locked": False})
