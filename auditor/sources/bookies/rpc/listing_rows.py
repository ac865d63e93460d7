"""What bookies say over the wire, as rows of the table availability, one per ledger and bookie.

What a whole bookie explains is one row of state gap, whose ledger is null: what the bookie did not say before
it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GROUP, GroupBatch
from auditor.codecs.bookie.wire import unaskable
from auditor.model.columns import LEDGER
from auditor.model.states import IndexState
from auditor.sources.bookies.availability_schema import SCHEMA
from auditor.sources.bookies.rpc.connection import address
from auditor.sources.bookies.rpc.conversation import (
    Conversation,
    columns,
    each_bookie,
    one_bookie_per_partition,
)
from auditor.sources.bookies.rpc.listings import Heard, ListingClient
from auditor.sources.bookies.rpc.pairs import Address, Endpoint
from auditor.sources.metadata.ledger_replicas import binary
from auditor.sources.metadata.store import StoreOptions
from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STORAGE = "rpc"
NOWHERE = "rpc:"
"""The path of a bookie without an address."""

ASKED = "state != 'gap' and scope_id = 0"
"""Rows that a request was sent for, in SQL: a gap is of a whole bookie, other scopes are not asked for."""


def rpc_availability(pairs: DataFrame, endpoints: Mapping[str, Endpoint], options: StoreOptions) -> DataFrame:
    """Ask bookies which entries they hold; rows of `auditor.sources.bookies.availability_schema.SCHEMA`.

    ``pairs`` are scope_id, ledger_id, bookie_id, each once. ``endpoints`` has every bookie among them
    (`auditor.sources.bookies.rpc.pairs`). Of ``options``, ``rate_limit`` is requests per second to one
    bookie, ``in_flight`` how many of its requests may be unanswered, ``timeout_s`` seconds to wait for one
    answer.

    Each pair becomes a row of state ok or unreadable. A bookie that cannot be asked, or can no more, becomes
    a row of state gap, and its other pairs none. Land it at once: whenever it is evaluated, it is asked for.
    """

    from auditor.sources.bookies.spark_source import SPARK_SCHEMA

    addresses = {name: endpoint for name, endpoint in endpoints.items() if not isinstance(endpoint, str)}
    absent = {name: endpoint for name, endpoint in endpoints.items() if isinstance(endpoint, str)}
    reachable = pairs.where(~F.col("bookie_id").isin(list(absent)))
    asked = one_bookie_per_partition(reachable.select("bookie_id", *LEDGER), len(addresses), *LEDGER)
    rows = asked.mapInArrow(partial(rpc_rows, addresses=addresses, options=options), SPARK_SCHEMA)
    gaps = pa.Table.from_batches([_gap(name, NOWHERE, absent[name]) for name in sorted(absent)], SCHEMA)
    return rows.unionByName(pairs.sparkSession.createDataFrame(gaps, SPARK_SCHEMA))


def rpc_rows(
    batches: Iterator[pa.RecordBatch], addresses: Mapping[str, Address], options: StoreOptions
) -> Iterator[pa.RecordBatch]:
    """Ask for pairs that are sorted by bookie, one bookie after another. Needs no Spark.

    Rows as `rpc_availability` has them; memory is bounded by one batch of pairs and
    `auditor.sources.bookies.rpc.listings.CHUNK_BYTES` of listings.
    """
    with Conversation(addresses, ListingClient, options) as conversation:
        for bookie_id, part in each_bookie(batches):
            client = conversation.turn_to(bookie_id)
            if client.given_up is None:
                path = address(*addresses[bookie_id])
                pairs = list(columns(part, *LEDGER))
                foreign = [
                    (scope_id, Heard(ledger_id, None, unaskable(scope_id)))
                    for scope_id, ledger_id in pairs
                    if scope_id
                ]
                if foreign:
                    yield _rows(bookie_id, path, foreign)
                for heard in conversation.ask(bookie_id, (ledger for scope, ledger in pairs if not scope)):
                    yield _rows(bookie_id, path, [(0, each) for each in heard])
                if client.given_up is not None:
                    yield _gap(bookie_id, path, client.given_up)


def _rows(bookie_id: str, path: str, heard: list[tuple[int, Heard]]) -> pa.RecordBatch:
    """Rows from what was heard, by scope; the listings are folded together."""
    rows = len(heard)
    listings = [b"" if each.groups is None else each.groups.tobytes() for _, each in heard]
    ends = np.cumsum([0, *map(len, listings)], dtype=np.int64)
    folded = fold(GroupBatch.frombytes(b"".join(listings), ends))
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(bookie_id, pa.string()), rows),
            pa.array([scope_id for scope_id, _ in heard], pa.int64()),
            pa.array([each.ledger_id for _, each in heard], pa.int64()),
            binary(folded.tobytes(), folded.offsets * GROUP.itemsize),
            pa.array(
                [IndexState.UNREADABLE if each.groups is None else IndexState.OK for _, each in heard],
                pa.string(),
            ),
            pa.array([each.reason for _, each in heard], pa.string()),
            pa.array([each.offset for _, each in heard], pa.int64()),
            pa.repeat(pa.scalar(path, pa.string()), rows),
            pa.nulls(rows, pa.int64()),
            pa.nulls(rows, pa.int64()),
            pa.repeat(pa.scalar(STORAGE), rows),
            pa.array([each.answered for _, each in heard], pa.int64()),
            pa.nulls(rows, pa.int64()),
            pa.repeat(pa.scalar(False), rows),
        ],
        schema=SCHEMA,
    )


def _gap(bookie_id: str, path: str, reason: str) -> pa.RecordBatch:
    """The one row of a bookie that says no more."""
    row = {
        "bookie_id": bookie_id,
        "state": IndexState.GAP,
        "reason": reason,
        "path": path,
        "storage": STORAGE,
    }
    return pa.RecordBatch.from_pylist([{**row, "groups": b""}], schema=SCHEMA)
