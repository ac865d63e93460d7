"""One of two stores that are compared: what is read of it, in the order in which it is needed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from auditor.audit.landing import Landing
from auditor.errors import NoRootError
from auditor.model.comparison import StoreSummary
from auditor.model.options import AuditOptions
from auditor.sources.metadata.layout import choose_layout
from auditor.sources.metadata.options import polite
from auditor.sources.metadata.spark_source import LedgerAgainSource, LedgerValueSource, StoreSource
from auditor.sources.metadata.store import ClusterNodes, NeighbourStore
from auditor.sources.metadata.stores import is_live, open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.sources.owners.applications import APPLICATIONS
from auditor.sources.owners.uri import OwnersUri
from auditor.sources.owners.value_source import OWNER_VALUES, OwnerValueSource
from auditor.spark.source_rows import source_rows
from auditor.tables.store_differences import digest_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ONE_EACH = ("LAYOUT", "INSTANCEID")


class StoreSide:
    """A store, as ``source`` or as ``copy``; connects when it is made, and is to be closed."""

    def __init__(self, name: str, uri: str, landing: Landing, options: AuditOptions, salt: int) -> None:
        self.name = name
        self.uri = parse_metadata_uri(uri)
        self._landing = landing
        self._options = options
        self._salt = salt
        self._store = open_store(self.uri, polite(options))
        try:
            self.live, self.root = self._store.live, self._store.root
            landing.progress.stage("cluster")
            self.nodes = self._store.cluster()
            self.layout, _ = choose_layout(self._store, self.nodes)
        except BaseException:
            self._store.close()  # nobody else holds it yet
            raise

    def summary(self) -> StoreSummary:
        """Its URI, where it stood at first, and its layout."""
        return StoreSummary(self.uri.text, self.nodes.position, self.layout.value)

    def values(self, *, again: bool = False) -> dict[str, bytes]:
        """The bytes of layout, instance id and cookies, by their names below the root."""
        nodes = self._store.cluster() if again else self.nodes
        return {
            name: znode.data
            for name, znode in nodes.nodes.items()
            if name in _ONE_EACH or name.startswith("cookies/")
        }

    def ledgers(self) -> DataFrame:
        """Every ledger, decoded, with a digest of its bytes."""
        return self._landing.land(
            f"{self.name}_ledgers",
            lambda: digest_values(self._read(LedgerValueSource, self.nodes), self._salt),
        )

    def ledgers_again(self) -> DataFrame | None:
        """Ids and versions of the ledgers as they are now; None of a saved store."""
        if not self.live:
            return None
        return self._landing.land(
            f"{self.name}_ledgers_again", lambda: self._read(LedgerAgainSource, self._store.cluster())
        )

    def has_owners(self, application: str) -> bool | None:
        """Whether an application's owners lie beside the root; None where the store does not tell."""
        tree = APPLICATIONS[application].trees[0]
        return self._store.has_beside(tree) if isinstance(self._store, NeighbourStore) else None

    def owners(self, uri: OwnersUri | None) -> DataFrame:
        """Every value of the owners, as a digest; no row where there are none."""
        return self._landing.land(
            f"{self.name}_owners", lambda: digest_values(self._owner_values(uri), self._salt)
        )

    def owners_again(self, uri: OwnersUri | None) -> DataFrame | None:
        """The same as they are now, of a running store; None of a saved one."""
        if uri is None or not is_live(uri.tree(APPLICATIONS[uri.application].trees[0])):
            return None
        name = f"{self.name}_owners_again"
        return self._landing.land(name, lambda: self._owner_values(uri).drop("value"))

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def _owner_values(self, uri: OwnersUri | None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        if uri is not None:
            with suppress(NoRootError):  # an application that was never there is one without a value
                return source_rows(self._landing.spark, OwnerValueSource(self._given(owners=uri.text)))
        return self._landing.spark.createDataFrame([], from_arrow_schema(OWNER_VALUES))

    def _read(self, source: type[StoreSource], at: ClusterNodes) -> DataFrame:
        more: dict[str, Any] = {"metadata": self.uri.text, "layout": self.layout.value}
        if at.revision is not None:
            more |= {"revision": at.revision, "revision_time": at.scan_time}
        return source_rows(self._landing.spark, source(self._given(**more)))

    def _given(self, **more: Any) -> dict[str, str]:
        at_once = self._landing.spark.sparkContext.defaultParallelism
        settings = {
            **asdict(polite(self._options)),
            "parts": at_once * self._options.parts_per_core,
            "at_once": at_once,
        }
        settings |= more
        return {key: str(value) for key, value in settings.items() if value is not None}
