"""Who refers to the ledgers: read between the two scans of the metadata, landed, and joined with both.

Where ``--owners`` names no store, the metadata's own is asked whether an application lies beside BookKeeper's
root. Without one nothing is read, nothing lands, and no check is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from auditor.audit.cursor_ledgers import newest_compactions, resolve_references
from auditor.audit.index_scan import Indexes
from auditor.audit.landing import WHOLE
from auditor.audit.metadata import ClusterMetadata, ScanDifference
from auditor.audit.metadata_scan import FirstScan, MetadataSource
from auditor.audit.runs_before import RunsBefore
from auditor.errors import StoreError
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.sources.metadata.options import source_options
from auditor.sources.metadata.store import NeighbourStore
from auditor.sources.metadata.stores import is_live
from auditor.sources.owners.applications import APPLICATIONS
from auditor.sources.owners.spark_source import OwnerSource
from auditor.sources.owners.uri import OwnersUri, beside, parse_owners_uri
from auditor.spark.batches import read_source
from auditor.tables.ownership import Moments, ownership

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from auditor.spark.part_tables import PartTable

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


@dataclass(frozen=True)
class Owners:
    """The owners that one audit has read: the table ``rows``, and where it is from; None: there are none.

    ``own`` is whether the metadata's own store was looked at, since nobody named another.
    """

    uri: OwnersUri | None
    rows: DataFrame | None
    own: bool
    notes: tuple[str, ...]


def read_owners(source: MetadataSource, options: AuditOptions) -> Owners:
    """Find who refers to the ledgers, after M0, and land the table owners.

    Raises:
        StoreError: the store that ``--owners`` names cannot be read, or has none.
    """
    named = options.owners not in (None, NOBODY)
    uri, notes = _find(source, options)
    if uri is None:
        return Owners(None, None, not named, notes)
    try:
        rows = source.landing.land("owners", partial(_read, source, uri, options))
    except StoreError as error:
        if named:
            raise
        source.landing.run.remove("tables/owners")
        why = f"who refers to the ledgers could not be read from {uri.text}: {error}"
        return Owners(None, None, True, (*notes, why))
    if named and "owners" in source.landing.empty:
        tree = APPLICATIONS[uri.application].trees[0]
        raise StoreError(
            f"--owners {uri.text}: nothing of {uri.application} is kept there; the chroot above {tree} "
            "belongs into the URI"
        )
    return Owners(uri, rows, not named, notes)


def resolve_cursors(owners: Owners, first: FirstScan, indexes: Indexes) -> Owners:
    """Take what only cursors' ledgers name from the disks (`auditor.audit.cursor_ledgers`)."""
    run = first.source.landing.run
    if owners.rows is None or run.exists(f"tables/ownership/{WHOLE}"):
        return owners
    return replace(
        owners, rows=resolve_references(owners.rows, newest_compactions(owners.rows, first, indexes))
    )


def land_ownership(
    owners: Owners,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    before: RunsBefore,
    options: AuditOptions,
) -> DataFrame | None:
    """Join owners with both scans, and land the table ownership; None where there are no owners."""
    source, uri, rows = metadata.source, owners.uri, owners.rows
    landing = source.landing
    if uri is None or rows is None:
        return None
    grace_ms = round(options.owner_grace * 1000)
    earlier = before.with_owners(landing, source.scan_time - grace_ms)
    moments = Moments(
        source.scan_time,
        grace_ms,
        uri.chroot,
        _zxid(metadata.first) if owners.own else None,
        metadata.first.nodes.scan_time if source.live and not owners.own else None,
        _apart(owners, uri, source),
    )

    def table() -> DataFrame:
        ours = landing.spark.read.parquet(f"{earlier.path}/tables/ownership") if earlier else None
        of_scans = (metadata.first.ledgers, rows, difference.moved, difference.doubtful_ids)
        return ownership(*of_scans, ours, (uri.application,), moments)

    return landing.land("ownership", table)


def owner_notes(owners: Owners, rows: DataFrame) -> list[str]:
    """What a reader of the report should know: whose owners were read, and what that left open.

    ``rows`` are those of the table ownership.
    """
    if owners.uri is None:
        return list(owners.notes)
    open_ones = rows.where(rows.standing.isin(*_OPEN)).groupBy("standing").count().collect()
    counts = {row["standing"]: row["count"] for row in open_ones}
    parts = [
        f"{plural(counts[name], 'ledger', 'ledgers')} {words}"
        for name, words in _OPEN.items()
        if name in counts
    ]
    left = [f"whether somebody needs it is not known of {'; '.join(parts)}"] if parts else []
    return [*owners.notes, f"who refers to the ledgers was read from {owners.uri.text}", *left]


def _find(source: MetadataSource, options: AuditOptions) -> tuple[OwnersUri | None, tuple[str, ...]]:
    """Where the owners are, and why that could not be told of some application."""
    if options.owners == NOBODY:
        return None, ()
    if options.owners is not None:
        return parse_owners_uri(options.owners), ()
    notes: tuple[str, ...] = ()
    for name, application in APPLICATIONS.items():
        try:
            store = source.store
            if isinstance(store, NeighbourStore) and store.has_beside(application.trees[0]):
                return beside(name, source.uri), notes
        except StoreError as error:
            notes += (f"whether {name} refers to these ledgers is unknown: {error}",)
    return None, notes


def _read(source: MetadataSource, uri: OwnersUri, options: AuditOptions) -> pa.Table | PartTable:
    spark = source.landing.spark
    return read_source(spark, OwnerSource(source_options(spark, options, {"owners": uri.text})))


def _zxid(first: FirstScan) -> int | None:
    """Where a running ZooKeeper stood at the first scan; None of other stores."""
    in_zookeeper = first.source.live and first.source.store.keeps_times
    return int(first.nodes.position, 16) if in_zookeeper else None


def _apart(owners: Owners, uri: OwnersUri, source: MetadataSource) -> str | None:
    """Why owners and ledgers may be of two moments."""
    tree = APPLICATIONS[uri.application].trees[0]
    if owners.own or (source.live and is_live(uri.tree(tree))):
        return None
    if uri.store.partition("?")[0] == source.uri.text.partition("?")[0]:
        return None  # one file, or one server's files
    return "owners and ledgers were not saved together"
