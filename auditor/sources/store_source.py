"""The ledgers of a metadata store as a Spark table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.ledger_rows import LEDGERS, ledger_rows
from auditor.sources.mark_rows import MARKS, mark_rows
from auditor.sources.store import Part, StoreOptions, Tree, open_store


class _StoreSource(DataSource):
    """What both tables share: where the store is, and how politely it is read.

    Options: ``metadata`` (required), a metadata URI; ``layout``, one of `LayoutKind`'s values (default
    hierarchical); ``parts``, about how many tasks read it (default 8); ``rate_limit``, znodes a second over
    all tasks together; ``in_flight``, ``batch`` and ``timeout_s`` as in `StoreOptions`.
    """

    tree: Tree
    columns: pa.Schema

    def schema(self) -> StructType:
        schema = from_arrow_schema(self.columns)
        assert isinstance(schema, StructType)
        return schema

    def reader(self, schema: StructType) -> StoreReader:
        given = self.options
        polite = StoreOptions()
        polite = replace(
            polite,
            rate_limit=float(given.get("rate_limit", polite.rate_limit)),
            in_flight=int(given.get("in_flight", polite.in_flight)),
            batch=int(given.get("batch", polite.batch)),
            timeout_s=float(given.get("timeout_s", polite.timeout_s)),
        )
        return StoreReader(
            given["metadata"],
            LayoutKind(given.get("layout", LayoutKind.HIERARCHICAL.value)),
            self.tree,
            polite,
            int(given.get("parts", 8)),
            int(given.get("at_once", 1)),
        )


class LedgerSource(_StoreSource):
    """Every ledger of a store, decoded, and what each bookie should hold of it.

    Use: ``spark.read.format("bookkeeper_ledgers").option("metadata", uri).load()``. Options: `_StoreSource`.
    """

    tree = Tree.LEDGERS
    columns = LEDGERS

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return "bookkeeper_ledgers"


class MarkSource(_StoreSource):
    """Every under-replication mark and lock of a store.

    Use: ``spark.read.format("bookkeeper_marks").option("metadata", uri).load()``. Options: `_StoreSource`.
    """

    tree = Tree.MARKS
    columns = MARKS

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return "bookkeeper_marks"


@dataclass(frozen=True)
class StorePartition(InputPartition):
    """The part that one task reads."""

    part: Part


class StoreReader(DataSourceReader):
    """Travels to the workers, so it holds plain values; connections open in the tasks."""

    def __init__(
        self, uri: str, layout: LayoutKind, tree: Tree, options: StoreOptions, parts: int, at_once: int
    ) -> None:
        self._uri = uri
        self._layout = layout
        self._tree = tree
        self._options = options
        self._parts = parts
        self._at_once = at_once

    def partitions(self) -> Sequence[InputPartition]:
        """One for each part that the store offers."""
        store = open_store(self._uri, self._options)
        try:
            return [StorePartition(part) for part in store.parts(self._tree, self._layout, self._parts)]
        finally:
            store.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and decode one part, batch by batch."""
        if not isinstance(partition, StorePartition):
            return  # where there is no part, Spark asks for a partition of its own, which is empty
        # The limit is for the store, whoever asks: tasks that run side by side share it.
        share = replace(self._options, rate_limit=self._options.rate_limit / self._at_once)
        store = open_store(self._uri, share)
        try:
            for batch in store.read(partition.part):
                if self._tree is Tree.LEDGERS:
                    yield ledger_rows(batch, store.root, self._layout)
                else:
                    yield mark_rows(batch, store.root)
        finally:
            store.close()


def register(spark: SparkSession) -> None:
    """Make both tables readable by name in a session."""
    spark.dataSource.register(LedgerSource)
    spark.dataSource.register(MarkSource)
