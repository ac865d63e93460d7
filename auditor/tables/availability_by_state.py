"""availability as the checks ask it: each state of an index by itself.

Checks ask for the few indexes that are not ok, and a cluster has tens of millions of others. Which states
occur at all is known before. So a question after one that does not is answered without a look at any table;
of the others Spark reads the parts of the table that have it, and of no path but these rows' own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from auditor.codecs.bookie.index_file import HEADER_BYTES
from auditor.model.states import OF_PLACES, OF_REPLICAS, IndexState
from auditor.sources.bookies.index_files.page_size import IndexShapes
from auditor.spark import functions as F
from auditor.spark.batches import map_batches
from auditor.spark.types import Column, DataFrame
from auditor.tables.accounts import ends_inside_page
from auditor.tables.replica_blocks import Coded


def by_state(
    availability: DataFrame,
    shapes: IndexShapes,
    pieces: DataFrame | None = None,
    of_pieces: Collection[str] = (),
) -> DataFrame:
    """All rows, one per replica, with files that end inside a page as cut.

    ``shapes`` must be of these rows. Of the bookies ``of_pieces``, whose index came in pieces that overlap,
    ``pieces`` has the replicas (`auditor.tables.held_accounts.combine_pieces`).
    """
    others = availability if pieces is None else availability.where(~_of_replicas_of(of_pieces))
    edges = shapes.edges
    may_be_cut = F.col("bookie_id").isin(*edges)

    def of(state: str) -> DataFrame:
        rows = others.where(F.col("state") == state)
        if state == IndexState.OK and edges:
            rows = rows.where(~may_be_cut)
        return rows.withColumn("state", F.lit(state))

    parts = [of(state) for state in (*OF_REPLICAS, *OF_PLACES) if state in shapes.states]
    if edges:
        # No others than these are any longer when they are taken for cut.
        parts.append(with_cut(others.where((F.col("state") == IndexState.OK) & may_be_cut), edges))
    if pieces is not None:
        parts.append(pieces)
    return reduce(lambda some, more: some.unionByName(more), parts or [availability.where(F.lit(False))])


def replicas_in_pieces(availability: DataFrame, shapes: IndexShapes, bookies: Collection[str]) -> DataFrame:
    """The replicas of bookies whose index came in pieces, a row for each piece that has one."""
    rows = availability.where(_of_replicas_of(bookies))
    return with_cut(rows, shapes.edges) if shapes.edges else rows


def with_cut(rows: DataFrame, edges: Mapping[str, int]) -> DataFrame:
    """Rows of ``availability`` with files that end inside a page as cut (`accounts.ends_inside_page`)."""
    return map_batches(rows, partial(_with_cut, edges=edges), rows.schema)


def _with_cut(batches: Iterator[pa.RecordBatch], edges: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        length = table["page_bytes"]
        short = pa.array(
            ends_inside_page(Coded.of(table["state"]), Coded.of(table["bookie_id"]), length, edges)
        )
        instead = {
            "state": IndexState.CUT.value,
            "reason": "the file ends inside a page",
            "offset": pc.add(length, HEADER_BYTES),
        }
        for name, value in instead.items():
            place, field = table.schema.get_field_index(name), table.schema.field(name)
            table = table.set_column(place, field, pc.if_else(short, value, table[name]).cast(field.type))
        yield from table.to_batches()


def _of_replicas_of(bookies: Collection[str]) -> Column:
    of_replica = F.col("ledger_id").isNotNull() & F.col("state").isin(*OF_REPLICAS)
    return F.col("bookie_id").isin(list(bookies)) & of_replica
