"""Who refers to the ledgers: read between the two scans of the metadata, landed, and joined with both.

Where ``--owners`` names no store, the metadata's own is asked whether an application lies beside BookKeeper's
root. Without one nothing is read, nothing lands, and no check is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from auditor.audit.cursor_ledgers import newest_compactions, resolved
from auditor.audit.index_scan import BookieScan, Indexes
from auditor.audit.landing import WHOLE, Landing
from auditor.audit.metadata_scan import MetadataScan
from auditor.audit.runs_before import RunsBefore
from auditor.errors import StoreError
from auditor.model.amounts import plural
from auditor.model.history import RunSummary
from auditor.model.options import AuditOptions
from auditor.sources.metadata.options import polite
from auditor.sources.metadata.stores import is_live
from auditor.sources.owners.applications import APPLICATIONS
from auditor.sources.owners.spark_source import OwnerSource
from auditor.sources.owners.uri import OwnersUri, beside, parse_owners_uri
from auditor.spark.source_rows import source_rows
from auditor.tables.ownership import OWNERSHIP, Moments, ownership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOBODY = "none"
"""The value of ``--owners`` that looks for none."""

_OPEN = {
    "young": "younger than --owner-grace",
    "unknown": "whose owner could not be read",
    "foreign": "of other applications",
    "unnamed": "without custom metadata",
}
"""Standings of ledgers that no owner names and that are not called unowned."""


def check_owners(options: AuditOptions) -> None:
    """Say that ``--owners`` cannot be meant before anything is read.

    Raises:
        UsageError: it names no application, or its URI cannot be meant.
    """
    if options.owners not in (None, NOBODY):
        parse_owners_uri(str(options.owners))


class OwnerScan:
    """The owners that one audit reads; ``uri`` is None where there are none."""

    def __init__(self, landing: Landing, metadata: MetadataScan, options: AuditOptions) -> None:
        self._landing = landing
        self._metadata = metadata
        self._options = options
        self._notes: list[str] = []
        self._own = options.owners is None
        self.uri = self._find()
        self._rows = self._land(self.uri) if self.uri is not None else None

    def look_into_cursors(self, bookies: BookieScan, indexes: Indexes) -> None:
        """Take what only cursors' ledgers name from the disks (`auditor.audit.cursor_ledgers`)."""
        if self._rows is not None and not self._landing.run.exists(f"tables/ownership/{WHOLE}"):
            compactions = newest_compactions(self._rows, self._metadata, bookies, indexes)
            self._rows = resolved(self._rows, compactions)

    def ownership(
        self, moved: DataFrame | None, doubtful: Callable[[], DataFrame], before: RunsBefore
    ) -> DataFrame:
        """The table ownership; without rows, and not landed, where there are no owners."""
        from pyspark.sql.pandas.types import from_arrow_schema

        if self._rows is None:
            self._landing.empty.add("ownership")
            return self._landing.spark.createDataFrame([], from_arrow_schema(OWNERSHIP))
        old = self._metadata.scan_time - round(self._options.owner_grace * 1000)
        earlier = before.with_owners(self._landing, old)
        return self._landing.land("ownership", partial(self._joined, moved, doubtful, earlier))

    def notes(self, rows: DataFrame) -> list[str]:
        """What a reader of the report should know: whose owners were read, and what that left open.

        ``rows`` are those of the table ownership.
        """
        if self.uri is None:
            return self._notes
        open_ones = rows.where(rows.standing.isin(*_OPEN)).groupBy("standing").count().collect()
        counts = {row["standing"]: row["count"] for row in open_ones}
        parts = [
            f"{plural(counts[name], 'ledger', 'ledgers')} {words}"
            for name, words in _OPEN.items()
            if name in counts
        ]
        left = [f"whether somebody needs it is not known of {'; '.join(parts)}"] if parts else []
        return [*self._notes, f"who refers to the ledgers was read from {self.uri.text}", *left]

    def _find(self) -> OwnersUri | None:
        if self._options.owners == NOBODY:
            return None
        if self._options.owners is not None:
            return parse_owners_uri(self._options.owners)
        for name, application in APPLICATIONS.items():
            try:
                if self._metadata.has_beside(application.trees[0]):
                    return beside(name, self._metadata.uri)
            except StoreError as error:
                self._notes.append(f"whether {name} refers to these ledgers is unknown: {error}")
        return None

    def _land(self, uri: OwnersUri) -> DataFrame | None:
        """The table owners; None where nobody asked for it by name and it cannot be read."""
        try:
            rows = self._landing.land("owners", self._read)
        except StoreError as error:
            if not self._own:
                raise
            self._landing.run.remove("tables/owners")
            self._notes.append(f"who refers to the ledgers could not be read from {uri.text}: {error}")
            self.uri = None
            return None
        if not self._own and "owners" in self._landing.empty:
            tree = APPLICATIONS[uri.application].trees[0]
            raise StoreError(
                f"--owners {uri.text}: nothing of {uri.application} is kept there; the chroot above {tree} "
                "belongs into the URI"
            )
        return rows

    def _read(self) -> DataFrame:
        assert self.uri is not None
        at_once = self._landing.spark.sparkContext.defaultParallelism
        settings = {
            "owners": self.uri.text,
            **asdict(polite(self._options)),
            "parts": at_once * self._options.parts_per_core,
            "at_once": at_once,
        }
        given = {key: str(value) for key, value in settings.items() if value is not None}
        return source_rows(self._landing.spark, OwnerSource(given))

    def _joined(
        self, moved: DataFrame | None, doubtful: Callable[[], DataFrame], earlier: RunSummary | None
    ) -> DataFrame:
        assert self.uri is not None
        assert self._rows is not None
        metadata = self._metadata
        moments = Moments(
            metadata.scan_time,
            round(self._options.owner_grace * 1000),
            self.uri.chroot,
            metadata.zxid() if self._own else None,
            metadata.before.scan_time if metadata.live and not self._own else None,
            self._apart(),
        )
        before = self._landing.spark.read.parquet(f"{earlier.path}/tables/ownership") if earlier else None
        applications = (self.uri.application,)
        return ownership(metadata.ledgers(), self._rows, moved, doubtful(), before, applications, moments)

    def _apart(self) -> str | None:
        """Why owners and ledgers may be of two moments."""
        assert self.uri is not None
        tree = APPLICATIONS[self.uri.application].trees[0]
        if self._own or (self._metadata.live and is_live(self.uri.tree(tree))):
            return None
        if self.uri.store.partition("?")[0] == self._metadata.uri.partition("?")[0]:
            return None  # one file, or one server's files
        return "owners and ledgers were not saved together"
