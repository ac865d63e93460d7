"""unequal: the pairs (ledger, bookie) where what should be held and what is held differ.

Both sides are canonical BP-34 groups, so a healthy replica is one equality of bytes and leaves no row. All
later questions are asked of the rows that stay. The join is on (scope, ledger, bookie) alone, plain and full
outer: everything else is joined back for unequal rows only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.model.columns import LEDGER, REPLICA
from auditor.model.states import OF_REPLICAS, IndexState
from auditor.spark import functions as F
from auditor.tables.tails import with_tails

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# No page is smaller; a bookie without a page size has no file that ends on one.
_SECTOR = 512
# In the order in which both sides are sorted: the scope, which is nearly always the same, last.
PAIR = ("ledger_id", "bookie_id", "scope_id")
_COLUMNS = (*REPLICA, "expected", "held", "index_state", "answered", "listed")


def expected_groups(ledgers: DataFrame, tails: DataFrame | None = None) -> DataFrame:
    """What metadata says each bookie holds: scope_id, ledger_id, bookie_id, groups.

    Nothing where nothing is judged. ``tails`` is what journals have besides the indexes, one row per pair
    with the same columns: it comes along in a column ``tail``, for the bookies that metadata names, and there
    are rows without groups then. What a journal has of a ledger that is gone, or has left its bookie, is
    nothing.
    """
    replicas = (
        ledgers.where("undecidable = false")
        .select(*LEDGER, F.explode("replicas").alias("replica"))
        .select(*LEDGER, "replica.bookie_id", "replica.groups")
    )
    if tails is None:
        return replicas.where("length(groups) > 0")
    beside = tails.select(*PAIR, F.col("groups").alias("tail"))
    both = replicas.join(beside, [*PAIR], "left").where("length(groups) > 0 or tail is not null")
    return both.withColumn("groups", F.when(F.length("groups") > 0, F.col("groups")))


def held_groups(
    availability: DataFrame, page_sizes: Mapping[str, int], cut: Collection[str] | None = None
) -> DataFrame:
    """What the indexes say each bookie holds, with an index cut inside a page recognised.

    ``page_sizes`` is bytes per page by bookie (`auditor.sources.bookies.index_files.page_size`); the files do
    not keep it. ``cut`` are the bookies that may have such a file, None: all of them.
    """
    rows = availability.where(F.col("state").isin(*OF_REPLICAS))
    if cut is not None and not cut:
        return rows
    spark = availability.sparkSession
    pages = spark.createDataFrame(list(page_sizes.items()), "bookie_id string, page_size int")
    short = (F.col("state") == IndexState.OK) & (
        F.col("page_bytes") % F.coalesce("page_size", F.lit(_SECTOR)) != 0
    )
    return (
        rows.join(F.broadcast(pages), "bookie_id", "left")
        .withColumn("reason", F.when(short, F.lit("the file ends inside a page")).otherwise(F.col("reason")))
        .withColumn("offset", F.when(short, F.col("page_bytes") + 1024).otherwise(F.col("offset")))
        .withColumn("state", F.when(short, F.lit(IndexState.CUT)).otherwise(F.col("state")))
        .drop("page_size")
    )


def unequal(expected: DataFrame, held: DataFrame, foreign: Sequence[str]) -> DataFrame:
    """The pairs that differ: scope_id, ledger_id, bookie_id, expected, held, index_state, answered, listed.

    ``index_state`` is the state of the index found, or absent where there is none. A pair without expected
    groups is of a ledger that is gone, that cannot be judged, or that has nothing on that bookie. An index
    that does not speak for everything (cut, limbo) stays, even where it holds all that is judged: of an open
    end, what it does not show is unknown. What ``foreign`` bookies hold is another cluster's, and equals
    nothing. What a listing has beyond its bookie's index makes them differ too. Where ``expected`` has
    journals' tails, what they show is held too.
    """
    left = expected.withColumnRenamed("groups", "expected")
    right = _of_held(held)
    both = left.join(right, [*PAIR], "full_outer")
    both = both.withColumn("index_state", F.coalesce("index_state", F.lit(IndexState.ABSENT)))
    if "tail" not in expected.columns:
        return both.where(~_healthy(foreign)).select(*_COLUMNS)
    candidates = both.where(F.col("tail").isNotNull() | ~_healthy(foreign))
    return with_tails(candidates.select(*_COLUMNS, "tail")).where(~_healthy(foreign))


def _of_held(held: DataFrame) -> DataFrame:
    # Only where answers were merged in does a listing say more than its index.
    listed = F.col("listed") if "listed" in held.columns else F.lit(None).cast("binary").alias("listed")
    groups, state = F.col("groups").alias("held"), F.col("state").alias("index_state")
    return held.select(*PAIR, groups, state, "answered", listed)


def _healthy(foreign: Sequence[str]) -> Column:
    """Which pairs hold what they should, by an index that speaks for everything."""
    # An index that holds nothing of a ledger that should have nothing there is as equal as can be.
    same = F.coalesce("expected", F.lit(b"")) == F.coalesce("held", F.lit(b""))
    whole = F.col("index_state") == IndexState.OK
    ours = ~F.col("bookie_id").isin(list(foreign))
    alone = F.col("listed").isNull()
    return F.coalesce(same & whole & ours & alone & F.col("expected").isNotNull(), F.lit(False))


def answered_ends(ledgers: DataFrame, held: DataFrame, bookies: Collection[str]) -> DataFrame:
    """Equal pairs of ledgers that are not closed, where a bookie that was not read whole answered of them.

    What such a bookie lacks is unknown where it has no pair. Its answer of a ledger is whole all the same,
    and says what the open end lacks (`auditor.tables.judge_replicas.judge`). ``bookies`` are these bookies.
    Columns as `unequal` has them, without any of its pairs.
    """
    left = expected_groups(ledgers.where("state <> 'CLOSED'")).withColumnRenamed("groups", "expected")
    answers = held.where(F.col("bookie_id").isin(list(bookies)) & F.col("answered").isNotNull())
    right = _of_held(answers.where("state = 'ok'"))
    return left.join(right, [*PAIR]).where("expected = held").select(*_COLUMNS)
