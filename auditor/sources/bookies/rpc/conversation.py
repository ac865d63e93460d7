"""Questions to many bookies in one task: one bookie after another, each with a connection of its own.

    pairs sorted by bookie -> parts of one bookie -> conversation.ask(bookie, subjects) -> what was heard

A bookie is asked by one task at a time, so that the limits of one client are the limits of the bookie; as
many bookies are asked side by side as Spark runs tasks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import pyarrow as pa

from auditor.sources.bookies.rpc.client import BookieClient, Heard
from auditor.sources.bookies.rpc.connection import Answer, Subject
from auditor.sources.bookies.rpc.pairs import Address
from auditor.sources.metadata.store import StoreOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Conversation(Generic[Subject, Answer, Heard]):
    """Talks to one bookie at a time; keeps its connection while it is the same one."""

    def __init__(
        self,
        addresses: Mapping[str, Address],
        client: Callable[[str, int, StoreOptions], BookieClient[Subject, Answer, Heard]],
        options: StoreOptions,
    ) -> None:
        self._addresses = addresses
        self._new_client = client
        self._options = options
        self._bookie_id: str | None = None
        self._client: BookieClient[Subject, Answer, Heard] | None = None

    def __enter__(self) -> Conversation[Subject, Answer, Heard]:
        self._runner = asyncio.Runner()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._part()
        self._runner.close()

    def turn_to(self, bookie_id: str) -> BookieClient[Subject, Answer, Heard]:
        """The client of a bookie; of another one than the last, a new one."""
        if self._client is None or bookie_id != self._bookie_id:
            self._part()
            self._bookie_id = bookie_id
            self._client = self._new_client(*self._addresses[bookie_id], self._options)
        return self._client

    def ask(self, bookie_id: str, subjects: Iterable[Subject]) -> Iterator[list[Heard]]:
        """What a bookie says of these subjects, a bounded part at a time; nothing once it was given up."""
        client = self.turn_to(bookie_id)
        waiting = deque(subjects)
        while waiting and client.given_up is None:
            heard = self._runner.run(client.ask(waiting))
            if heard:
                yield heard
        if client.given_up is not None:
            self._runner.run(client.close())

    def _part(self) -> None:
        if self._client is not None:
            self._runner.run(self._client.close())
            self._client = None


def each_bookie(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The parts of batches that are about one bookie each; the batches are sorted by ``bookie_id``."""
    for batch in batches:
        if batch.num_rows:
            bookies = batch.column("bookie_id")
            numbers = bookies.dictionary_encode().indices.to_numpy(zero_copy_only=False)
            ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
            for start, end in zip([0, *ends], ends, strict=False):
                yield bookies[start].as_py(), batch.slice(start, end - start)


def one_bookie_per_partition(pairs: DataFrame, bookies: int, *order: str) -> DataFrame:
    """Rows for tasks that ask: all of one bookie in one partition, in the order of these columns."""
    # With a number of its own Spark neither brings parts together nor splits one.
    return pairs.repartition(max(1, bookies), "bookie_id").sortWithinPartitions("bookie_id", *order)


def columns(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch, as the values of these columns."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)
