"""The store's listing of ledgers as a bookie's garbage collector sees it: its ids, and where it stops.

If every metadata record is at its own path, the listing is right in every layout: the ranges of ids ascend,
and the collector sees all ids in the store. Three things can make the listing wrong: records in wrong
places, names that make the listing fail, and the id 2^63 - 1. Only in these cases are the ranges examined,
all in a single task. The layouts have these ranges:

    flat                 one range with all ids
    legacy hierarchical  one range per directory of the two-digit tree, in the order of directory names; ids
                         that belong to another directory are left out, and a directory whose name is not a
                         number ends the listing
    hierarchical         the same ranges, then those of long hierarchical
    long hierarchical    one range per directory of the three-digit tree
    etcd                 one range per 100 keys, from the key of id 0 to before that of 2^63 - 1; a name
                         that is not a UUID ends the listing

The server also derives ids from names that do not belong to a ledger. For misplaced records, the column
``ledger_id`` has these ids (`auditor.keys.ledger_tree`).

ScanAndCompareGarbageCollector assumes that the ranges ascend. For each range it takes the local ids from
the previous range's end + 1 to this range's end. Of these, it deletes the ids that the range does not list.
This has three consequences:

    an id that is listed after a higher one      is deleted when the range of the higher id is compared
    a range that ends at or below the last one   ends the pass (TreeSet.subSet throws): higher ids are kept
    an end of 2^63 - 1                           makes the next start -2^63: everything is deleted
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.keys.ledger_tree import to_path
from auditor.model.ledger_id import MAX_LEDGER_ID, LayoutKind
from auditor.model.states import LISTED, LedgerStatus
from auditor.spark import functions as F
from auditor.spark.batches import map_batches
from auditor.spark.types import Column, DataFrame

END_BEFORE_ALL_IDS = -1
"""End of an imagined range before the first one, so that the first range begins with id 0."""


ETCD_BATCH = 100
"""Number of keys that the server's listing reads from etcd at once. One unreadable key loses all of them."""

_RANGES_SCHEMA = pa.schema(
    [("place", pa.string()), ("end", pa.int64()), ("previous", pa.int64()), ("reached", pa.bool_())]
)
# A directory such as "00/foo" ends the listing of the two-digit tree.
_NON_NUMERIC_PATTERN = r"^[0-9]{2}/[^/]*[^0-9/]"
_HIERARCHICAL_PATH = r"^[0-9]{2}/"


@dataclass(frozen=True)
class ServerListing:
    """The ledgers that count as listed in one pass of a garbage collector.

    The store returns its listing as ranges of ids. The pass looks for each id in only one range.
    ``found_ids`` has the ids that it finds there, in the column ``ledger_id``. If ``found_ids`` is None, the
    pass finds all listed ledgers of scope 0 (BP-35), the only scope of an unmodified server.
    ``last_compared_id`` is the greatest id that the pass compares before the listing ends early. It is None
    if the listing does not end early. ``has_overflow`` is True if the listing has the id 2^63 - 1, so that
    the pass deletes everything.
    """

    found_ids: DataFrame | None = None
    last_compared_id: int | None = None
    has_overflow: bool = False


def find_misplaced_ledgers(ledgers: DataFrame) -> DataFrame:
    """Return the rows of ``ledgers`` that the server's listing may have in the wrong order, or not at all."""
    is_longest_id = (F.col("ledger_id") == MAX_LEDGER_ID) & (F.col("scope_id") == 0)
    return ledgers.where((F.col("status") == LedgerStatus.MISPLACED) | is_longest_id)


def find_listing_positions(ledgers: DataFrame, layout: LayoutKind, root: str) -> DataFrame:
    """Return the server's listing, with the columns ``ledger_id``, ``place`` and ``fails``.

    ``place`` is a sort key that all rows of the same range share. It sorts the ranges as the listing does. A
    row whose ``fails`` is True has no id, and ends the listing.
    """
    root_length = len(root.rstrip("/")) + 1
    relative_path = F.expr(f"substring(path, {root_length + 1})")
    is_in_scope_0 = F.col("ledger_id").isNotNull() & (F.col("scope_id") == 0)
    is_listed = is_in_scope_0 & F.col("status").isin(*LISTED, LedgerStatus.MISPLACED)
    rows = ledgers.select(
        "scope_id", "status", "path", relative_path.alias("rel"), "ledger_id", is_listed.alias("listed")
    )
    is_misplaced = (F.col("status") == LedgerStatus.MISPLACED) & F.col("ledger_id").isNull()
    if layout is LayoutKind.ETCD:
        first_path, last_path = (to_path(layout, ledger_id) for ledger_id in (0, MAX_LEDGER_ID))
        stops_listing = is_misplaced & F.col("scope_id").isNull()
        etcd_keys = rows.withColumn("fails", stops_listing).where(
            (F.col("listed") | F.col("fails")) & (F.col("rel") >= first_path) & (F.col("rel") < last_path)
        )
        return _select_positions(etcd_keys, _etcd_batch_position())
    if layout is LayoutKind.FLAT:
        return _select_positions(rows.where("listed").withColumn("fails", F.lit(False)), F.lit(""))
    is_hierarchical_path = F.col("rel").rlike(_HIERARCHICAL_PATH)
    stops_listing = (
        is_misplaced
        & F.col("rel").rlike(_NON_NUMERIC_PATTERN)
        & F.lit(layout is not LayoutKind.LONG_HIERARCHICAL)
    )
    parent_directory = F.when(F.col("fails"), F.regexp_extract("rel", r"^([^/]*/[^/]*)", 1)).otherwise(
        F.regexp_replace("rel", "/[^/]*$", "")
    )
    # Names are compared level by level, so a slash must sort before all characters of names.
    sort_key = F.concat(
        F.when(is_hierarchical_path, "0/").otherwise("1/"), F.translate(parent_directory, "/", "\x01")
    )
    return _select_positions(rows.withColumn("fails", stops_listing).where("listed or fails"), sort_key)


def find_ranges(listing_positions: DataFrame) -> DataFrame:
    """Return one row per range of ids, with ``place``, ``end`` and the result of `find_reached_ranges`.

    ``place`` sorts the ranges as the server's listing does. A single task computes all rows.
    """
    range_rows = listing_positions.groupBy("place").agg(
        F.max("ledger_id").alias("end"), F.bool_or("fails").alias("fails")
    )

    def walk_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [*batches]
        if rows:
            range_table = pa.Table.from_batches(rows)
            range_ends = range_table["end"].fill_null(END_BEFORE_ALL_IDS).to_numpy()
            range_walk = find_reached_ranges(range_ends, range_table["fails"].to_numpy())
            range_columns = [
                range_table["place"],
                range_ends,
                range_walk.max_end_before,
                range_walk.is_reached,
            ]
            yield from pa.table(range_columns, schema=_RANGES_SCHEMA).to_batches()

    ordered_ranges = range_rows.repartition(1).sortWithinPartitions("place")
    return map_batches(ordered_ranges, walk_batches, _RANGES_SCHEMA)


def find_listed_ids(listing_positions: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return the ids (``ledger_id``) that a collector's pass finds in the listing.

    The pass looks for each id in only one range.
    """
    reached_ledgers = listing_positions.where("ledger_id is not null").join(ranges.where("reached"), "place")
    return reached_ledgers.where("ledger_id > previous").select("ledger_id").distinct()


def summarize_walk(ranges: DataFrame) -> DataFrame:
    """Return one row that summarizes the ranges, for the fields of a `ServerListing`.

    The column ``overflows`` is for ``has_overflow``, and ``reach`` is for ``last_compared_id``.
    """
    reached_id = F.col("reached")
    reaches_end = F.coalesce(F.bool_or(reached_id & (F.col("end") == MAX_LEDGER_ID)), F.lit(False))
    last_id = F.min(F.when(~reached_id, F.col("previous")))
    return ranges.agg(reaches_end.alias("overflows"), F.when(~reaches_end, last_id).alias("reach"))


def _select_positions(rows: DataFrame, sort_key: Column) -> DataFrame:
    ledger_id = F.when(F.col("listed"), F.col("ledger_id")).alias("ledger_id")
    return rows.select(sort_key.alias("place"), ledger_id, "fails")


def _etcd_batch_position() -> Column:
    """Return the sort key (``place``) of a batch of etcd keys.

    It is the number of the batch, as text that sorts in numeric order.
    """
    batch_number = F.row_number().over(F.Window.orderBy("rel")) - 1
    return F.lpad(F.floor(batch_number / ETCD_BATCH).cast("string"), 20, "0")


class RangeWalk(NamedTuple):
    """The ranges that a pass compares, as arrays with one element per range in the order of the listing.

    ``max_end_before`` has the greatest end of all preceding ranges. ``is_reached`` says whether the pass
    compares local ids with the range. An id in a reached range counts as listed only if it is above
    ``max_end_before``.
    """

    max_end_before: Longs
    is_reached: NDArray[np.bool_]


def find_reached_ranges(range_ends: Longs, stops_listing: NDArray[np.bool_]) -> RangeWalk:
    """Follow a collector's pass over ranges with these ``range_ends``, up to a range that ``stops_listing``.

    After an end of 2^63 - 1, no range counts as reached, because every local ledger is already deleted.

    >>> find_reached_ranges(np.array([9, 19, 5, 30]), np.zeros(4, bool)).is_reached.tolist()
    [True, True, False, False]
    >>> find_reached_ranges(np.array([9, 2**63 - 1, 12]), np.zeros(3, bool)).max_end_before.tolist()[:2]
    [-1, 9]
    """
    previous_ends = np.concatenate([np.array([END_BEFORE_ALL_IDS], np.int64), range_ends[:-1]])[
        : len(range_ends)
    ]
    max_end_before = np.maximum.accumulate(previous_ends) if len(range_ends) else previous_ends
    stops_pass = stops_listing | (range_ends <= max_end_before)
    # The pass still compares the range that overflows, but no later range.
    reaches_end = np.concatenate([np.zeros(1, bool), range_ends[:-1] == MAX_LEDGER_ID])[: len(range_ends)]
    return RangeWalk(max_end_before, ~np.logical_or.accumulate(stops_pass | reaches_end))
