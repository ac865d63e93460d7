"""What bookies say over the wire, as rows of the table availability, one a ledger and bookie.

A bookie is asked by one task at a time, so that the limits of one client are the limits of the bookie; as
many bookies are asked side by side as Spark runs tasks. What a whole bookie explains is one row of state gap,
whose ledger is null: what the bookie did not say before it is unknown.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from auditor.codecs.bookie_wire import unaskable
from auditor.codecs.fold import fold
from auditor.codecs.groups import GROUP, GroupBatch
from auditor.sources.bookie_rpc import BookieClient, Heard
from auditor.sources.bookie_rpc_connection import address
from auditor.sources.index_columns import SCHEMA
from auditor.sources.ledger_replicas import binary
from auditor.sources.rpc_pairs import Address, Endpoint
from auditor.sources.store import StoreOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STORAGE = "rpc"
NOWHERE = "rpc:"
"""The path of a bookie without an address."""


def rpc_availability(pairs: DataFrame, endpoints: Mapping[str, Endpoint], options: StoreOptions) -> DataFrame:
    """Ask bookies which entries they hold; rows of `auditor.sources.index_columns.SCHEMA`.

    ``pairs`` are scope_id, ledger_id, bookie_id, each once. ``endpoints`` has every bookie among them
    (`auditor.sources.rpc_pairs`). Of ``options``, ``rate_limit`` is requests a second to one bookie,
    ``in_flight`` how many of its requests may be unanswered, ``timeout_s`` seconds to wait for one answer.

    Each pair becomes a row of state ok or unreadable. A bookie that cannot be asked, or can no more, becomes
    a row of state gap, and its other pairs none. Land it at once: whenever it is evaluated, it is asked for.
    """
    from pyspark.sql import functions as F

    from auditor.sources.index_source import SPARK_SCHEMA

    addresses = {name: endpoint for name, endpoint in endpoints.items() if not isinstance(endpoint, str)}
    absent = {name: endpoint for name, endpoint in endpoints.items() if isinstance(endpoint, str)}
    asked = (
        pairs.where(~F.col("bookie_id").isin(list(absent)))
        .select("bookie_id", "scope_id", "ledger_id")
        # With a number of its own Spark neither brings parts together nor splits one.
        .repartition(max(1, len(addresses)), "bookie_id")
        .sortWithinPartitions("bookie_id", "scope_id", "ledger_id")
    )
    rows = asked.mapInArrow(partial(rpc_rows, addresses=addresses, options=options), SPARK_SCHEMA)
    gaps = pa.Table.from_batches([_gap(name, NOWHERE, absent[name]) for name in sorted(absent)], SCHEMA)
    return rows.unionByName(pairs.sparkSession.createDataFrame(gaps, SPARK_SCHEMA))


def rpc_rows(
    batches: Iterator[pa.RecordBatch], addresses: Mapping[str, Address], options: StoreOptions
) -> Iterator[pa.RecordBatch]:
    """Ask for pairs that are sorted by bookie, one bookie after another. Needs no Spark.

    Rows as `rpc_availability` has them; memory is bounded by one batch of pairs and
    `auditor.sources.bookie_rpc.CHUNK_BYTES` of listings.
    """
    with _Conversation(addresses, options) as conversation:
        for batch in batches:
            if batch.num_rows:
                bookies = batch.column("bookie_id")
                numbers = bookies.dictionary_encode().indices.to_numpy(zero_copy_only=False)
                ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
                for start, end in zip([0, *ends], ends, strict=False):
                    part = batch.slice(start, end - start)
                    scopes, ledgers = (part.column(name).to_pylist() for name in ("scope_id", "ledger_id"))
                    yield from conversation.ask(bookies[start].as_py(), scopes, ledgers)


class _Conversation:
    """Talks to one bookie at a time; keeps its connection while it is the same one."""

    def __init__(self, addresses: Mapping[str, Address], options: StoreOptions) -> None:
        self._addresses = addresses
        self._options = options
        self._bookie_id: str | None = None
        self._client: BookieClient | None = None
        self._path = ""

    def __enter__(self) -> _Conversation:
        self._runner = asyncio.Runner()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._part()
        self._runner.close()

    def ask(self, bookie_id: str, scopes: list[int], ledgers: list[int]) -> Iterator[pa.RecordBatch]:
        """Rows for these ledgers of a bookie; nothing more once it was given up."""
        if bookie_id != self._bookie_id:
            self._part()
            self._bookie_id = bookie_id
            where = self._addresses[bookie_id]
            self._client, self._path = BookieClient(*where, self._options), address(*where)
        if self._client is None:
            return
        foreign = [
            (scope_id, Heard(ledger_id, None, unaskable(scope_id)))
            for scope_id, ledger_id in zip(scopes, ledgers, strict=True)
            if scope_id
        ]
        if foreign:
            yield _rows(bookie_id, self._path, foreign)
        waiting = deque(ledger for scope, ledger in zip(scopes, ledgers, strict=True) if not scope)
        while waiting and self._client is not None:
            heard = self._runner.run(self._client.ask(waiting))
            if heard:
                yield _rows(bookie_id, self._path, [(0, each) for each in heard])
            if self._client.given_up is not None:
                yield _gap(bookie_id, self._path, self._client.given_up)
                self._part()

    def _part(self) -> None:
        if self._client is not None:
            self._runner.run(self._client.close())
            self._client = None


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
            pa.array(["unreadable" if each.groups is None else "ok" for _, each in heard], pa.string()),
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
    row = {"bookie_id": bookie_id, "state": "gap", "reason": reason, "path": path, "storage": STORAGE}
    return pa.RecordBatch.from_pylist([{**row, "groups": b""}], schema=SCHEMA)
