"""One of two stores that are compared: what is read of it, in the order in which it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from auditor.audit.landing import Landing
from auditor.errors import NoRootError
from auditor.model.comparison import StoreSummary
from auditor.model.ledger_id import LayoutKind
from auditor.model.options import AuditOptions
from auditor.sources.metadata.spark_source import LedgerAgainSource, LedgerValueSource, StoreSource
from auditor.sources.metadata.store import ClusterNodes, MetadataStore, NeighbourStore
from auditor.sources.metadata.stores import choose_layout, is_live, open_store, source_options, store_options
from auditor.sources.metadata.uri import MetadataUri, parse_metadata_uri
from auditor.sources.owners.applications import APPLICATIONS, OwnersUri
from auditor.sources.owners.spark_source import OWNER_VALUES, OwnerValueSource
from auditor.spark.batches import source_rows
from auditor.spark.types import DataFrame
from auditor.tables.store_differences import digest_values

_ONE_EACH = ("LAYOUT", "INSTANCEID")


@dataclass(frozen=True)
class StoreSide:
    """A store that is open, as ``source`` or as ``copy``, and its own nodes as they were first."""

    name: str
    uri: MetadataUri
    store: MetadataStore
    nodes: ClusterNodes
    layout: LayoutKind
    landing: Landing
    options: AuditOptions
    salt: int

    @property
    def live(self) -> bool:
        """Whether the store is running, and changes while it is read."""
        return self.store.live

    @property
    def root(self) -> str:
        """Below which BookKeeper keeps everything."""
        return self.store.root

    def summary(self) -> StoreSummary:
        """Its URI, where it stood at first, and its layout."""
        return StoreSummary(self.uri.text, self.nodes.position, self.layout.value)

    def values(self, *, again: bool = False) -> dict[str, bytes]:
        """The bytes of layout, instance id and cookies, by their names below the root."""
        nodes = self.store.cluster() if again else self.nodes
        return {
            name: znode.data
            for name, znode in nodes.nodes.items()
            if name in _ONE_EACH or name.startswith("cookies/")
        }

    def ledgers(self) -> DataFrame:
        """Every ledger, decoded, with a digest of its bytes."""
        return self.landing.land(
            f"{self.name}_ledgers",
            lambda: digest_values(self._read(LedgerValueSource, self.nodes), self.salt),
        )

    def ledgers_again(self) -> DataFrame | None:
        """Ids and versions of the ledgers as they are now; None of a saved store."""
        if not self.live:
            return None
        return self.landing.land(
            f"{self.name}_ledgers_again", lambda: self._read(LedgerAgainSource, self.store.cluster())
        )

    def has_owners(self, application: str) -> bool | None:
        """Whether an application's owners lie beside the root; None where the store does not tell."""
        tree = APPLICATIONS[application].trees[0]
        return self.store.has_beside(tree) if isinstance(self.store, NeighbourStore) else None

    def owners(self, uri: OwnersUri | None) -> DataFrame:
        """Every value of the owners, as a digest; no row where there are none."""
        return self.landing.land(
            f"{self.name}_owners", lambda: digest_values(self._owner_values(uri), self.salt)
        )

    def owners_again(self, uri: OwnersUri | None) -> DataFrame | None:
        """The same as they are now, of a running store; None of a saved one."""
        if uri is None or not is_live(uri.tree(APPLICATIONS[uri.application].trees[0])):
            return None
        name = f"{self.name}_owners_again"
        return self.landing.land(name, lambda: self._owner_values(uri).drop("value"))

    def _owner_values(self, uri: OwnersUri | None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        if uri is not None:
            with suppress(NoRootError):  # an application that was never there is one without a value
                return source_rows(self.landing.spark, OwnerValueSource(self._options({"owners": uri.text})))
        return self.landing.spark.createDataFrame([], from_arrow_schema(OWNER_VALUES))

    def _read(self, source: type[StoreSource], at: ClusterNodes) -> DataFrame:
        named = {"metadata": self.uri.text, "layout": self.layout.value}
        return source_rows(self.landing.spark, source(self._options(named, at)))

    def _options(self, named: Mapping[str, str], at: ClusterNodes | None = None) -> dict[str, str]:
        return source_options(self.landing.spark, self.options, named, at)


@contextmanager
def open_side(name: str, uri: str, landing: Landing, options: AuditOptions, salt: int) -> Iterator[StoreSide]:
    """Connect to a store for as long as the block runs; its digests begin with the ``salt``.

    Raises:
        UsageError: the URI says another layout than the store.
        StoreError: the store cannot be read.
    """
    parsed = parse_metadata_uri(uri)
    with closing(open_store(parsed, store_options(options))) as store:
        landing.progress.stage("cluster")
        nodes = store.cluster()
        layout, _ = choose_layout(store, nodes)
        yield StoreSide(name, parsed, store, nodes, layout, landing, options, salt)
