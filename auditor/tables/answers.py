"""One replica, told of more than once: by a bookie's files and by the bookie itself, or by several pieces.

What any of them shows is held: an entry that was seen once cannot be missing. So the groups are united, in
the canonical form in which the comparison needs them. Only pairs that are told of differently pass through
Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.codecs.availability import coverage
from auditor.errors import CoverageLimitError
from auditor.model.columns import REPLICA
from auditor.model.states import IndexState
from auditor.spark import functions as F
from auditor.spark.batches import map_batches
from auditor.tables.judge_replicas import groups_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Which of several pieces speaks for a replica: the one that knows least.
_LEAST_KNOWN = (
    IndexState.UNREADABLE,
    IndexState.CUT,
    IndexState.NOT_INDEXED,
    IndexState.LIMBO,
    IndexState.MISPLACED,
    IndexState.WRONG_DIRECTORY,
    IndexState.OK,
)


def merge_answers(held: DataFrame, answers: DataFrame, whole: Sequence[str] = ()) -> DataFrame:
    """What the indexes show and what the bookies answered when they were asked, one row per replica.

    Both have the columns of ``availability``; ``answers`` has no more than one row per replica. A pair that
    one side alone has keeps that row. Where both have it, what either shows is held; the answer's state
    counts, and its time, if it is ok, else the file's. An answer of nothing does not speak for an index that
    is damaged, in limbo or not served: a bookie that starts a spoiled index anew says the same.

    A listing proves what is held, not what is absent. Of bookies that were read ``whole``, and whose file is
    ok or absent, the file says that: such a row keeps no time of the answer, and what the listing alone has
    is in a column ``listed``.

    Meant for the comparison. Files that are damaged stay so, whatever their bookie answers.
    """
    columns = held.columns
    told = [name for name in columns if name not in REPLICA]
    files = held.select(*REPLICA, F.struct(*told).alias("file"))
    both = files.join(answers.select(*REPLICA, F.struct(*told).alias("answer")), [*REPLICA], "full_outer")
    index, answer = F.col("file"), F.col("answer")
    settles = (answer["state"] == IndexState.OK) & (
        (index["state"] == IndexState.OK) | (F.length(answer["groups"]) > 0)
    )
    settles = F.coalesce(settles, F.lit(False))
    from_answer = {"state", "reason", "offset", "answered"}
    chosen = {
        name: F.when(index.isNull() | (settles if name in from_answer else F.lit(False)), answer[name])
        .otherwise(index[name])
        .alias(name)
        for name in told
    }  # fmt: skip
    by_file = F.col("bookie_id").isin(list(whole)) & (index.isNull() | (index["state"] == IndexState.OK))
    chosen["answered"] = F.when(~by_file, chosen["answered"]).alias("answered")
    beyond = by_file & (F.length(answer["groups"]) > 0) & ~answer["groups"].eqNullSafe(index["groups"])
    listed = F.when(beyond, answer["groups"]).alias("listed")
    rows = both.select(*REPLICA, *chosen.values(), listed, _sets(index, answer, settles).alias("sets"))
    return _unite_sets(rows, [*columns, "listed"])


def combine_pieces(availability: DataFrame, bookies: Sequence[str]) -> DataFrame:
    """One row per replica of bookies whose indexes came in several pieces that may overlap.

    ``bookies`` are the ids of these; the rows of all others are passed on as they are. What any piece shows
    is held, and the piece that knows least says what is known of the rest. Rows without a ledger stay. Files
    that end inside a page must have been recognised before (`auditor.tables.unequal.held_groups`).
    """
    if not bookies:
        return availability
    columns = availability.columns
    told = [name for name in columns if name not in REPLICA]
    several = F.col("bookie_id").isin(list(bookies)) & F.col("ledger_id").isNotNull()
    rank = F.array_position(F.array(*(F.lit(state) for state in _LEAST_KNOWN)), F.col("state"))
    served = F.when(F.col("state") != IndexState.NOT_INDEXED, F.col("groups"))
    pieces = (
        availability.where(several)
        .groupBy(*REPLICA)
        .agg(
            F.min_by(F.struct(*told), F.struct(rank, F.coalesce("path", F.lit("")))).alias("piece"),
            F.max("mtime").alias("newest"),
            F.max("answered").alias("asked"),
            F.collect_list(served).alias("sets"),
        )
    )
    latest = {"mtime": F.col("newest"), "answered": F.col("asked")}
    rows = pieces.select(
        *REPLICA, *(latest.get(name, F.col("piece")[name]).alias(name) for name in told), "sets"
    )
    return availability.where(~several).unionByName(_unite_sets(rows, columns))


def _sets(index: Column, answer: Column, settles: Column) -> Column:
    """The groups of a file and an answer that count: what a bookie serves after all, it said itself."""
    # Where the answer does not settle it, the locations stay beside the state that calls them unknown.
    unserved = (index["state"] == IndexState.NOT_INDEXED) & settles
    kept = F.when(~F.coalesce(unserved, F.lit(False)), index["groups"])
    return F.array_compact(F.array(kept, answer["groups"]))


def _unite_sets(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows with ``groups`` that are the union of their ``sets``."""
    from pyspark.sql.types import StructType

    distinct = F.filter(F.array_distinct("sets"), lambda groups: F.length(groups) > 0)
    rows = rows.withColumn("sets", distinct)
    alone = rows.where("size(sets) < 2").withColumn("groups", F.coalesce(F.get("sets", F.lit(0)), "groups"))
    schema = StructType([rows.schema[name] for name in columns])
    several = rows.where("size(sets) > 1").select(*columns, "sets")
    joined = map_batches(several, _join_batches, schema)
    return alone.select(*columns).unionByName(joined)


def _join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = batch.to_pydict()
        for row, groups in enumerate(table.pop("sets")):
            sets = [groups_of(each) for each in groups]
            try:
                table["groups"][row] = coverage.union(sets).tobytes()
                if table.get("listed", {row: None})[row] is not None:
                    table["listed"][row] = coverage.difference(sets[1], sets[0]).tobytes() or None
            except CoverageLimitError as limit:
                # What the one says is there; the rest is more than can be put together, so it is not known.
                table["state"][row], table["reason"][row] = IndexState.CUT, str(limit)
        schema = pa.schema([field for field in batch.schema if field.name != "sets"])
        yield pa.RecordBatch.from_pydict(table, schema=schema)
