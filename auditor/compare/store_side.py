"""The two sides of a comparison of stores: the tables of each side, and the differences between them.

A first join compares only the ids of ledgers and a digest of the stored bytes. The other columns are joined
only to the rows that differ. The versions and times that the stores keep for each record are not compared.
The stored bytes contain passwords. Each digest is therefore salted with a random number, which is not
stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from auditor.audit.table_cache import TableCache
from auditor.errors import NoRootError
from auditor.model.columns import make_schema
from auditor.model.comparison import CopyState, StoreItem, StoreSummary
from auditor.model.ledger_id import LayoutKind
from auditor.model.options import AuditOptions
from auditor.sources.metadata.spark_source import LedgerRereadSource, LedgerValueSource, StoreSource
from auditor.sources.metadata.store import ClusterNodes, MetadataStore, SiblingStore
from auditor.sources.metadata.stores import choose_layout, is_live, open_store, source_options, store_options
from auditor.sources.metadata.uri import MetadataUri, parse_metadata_uri
from auditor.sources.owners.applications import APPLICATIONS, OwnersUri
from auditor.sources.owners.spark_source import OWNER_VALUES, OwnerValueSource
from auditor.spark import functions as F
from auditor.spark.batches import select_columns, source_rows
from auditor.spark.types import Column, DataFrame
from auditor.tables.scans import add_doubt_column, doubtful_ids

STORE_DIFFERENCES = make_schema(
    (
        "item",
        pa.string(),
        "kind of the compared item: ledger, owner, cookie, layout, instance-id or id-generator",
    ),
    ("change", pa.string(), "kind of the difference: missing, different, extra or undecided"),
    ("scope_id", pa.int64(), "BP-35 scope of a ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("path", pa.string(), "path in the store; for owners, without the chroot"),
    ("fields", pa.list_(pa.string()), "differing fields of a ledger's metadata, as name: source / copy"),
    ("why", pa.string(), "for undecided: the data that was not read, or that changed"),
    ("source_version", pa.int64(), "version in the source; null: the source does not have it"),
    ("copy_version", pa.int64(), "version in the copy; null: the copy does not have it"),
)

MAX_GAPS = 1000
"""Largest number of unreadable paths in one store's owner trees that are compared with missing owners.

If there are more unreadable paths, every missing owner is undecided.
"""

CHANGED_REASON = "the record changed while the stores were read"

_LEDGER_KEYS, _PATH_KEYS = ("scope_id", "ledger_id"), ("path",)
_LISTED_SQL = "status in ('ok', 'broken', 'unreadable')"
_SCALAR_COLUMNS = (
    "format", "state", "ensemble_size", "write_quorum", "ack_quorum", "last_entry_id", "length",
    "digest_type", "metadata_ctime",
)  # fmt: skip


class TablePair(NamedTuple):
    """The same table from both stores: from the source, and from the store that may be its copy."""

    source: DataFrame
    copy: DataFrame


def digest_values(rows: DataFrame, salt: int) -> DataFrame:
    """Replace the column ``value`` by a column ``digest``, a hash of ``salt`` and the value."""
    return rows.withColumn("digest", F.xxhash64(F.lit(salt), F.col("value"))).drop("value")


def ledger_differences(
    ledgers: TablePair, source_cut_reason: str | None, copy_cut_reason: str | None
) -> DataFrame:
    """Return the ledgers that differ between both stores, as rows of `STORE_DIFFERENCES`.

    Args:
        ledgers: the tables of ledgers of both stores.
        source_cut_reason: reason why any ledger may be missing from the scan of the source. None if there
            is no such reason.
        copy_cut_reason: the same for the scan of the copy.
    """
    # Compare digests first, because few rows differ. The other columns are joined to these rows.
    rows = _unequal_rows(ledgers, _LEDGER_KEYS, _LISTED_SQL)
    for side, cut_reason, name in (
        (ledgers.source, source_cut_reason, "source_doubt"),
        (ledgers.copy, copy_cut_reason, "copy_doubt"),
    ):
        rows = add_doubt_column(rows, doubtful_ids(side, None, cut_reason), 1).withColumnRenamed(
            "doubt", name
        )
    column_names = [*_SCALAR_COLUMNS, "custom_metadata", "segments", "path"]
    for side, column_prefix in ((ledgers.source, "source"), (ledgers.copy, "copy")):
        side_rows = side.where(_LISTED_SQL).select(
            *_LEDGER_KEYS, *(F.col(name).alias(f"{column_prefix}_{name}") for name in column_names)
        )
        rows = rows.join(side_rows, [*_LEDGER_KEYS], "left")
    rows = rows.withColumn("path", F.coalesce("source_path", "copy_path"))
    rows = rows.withColumn("fields", F.when(F.col("change") == CopyState.DIFFERENT, _differing_fields()))
    return _mark_undecided(rows, StoreItem.LEDGER)


def owner_differences(owner_tables: TablePair) -> DataFrame:
    """Return the owners (such as topics) whose stored values differ, as rows of `STORE_DIFFERENCES`."""
    rows = _unequal_rows(owner_tables, _PATH_KEYS, "status = 'ok'")
    for side, name in ((owner_tables.source, "source_doubt"), (owner_tables.copy, "copy_doubt")):
        gap_rows = side.where("status = 'gap'").select(F.col("path").alias("gap"), "damage")
        is_below_gap = (F.col("path") == F.col("gap")) | F.col("path").startswith(F.concat("gap", F.lit("/")))
        # The limit bounds the broadcast. With more gaps, every missing owner is in doubt (`too_many_gaps`).
        rows_below_gaps = rows.select("path").join(F.broadcast(gap_rows.limit(MAX_GAPS)), is_below_gap)
        rows_below_gaps = rows_below_gaps.groupBy("path").agg(
            F.min(F.concat("gap", F.lit(": "), "damage")).alias(name)
        )
        too_many_gaps = gap_rows.groupBy().agg(
            F.when(F.count("*") > MAX_GAPS, "too many paths in the owners' trees could not be read").alias(
                "all"
            )
        )
        rows = rows.join(rows_below_gaps, "path", "left").crossJoin(F.broadcast(too_many_gaps))
        rows = rows.withColumn(name, F.coalesce(name, "all")).drop("all")
    return _mark_undecided(rows, StoreItem.OWNER)


def mark_undecided_differences(
    differences: DataFrame, store_item: str, source: DataFrame | None, copy: DataFrame | None
) -> DataFrame:
    """Mark a difference as undecided if a second read of a store found a different version of the item.

    Args:
        differences: rows of `STORE_DIFFERENCES` from the first read.
        store_item: kind of item in these rows, ``ledger``, or ``owner`` (such as a topic).
        source: rows from the second read of the source. None for a saved store, which cannot change.
        copy: rows from the second read of the copy. None for a saved store.

    Returns:
        All rows of ``differences``, some of them with the change ``undecided``.
    """
    key_columns, is_listed_sql = (
        (_LEDGER_KEYS, _LISTED_SQL) if store_item == StoreItem.LEDGER else (_PATH_KEYS, "status = 'ok'")
    )
    rows, has_changed = differences, F.lit(False)
    for later_rows, name in ((source, "source_version"), (copy, "copy_version")):
        if later_rows is not None:
            later_versions = later_rows.where(is_listed_sql).select(
                *key_columns, F.col("version").alias(f"later_{name}")
            )
            rows = rows.join(later_versions, [*key_columns], "left")
            # Null-safe, because a row that was created or deleted between the reads has changed too.
            has_changed = has_changed | ~F.col(name).eqNullSafe(F.col(f"later_{name}"))
    rows = rows.withColumn("why", F.coalesce("why", F.when(has_changed, CHANGED_REASON)))
    change = F.when(F.col("why").isNotNull(), CopyState.UNDECIDED).otherwise(F.col("change"))
    return rows.withColumn("change", change).select(*STORE_DIFFERENCES.names)


def _unequal_rows(table_pair: TablePair, key_columns: tuple[str, ...], listed_sql: str) -> DataFrame:
    """Join both sides. Return the rows whose digests differ, each with its version on both sides.

    ``key_columns`` identify a row. Rows that do not meet the SQL condition ``listed_sql`` are ignored.
    """

    def select_side(side: DataFrame, name: str) -> DataFrame:
        columns = (F.col("digest").alias(name), F.col("version").alias(f"{name}_version"))
        return side.where(listed_sql).select(*key_columns, *columns)

    joined_rows = select_side(table_pair.source, "source").join(
        select_side(table_pair.copy, "copy"), [*key_columns], "full_outer"
    )
    source, copy = F.col("source"), F.col("copy")
    change = F.when(copy.isNull(), CopyState.MISSING).when(source.isNull(), CopyState.EXTRA)
    return joined_rows.where(~source.eqNullSafe(copy)).withColumn(
        "change", change.otherwise(CopyState.DIFFERENT)
    )


def _mark_undecided(rows: DataFrame, store_item: StoreItem) -> DataFrame:
    """Mark uncertain differences as undecided. Return all differences as rows of `STORE_DIFFERENCES`.

    A difference is undecided if one store lacks the item and this store was not read completely.
    """
    change = F.col("change")
    doubt_column = F.when(change == CopyState.MISSING, F.col("copy_doubt"))
    doubt_column = doubt_column.when(change == CopyState.EXTRA, F.col("source_doubt"))
    rows = rows.withColumns({"item": F.lit(str(store_item)), "why": doubt_column})
    rows = rows.withColumn("change", F.when(doubt_column.isNotNull(), CopyState.UNDECIDED).otherwise(change))
    return select_columns(rows, STORE_DIFFERENCES)


def _differing_fields() -> Column:
    """Return a column that lists the differing metadata fields of each ledger.

    If no field differs, the column has a note that only the bytes differ.
    """

    def _differing_text(name: str, text: Column, *, sorts_entries: bool = False) -> Column:
        source_column, copy_column = F.col(f"source_{name}"), F.col(f"copy_{name}")
        if sorts_entries:  # Spark cannot compare maps
            source_column, copy_column = (
                F.sort_array(F.map_entries(side)) for side in (source_column, copy_column)
            )
        return F.when(~source_column.eqNullSafe(copy_column), text)

    def _both_values_text(name: str) -> Column:
        sides = [
            F.coalesce(F.col(f"{side}_{name}").cast("string"), F.lit("none")) for side in ("source", "copy")
        ]
        return F.concat_ws("", F.lit(f"{name}: "), F.concat_ws(" / ", *sides))

    field_texts = F.array_compact(
        F.array(
            *(_differing_text(name, _both_values_text(name)) for name in _SCALAR_COLUMNS),
            _differing_text("custom_metadata", F.lit("custom_metadata"), sorts_entries=True),
            _differing_text("segments", F.lit("segments")),
        )
    )
    other_bytes_text = F.array(
        F.lit("bytes: the password differs, or the same metadata is encoded differently")
    )
    return F.when(F.size(field_texts) > 0, field_texts).otherwise(other_bytes_text)


_SINGLE_NODES = ("LAYOUT", "INSTANCEID")


@dataclass(frozen=True)
class StoreSide:
    """One of the two open stores of a comparison, with the name ``source`` or ``copy``.

    ``nodes`` are the nodes that the first read found (`ClusterNodes`). Nodes of ledgers, of their
    under-replication marks and of their locks are not included. ``salt`` is the random number that salts the
    digests.
    """

    name: str
    uri: MetadataUri
    store: MetadataStore
    nodes: ClusterNodes
    layout: LayoutKind
    cache: TableCache
    options: AuditOptions
    salt: int

    @property
    def live(self) -> bool:
        """Return whether the store is running, and may therefore change while it is read."""
        return self.store.live

    @property
    def root(self) -> str:
        """Return the path below which BookKeeper stores all metadata."""
        return self.store.root

    def summary(self) -> StoreSummary:
        """Return the store's URI, its position at the first read, and its layout."""
        return StoreSummary(self.uri.text, self.nodes.position, self.layout.value)

    def read_node_values(self, *, is_reread: bool = False) -> dict[str, bytes]:
        """Return the stored bytes of the layout, the instance id and the cookies.

        The keys of the result are paths relative to the root. If ``is_reread`` is True, the values are
        read from the store a second time.
        """
        nodes = self.store.cluster() if is_reread else self.nodes
        return {
            name: znode.data
            for name, znode in nodes.nodes.items()
            if name in _SINGLE_NODES or name.startswith("cookies/")
        }

    def read_ledgers(self) -> DataFrame:
        """Return the table of all ledgers, with their decoded metadata and a digest of the stored bytes."""
        return self.cache.write_table(
            f"{self.name}_ledgers",
            lambda: digest_values(self._read_values(LedgerValueSource, self.nodes), self.salt),
        )

    def reread_ledgers(self) -> DataFrame | None:
        """Read the ids and versions of all ledgers a second time.

        Returns None for a saved store, which cannot change.
        """
        if not self.live:
            return None
        return self.cache.write_table(
            f"{self.name}_ledgers_again", lambda: self._read_values(LedgerRereadSource, self.store.cluster())
        )

    def has_owners(self, application: str) -> bool | None:
        """Return whether an application's owners of ledgers are in this store, next to BookKeeper's root.

        Owners are, for example, Pulsar's topics. Returns None if the store cannot show this.
        """
        owner_tree = APPLICATIONS[application].trees[0]
        return self.store.has_sibling(owner_tree) if isinstance(self.store, SiblingStore) else None

    def read_owners(self, uri: OwnersUri | None) -> DataFrame:
        """Return a digest of the value of each owner (such as a topic). No rows if ``uri`` is None."""
        return self.cache.write_table(
            f"{self.name}_owners", lambda: digest_values(self._owner_values(uri), self.salt)
        )

    def reread_owners(self, uri: OwnersUri | None) -> DataFrame | None:
        """Read the versions of the values of all owners (such as topics) a second time.

        Returns None for a saved store, which cannot change. Also returns None if ``uri`` is None.
        """
        if uri is None or not is_live(uri.tree_uri(APPLICATIONS[uri.application].trees[0])):
            return None
        name = f"{self.name}_owners_again"
        return self.cache.write_table(name, lambda: self._owner_values(uri).drop("value"))

    def _owner_values(self, uri: OwnersUri | None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        if uri is not None:
            with suppress(NoRootError):  # an application that was never used has no values
                return source_rows(self.cache.spark, OwnerValueSource(self._options({"owners": uri.text})))
        return self.cache.spark.createDataFrame([], from_arrow_schema(OWNER_VALUES))

    def _read_values(self, source: type[StoreSource], cluster_nodes: ClusterNodes) -> DataFrame:
        named_options = {"metadata": self.uri.text, "layout": self.layout.value}
        return source_rows(self.cache.spark, source(self._options(named_options, cluster_nodes)))

    def _options(
        self, named_options: Mapping[str, str], cluster_nodes: ClusterNodes | None = None
    ) -> dict[str, str]:
        return source_options(self.cache.spark, self.options, named_options, cluster_nodes)


@contextmanager
def open_side(
    name: str, uri: str, cache: TableCache, options: AuditOptions, salt: int
) -> Iterator[StoreSide]:
    """Open a store for the duration of a ``with`` block. Its digests are salted with ``salt``.

    Raises:
        UsageError: the layout in the URI differs from the layout of the store.
        StoreError: the store cannot be read.
    """
    metadata_uri = parse_metadata_uri(uri)
    with closing(open_store(metadata_uri, store_options(options))) as store:
        cache.progress.stage(f"reading the {name}")
        nodes = store.cluster()
        layout, _ = choose_layout(store, nodes)
        yield StoreSide(name, metadata_uri, store, nodes, layout, cache, options, salt)
