"""moved, doubtful_ids: differences between two scans of the ledger tree, and ids that a scan may have missed.

Both scans of a live store list every ledger, and they agree on nearly all. This module finds their
differences once. Every query about ledgers that were deleted, created or changed between the scans uses
these few rows.

An id is open if a ledger with this id may exist although no scan saw it. This is the case if a listing
failed, or if a record is at the wrong path. There is at most one row for open ids per damaged znode,
whatever the number of ids is. An orphan with an open id is only suspected, but never skipped.

Records at paths of another layout may be as many as the cluster's ledgers. Such a record leaves no id open
if its ledger also has a record at its own path. If there is a whole tree of such records, every id is open.
"""

from collections.abc import Sequence

import pyarrow as pa

from auditor.model.columns import LEDGER, make_schema
from auditor.model.ledger_id import MAX_LEDGER_ID, MIN_LEDGER_ID
from auditor.model.states import LISTED, LedgerStatus
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame

DOUBTFUL_IDS = make_schema(
    ("scan", pa.int32(), "1: the scan before the bookies were read; 2: the scan of a live store after that"),
    ("scope_id", pa.int64(), "BP-35 scope of the ids; 0 in an unmodified BookKeeper; null: every scope"),
    (
        "low",
        pa.int64(),
        "lowest id of a range of ledger ids; ranges of the same scan and scope do not overlap",
    ),
    ("high", pa.int64(), "highest id of the range"),
    (
        "unseen",
        pa.bool_(),
        "whether the range may contain a ledger that no scan saw. false: the server derives these "
        "ids from a name that does not belong to a ledger",
    ),
    ("why", pa.string(), "path that could not be read or is in the wrong place, and the reason"),
)

STATUSES_WITH_UNCERTAIN_IDS = (LedgerStatus.MISPLACED, LedgerStatus.GAP)
"""Statuses of rows of a scan that can leave ids open (see the module's docstring)."""

WIDE_NUMBER_TYPE = "decimal(38,0)"
"""SQL type that can hold the difference of any two ids."""

IS_IN_ANOTHER_LAYOUT = "status = 'misplaced' and damage is not null"
"""SQL condition for records at a path at which another layout keeps ledgers."""


def doubtful_ids(
    ledgers: DataFrame, second_scan: DataFrame | None, any_id_reason: str | None = None
) -> DataFrame:
    """Return the rows of `DOUBTFUL_IDS` from one or two scans of the ledgers.

    ``any_id_reason`` says why the scan may have missed any id. It is None if there is no such reason.
    """
    rows = _uncertain_id_ranges(ledgers, any_id_reason).withColumn("scan", F.lit(1))
    if any_id_reason is not None:
        range_of_all_ids = ledgers.sparkSession.range(1).select(
            F.lit(None).cast("bigint").alias("scope_id"),
            F.lit(MIN_LEDGER_ID).alias("low"),
            F.lit(MAX_LEDGER_ID).alias("high"),
            F.lit(True).alias("unseen"),
            F.lit(any_id_reason).alias("why"),
            F.lit(1).alias("scan"),
        )
        rows = rows.unionByName(range_of_all_ids)
    if second_scan is not None:
        rows = rows.unionByName(_uncertain_id_ranges(second_scan, any_id_reason).withColumn("scan", F.lit(2)))
    return _remove_overlaps(rows, ["scan", "scope_id"]).select(*DOUBTFUL_IDS.names)


def find_unseen_ranges(doubtful_rows: DataFrame) -> DataFrame:
    """Return the id ranges in which a scan may have missed ledgers.

    Ranges of the same scope (upper half of the ledger id) do not overlap.
    """
    return _remove_overlaps(doubtful_rows.where("unseen").drop("scan"), ["scope_id"])


def add_doubt_column(rows: DataFrame, doubtful_rows: DataFrame, scan_number: int) -> DataFrame:
    """Add ``doubt`` to rows about ledgers: why scan number ``scan_number`` may have missed the ledger.

    It is null if the scan cannot have missed the ledger. Two facts prevent duplicate rows. The ranges of one
    scope (upper half of the ledger id) do not overlap, and at most one range applies to all scopes.
    """
    id_ranges = doubtful_rows.where(F.col("scan") == scan_number).select(
        F.col("scope_id").alias("of"), "low", "high", "why"
    )
    is_in_range = F.col("ledger_id").between(F.col("low"), F.col("high"))
    # Two joins, so that a row is not duplicated if a range of any scope and one of its own scope have its id.
    ranges_of_one_scope = id_ranges.where("of is not null").withColumnRenamed("why", "own")
    ranges_of_any_scope = id_ranges.where("of is null").withColumnRenamed("why", "any")
    return (
        rows.join(F.broadcast(ranges_of_one_scope), is_in_range & (F.col("of") == F.col("scope_id")), "left")
        .drop("of", "low", "high")
        .join(F.broadcast(ranges_of_any_scope), is_in_range, "left")
        .withColumn("doubt", F.coalesce("own", "any"))
        .drop("of", "low", "high", "own", "any")
    )


def add_both_doubt_columns(rows: DataFrame, doubtful_rows: DataFrame) -> DataFrame:
    """Add ``first`` and ``second`` to rows about ledgers.

    The columns say why the first and the second scan may have missed the ledger (`add_doubt_column`).
    """
    for scan, doubt_column in ((1, "first"), (2, "second")):
        rows = add_doubt_column(rows, doubtful_rows, scan).withColumnRenamed("doubt", doubt_column)
    return rows


def _uncertain_id_ranges(scan: DataFrame, any_id_reason: str | None) -> DataFrame:
    """Return the ids of ledgers that damaged znodes may hide (open ids), one range per row.

    If ``any_id_reason`` is given, records at paths of other layouts are left out.
    """
    rows = scan.where(F.col("status").isin(*STATUSES_WITH_UNCERTAIN_IDS)).where(
        f"not ({IS_IN_ANOTHER_LAYOUT})"
    )
    if any_id_reason is None:
        rows = rows.unionByName(records_in_other_layouts(scan))
    is_unseen = F.col("low").isNotNull()
    return rows.where("low is not null or ledger_id is not null").select(
        "scope_id",
        F.coalesce("low", "ledger_id").alias("low"),
        F.coalesce("high", "ledger_id").alias("high"),
        is_unseen.alias("unseen"),
        _doubt_reason().alias("why"),
    )


def records_in_other_layouts(scan: DataFrame) -> DataFrame:
    """Return records at paths of other layouts whose ledgers are not listed at their own paths."""
    rows = scan.where(IS_IN_ANOTHER_LAYOUT)
    misplaced_ids = F.broadcast(rows.select("scope_id", F.col("low").alias("ledger_id")))
    listed_rows = scan.where(F.col("status").isin(*LISTED)).join(misplaced_ids, [*LEDGER], "left_semi")
    return rows.join(
        listed_rows.select("scope_id", F.col("ledger_id").alias("low")), ["scope_id", "low"], "left_anti"
    )


def _doubt_reason() -> Column:
    misplaced_reason = F.when(F.col("status") == LedgerStatus.MISPLACED, "not at the path of a ledger")
    return F.concat("path", F.lit(": "), F.coalesce("damage", misplaced_reason, F.lit("could not be read")))


def _remove_overlaps(id_ranges: DataFrame, partition_columns: Sequence[str]) -> DataFrame:
    """Cut the ranges so that ranges with the same values of ``partition_columns`` do not overlap.

    If two ranges overlap, the range that begins later loses the ids that both have.
    """
    # Of ranges with the same first id, the widest comes first, so that it covers the others.
    range_window = F.Window.partitionBy(*partition_columns).orderBy(
        "low", F.desc("high"), F.desc("unseen"), "why"
    )
    highest_earlier_id = F.max("high").over(range_window.rowsBetween(F.Window.unboundedPreceding, -1))
    # Ids reach from -2^63 to 2^63 - 1, so the greatest id plus 1 does not fit a long.
    lowest_id = F.col("low").cast(WIDE_NUMBER_TYPE)
    first_uncovered_id = F.greatest(
        lowest_id, F.coalesce(highest_earlier_id.cast(WIDE_NUMBER_TYPE) + 1, lowest_id)
    )
    trimmed_ranges = id_ranges.withColumn("least", first_uncovered_id).where(F.col("least") <= F.col("high"))
    return trimmed_ranges.withColumn("low", F.col("least").cast("bigint")).drop("least")


MOVED_LEDGERS = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("ledger_id", pa.int64(), "the ledger"),
    (
        "listed",
        pa.bool_(),
        "whether the ledger's znode is at the path of its id. false: the server mistakes a znode at "
        "another path for this ledger",
    ),
    (
        "version",
        pa.int64(),
        "version of the ledger's metadata in the first scan; null: the ledger was absent",
    ),
    (
        "version_again",
        pa.int64(),
        "version of the ledger's metadata in the second scan; null: the ledger was absent",
    ),
    (
        "doubt",
        pa.string(),
        "if only one scan lists the ledger: reason why the other scan may have missed it. null: no "
        "reason is known",
    ),
)


def find_moves(
    ledgers: DataFrame, second_scan: DataFrame, doubtful_rows: DataFrame | None = None
) -> DataFrame:
    """Find ledgers that one of two scans lacks or whose versions differ: rows of `MOVED_LEDGERS`.

    ``doubtful_rows`` are the ids that a scan may have missed (`doubtful_ids`), or None if there are none.
    """
    first_versions = _ledger_versions(ledgers, F.col("version"))
    second_versions = _ledger_versions(second_scan, F.col("version").alias("version_again"))
    # The ledger id comes first, because the scope is nearly always the same.
    versions_of_both = first_versions.join(second_versions, ["ledger_id", "scope_id", "listed"], "full_outer")
    changed_versions = versions_of_both.where("not (version <=> version_again)")
    if doubtful_rows is None:
        return changed_versions.withColumn("doubt", F.lit(None).cast("string")).select(*MOVED_LEDGERS.names)
    changed_versions = add_both_doubt_columns(changed_versions, doubtful_rows)
    reason_of_miss = F.when(F.col("version").isNull(), F.col("first")).when(
        F.col("version_again").isNull(), F.col("second")
    )
    return changed_versions.withColumn("doubt", reason_of_miss).select(*MOVED_LEDGERS.names)


IDS_PER_BLOCK = 10_000
"""Number of ids in one leaf znode of the hierarchical layouts. A lost inner znode loses whole leaves."""


def find_shrunken_blocks(
    earlier_rows: DataFrame, current_ledgers: DataFrame, min_lost_share: int, min_lost_ledgers: int
) -> DataFrame:
    """Return the leaves (blocks of `IDS_PER_BLOCK` ids) with fewer ledgers in a scan than in an earlier one.

    The result has the columns scope_id, leaf and lost (number of ledgers). It is enough to compare counts.
    The generator gives out the ids of a leaf only once, in order. So a full leaf can only lose ledgers.

    Args:
        earlier_rows: The ledgers of the earlier scan.
        current_ledgers: The ledgers of this scan.
        min_lost_share: A leaf must have lost more than one in ``min_lost_share`` of its ledgers.
        min_lost_ledgers: A leaf must also have lost at least this number of ledgers.
    """
    block_number = F.floor(F.col("ledger_id") / IDS_PER_BLOCK).alias("leaf")

    def count_blocks(ledgers: DataFrame, count_column: str) -> DataFrame:
        return ids_in_scan(ledgers).groupBy("scope_id", block_number).agg(F.count("*").alias(count_column))

    block_counts = count_blocks(earlier_rows, "before").join(
        count_blocks(current_ledgers, "after"), ["scope_id", "leaf"], "left"
    )
    block_counts = block_counts.withColumn("lost", F.col("before") - F.coalesce("after", F.lit(0)))
    return block_counts.where(
        (F.col("lost") >= min_lost_ledgers) & (F.col("lost") * min_lost_share > F.col("before"))
    )


def ids_in_scan(ledgers: DataFrame) -> DataFrame:
    """Return the ids that a scan lists as ledgers, even if their metadata is broken."""
    return ledgers.where(F.col("status").isin(*LISTED)).select(*LEDGER)


def deleted_ids(moved_ledgers: DataFrame) -> DataFrame:
    """Return the ids of ledgers that only the first of the two scans lists."""
    return moved_ledgers.where("listed and version_again is null").select(*LEDGER)


def new_ids(moved_ledgers: DataFrame) -> DataFrame:
    """Return the ids of ledgers that only the second of the two scans lists."""
    return moved_ledgers.where("listed and version is null").select(*LEDGER)


def find_unsettled_ledgers(moved_ledgers: DataFrame) -> DataFrame:
    """Return the ledgers of the first scan that the second scan shows differently or not at all.

    The result has one row per ledger, with the columns scope_id, ledger_id and deleted. A ledger is deleted
    if the second scan does not list it and cannot have missed it.
    """
    first_scan_rows = moved_ledgers.where("version is not null")
    return first_scan_rows.groupBy(*LEDGER).agg(
        F.max(F.expr("version_again is null and doubt is null")).alias("deleted")
    )


def drop_deleted_ledgers(rows: DataFrame, moved_ledgers: DataFrame | None) -> DataFrame:
    """Drop rows about ledgers that were deleted between the scans, and add the column ``moved``.

    The column ``moved`` says whether the ledger changed between the scans. The argument
    ``moved_ledgers`` has the differences between the scans. It is None if there was only one scan.
    """
    if moved_ledgers is None:
        return rows.withColumn("moved", F.lit(False))
    joined_rows = rows.join(find_unsettled_ledgers(moved_ledgers), [*LEDGER], "left")
    remaining_rows = joined_rows.where("deleted is null or not deleted")
    return remaining_rows.withColumn("moved", F.col("deleted").isNotNull()).drop("deleted")


def add_since_column(
    rows: DataFrame, unchanged_columns: list[str], scan_time: int, earlier_rows: DataFrame | None
) -> DataFrame:
    """Add ``since``: the scan time (ms) of the first run from which on every run had an equal row.

    Rows are equal if their values of ``unchanged_columns`` are equal. ``earlier_rows`` is the same table of
    the previous run, or None. A table from an older program version may lack the column ``since``.
    """
    scan_time_column = F.lit(scan_time).cast("long")
    if earlier_rows is None or "since" not in earlier_rows.columns:
        return rows.withColumn("since", scan_time_column)
    earlier_since = earlier_rows.select(*unchanged_columns, F.col("since").alias("was"))
    return rows.join(earlier_since, unchanged_columns, "left").withColumn(
        "since", F.coalesce("was", scan_time_column)
    )


def _ledger_versions(scan: DataFrame, version: Column) -> DataFrame:
    rows = scan.where("ledger_id is not null")
    return rows.select(*LEDGER, F.col("status").isin(*LISTED).alias("listed"), version)
