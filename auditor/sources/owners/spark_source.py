"""Spark data sources of owners, which are objects of an application (such as topics) that refer to ledgers.

`OwnerSource` reads the owners' references to ledgers. `OwnerValueSource` reads the stored values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from auditor.errors import NoRootError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.columns import make_batch
from auditor.sources.metadata.spark_source import ReadingOptions, TableSource, reading_options
from auditor.sources.metadata.store import Part, StoreOptions, Tree, ZnodeBatch
from auditor.sources.metadata.stores import open_store
from auditor.sources.owners.applications import (
    APPLICATIONS,
    OWNERS,
    OwnersUri,
    owner_rows,
    parse_owners_uris,
)


class OwnerSource(TableSource):
    """All references to ledgers that an application keeps, for topics, subscriptions and schemas.

    Use: ``spark.read.format("bookkeeper_owners").option("owners", "pulsar:zk://host:2181").load()``. The
    option can name several stores, one on each line. The source also accepts those options of `StoreSource`
    that limit the reading.
    """

    format_name = "bookkeeper_owners"
    columns = OWNERS
    decodes_values = True

    def reader(self, schema: StructType) -> OwnerReader:
        """Return a reader for the options.

        Raises:
            UsageError: the option ``owners`` is missing, an option is unknown, or a value is invalid.
        """
        settings = dict(self.options)
        read_options = reading_options(self.name(), settings, ("owners",))
        if not settings.get("owners"):
            raise UsageError(f"{self.name()}: set the option owners, for example to pulsar:zk://host:2181")
        return OwnerReader(parse_owners_uris(settings["owners"]), read_options, self.decodes_values)


@dataclass(frozen=True)
class OwnerPartition(InputPartition):
    """The work of one task: a part of one tree.

    ``owners`` is the store that contains the tree, and ``uri`` is the metadata URI of the tree.
    ``task_options`` has the limits of the task, which are its share of the reader's limits.
    """

    owners: OwnersUri
    uri: str
    part: Part
    task_options: StoreOptions


@dataclass(frozen=True)
class OwnerReader(DataSourceReader):
    """A Spark reader of owners (objects of an application that refer to ledgers, such as topics).

    Spark pickles the reader, so it contains only plain values. Tasks open the connections. The reader
    yields rows of `OWNERS`, or rows of `OWNER_VALUES` if ``decodes_values`` is False.
    """

    owners: tuple[OwnersUri, ...]
    reading_options: ReadingOptions
    decodes_values: bool = True

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each part of each existing tree (a path with references to ledgers).

        Raises:
            StoreError: a store cannot be read, or does not have the application's first tree.
        """
        parts = [partition for owners in self.owners for partition in self._store_partitions(owners)]
        task_options = self.reading_options.limits_per_task(len(parts))
        return [replace(part, task_options=task_options) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the part of the tree in ``partition``, and yield its rows in batches."""
        if not isinstance(partition, OwnerPartition):
            return  # without parts Spark passes an empty partition of its own
        owners = partition.owners
        reader = APPLICATIONS[owners.application].load_reader()
        with closing(open_store(partition.uri, partition.task_options)) as store:
            for batch in store.read(partition.part):
                yield owner_rows(batch, owners, reader) if self.decodes_values else value_rows(batch, owners)

    def _store_partitions(self, owners: OwnersUri) -> list[OwnerPartition]:
        first_tree, *later_trees = APPLICATIONS[owners.application].trees
        partitions = self._tree_partitions(owners, first_tree)
        for tree in later_trees:
            try:
                partitions += self._tree_partitions(owners, tree)
            except NoRootError:
                continue  # the application has not used it yet
        return partitions

    def _tree_partitions(self, owners: OwnersUri, tree: str) -> list[OwnerPartition]:
        uri = owners.tree_uri(tree)
        with closing(open_store(uri, self.reading_options.store)) as store:
            # The layout is ignored: it concerns BookKeeper's own tree.
            parts = store.parts(Tree.WHOLE, LayoutKind.HIERARCHICAL, self.reading_options.parts)
        return [OwnerPartition(owners, uri, part, self.reading_options.store) for part in parts]


OWNER_VALUES = pa.schema(
    [
        ("path", pa.string()),  # below the chroot, to be comparable between two stores
        ("version", pa.int64()),
        ("status", pa.string()),  # ok, or gap: at or below this path there may be more
        ("damage", pa.string()),
        ("value", pa.binary()),
    ]
)


class OwnerValueSource(OwnerSource):
    """All stored values below the trees of an application, for a comparison of two stores.

    A tree is a path below which the application keeps references to ledgers. The source is not registered
    with Spark. Its options are those of `OwnerSource`.
    """

    format_name = "bookkeeper_owner_values"
    columns = OWNER_VALUES
    decodes_values = False


def value_rows(batch: ZnodeBatch, owners: OwnersUri) -> pa.RecordBatch:
    """Return the rows of `OWNER_VALUES` for the znodes in ``batch``.

    A path without a value refers to nothing, so it gives no row. The top of a tree gives no row either,
    because only some stores count it as part of the tree.
    """
    tree_roots = {f"{owners.chroot}/{tree}" for tree in APPLICATIONS[owners.application].trees}
    has_value = [
        len(data) > 0 and path not in tree_roots for path, data in zip(batch.paths, batch.data, strict=True)
    ]
    rows = np.flatnonzero(has_value).tolist()
    chroot_length, gaps = len(owners.chroot), batch.gaps
    columns = {
        "path": [batch.paths[row][chroot_length:] for row in rows]
        + [path[chroot_length:] for path, _ in gaps],
        "version": batch.version[rows].tolist() + [None] * len(gaps),
        "status": ["ok"] * len(rows) + ["gap"] * len(gaps),
        "damage": [None] * len(rows) + [reason for _, reason in gaps],
        "value": [bytes(batch.data[row]) for row in rows] + [None] * len(gaps),
    }
    return make_batch(OWNER_VALUES, len(rows) + len(gaps), columns)
