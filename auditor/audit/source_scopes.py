"""The table ``sources``: the scope that each source claims to cover, and the scope that the audit proved.

An object that a source lacks counts as absent only within the proved scope. The metadata covers every ledger
of its cluster if four conditions are true. The metadata was listed without a gap. Bookies carry the instance
id of the metadata. The id generator of the metadata is beyond every id in use. No bookie and no part of the
ledger tree lost more than a fifth of its ledgers without explanation. Cookies, registrations and ensembles
together show which bookies exist.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from auditor.audit.bookies import ClusterBookies
from auditor.audit.changes import RunsBefore
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata import ClusterMetadata
from auditor.audit.owner_scan import named_ledgers
from auditor.audit.source_age import collection_times
from auditor.audit.table_cache import TableCache
from auditor.checks.gc_guards import large_orphan_share
from auditor.model.amounts import first_names, format_time, plural
from auditor.model.check_settings import CheckSettings
from auditor.model.source_scope import DATA_AS_OF, SourceKind, SourceScope, oldest_as_of
from auditor.model.states import BookieRead
from auditor.spark import functions as F
from auditor.tables import Tables
from auditor.tables.scans import shrunken_leaves
from auditor.tables.sources import SOURCES, rows_of_scopes

NAMES_SHOWN = 5
PROOF = CheckSettings()
"""Settings by which scopes are proved. They do not depend on the run's settings of the checks."""
EVERY_BOOKIE = "every bookie that exists"
NOTHING = "nothing"


def write_sources(
    cache: TableCache,
    metadata: ClusterMetadata,
    indexes: Indexes,
    tables: Tables,
    before: RunsBefore,
    owners: Iterable[SourceScope] = (),
) -> list[SourceScope]:
    """Write the table ``sources`` once per run, and return its rows.

    Args:
        cache: Writer of the run.
        metadata: Both scans.
        indexes: The data read from bookies.
        tables: The tables that checks query.
        before: The earlier runs of the cluster.
        owners: The rows of owner stores.
    """
    bookies = tables.roster.bookies
    scopes = [
        _metadata_scope(metadata, indexes.bookies, tables, before),
        *_listing_scopes(metadata),
        *(_bookie_scope(row, metadata, indexes, tables) for row in bookies if row["named"] or row["found"]),
        *owners,
    ]
    cache.write_rows("sources", rows_of_scopes(scopes), SOURCES)
    cache.run.add_to_manifest({DATA_AS_OF: oldest_as_of(scopes)})
    return scopes


def _as_of(metadata: ClusterMetadata, time: int | None) -> int | None:
    """Return the time of data: ``time``, or in a resumed run the time of its oldest table if that is earlier.

    None if ``time`` is None.
    """
    resumed = metadata.source.cache.run_store.resumed
    return time if time is None or resumed is None else min(time, resumed)


def _metadata_scope(
    metadata: ClusterMetadata, bookies: ClusterBookies, tables: Tables, before: RunsBefore
) -> SourceScope:
    source = metadata.source
    cluster_name = source.instance_id or "without an instance id"
    claimed_scope = f"every ledger of cluster {cluster_name}"
    faults = [*_metadata_faults(metadata, bookies, tables), *_losses(metadata, tables, before)]
    proofs = [
        "listed without a gap",
        "bookies have the instance id of the metadata",
        "the id generator is above every id",
    ]
    return SourceScope(
        source.uri.text,
        SourceKind.METADATA,
        claimed_scope,
        "the ledgers that the metadata lists" if faults else claimed_scope,
        "the records of these ledgers were read" if faults else ", ".join(proofs),
        _as_of(metadata, source.scan_time),
        "; ".join(faults) or None,
    )


def _metadata_faults(metadata: ClusterMetadata, bookies: ClusterBookies, tables: Tables) -> Iterator[str]:
    """Return reasons why the metadata may be incomplete. Unknown facts count as reasons."""
    source = metadata.source
    if metadata.gaps() or source.cache.count("doubtful_ids"):
        yield "not all metadata could be read"
    yield from _instance_faults(source.instance_id, bookies)
    generators = tables.id_generators.agg(
        F.expr("count(*) AS generators"), F.expr("count_if(listed > 0 or held > 0) AS behind")
    ).first()
    assert generators is not None
    if not generators["generators"]:
        yield "the id generator could not be compared with the ids in use"
    elif generators["behind"]:
        yield "the id generator is behind an id in use"
    holders = tables.holdings.where(large_orphan_share(PROOF)).select("bookie_id").collect()
    if holders:
        names = sorted(row["bookie_id"] for row in holders)
        yield f"more than 20 % of the ledgers on {first_names(names, NAMES_SHOWN)} have no metadata"


def _losses(metadata: ClusterMetadata, tables: Tables, before: RunsBefore) -> Iterator[str]:
    """Return a reason if parts of the ledger tree lost ledgers since the last run without explanation."""
    source = metadata.source
    earlier = before.with_ledgers(source.cache.run_store, source.scan_time)
    if earlier is None:
        return
    ledgers = source.cache.spark.read.parquet(f"{earlier.path}/tables/ledgers")
    shrunken = shrunken_leaves(
        ledgers, metadata.first.ledgers, 100 // PROOF.large_orphan_share_percent, PROOF.least_unexplained
    )
    [row] = shrunken.agg(F.expr("count(*) AS leaves"), F.expr("sum(lost) AS lost")).collect()
    if row["leaves"] and not _owners_agree(tables):
        parts = plural(row["leaves"], "part")
        yield (
            f"{parts} of the ledger tree lost more than 20 % of the ledgers since the run of "
            f"{format_time(earlier.finished)}, {row['lost']:,} in all; owners do not show that "
            "these ledgers were dropped"
        )


def _owners_agree(tables: Tables) -> bool:
    """Return whether owners were read without a gap and name no ledger that the metadata lacks."""
    ownership = tables.ownership
    if named_ledgers(ownership) is None:
        return False
    return ownership.where("standing = 'dangling'").isEmpty()


def _instance_faults(instance_id: str | None, bookies: ClusterBookies) -> Iterator[str]:
    """Return reasons why instance ids do not prove that bookies and metadata belong together."""
    directories = bookies.attribution.directories
    instance_ids = {directory.instance_id for directory in directories if directory.instance_id is not None}
    if instance_id is None:
        yield "the metadata has no instance id"
    elif not instance_ids:
        yield "the instance id was not compared: no cookie on a bookie's disks was read"
    elif instance_ids != {instance_id}:
        yield f"bookies carry instance id {first_names(sorted(instance_ids - {instance_id}), NAMES_SHOWN)}"


def _listing_scopes(metadata: ClusterMetadata) -> Iterator[SourceScope]:
    """Return the scopes of the lists that show which bookies exist: cookies, registrations and ensembles."""
    time = _as_of(metadata, metadata.source.scan_time)
    gaps = [(path, reason) for path, reason in metadata.gaps()]
    root = metadata.source.store.root
    root_faults = [f"{path}: {reason}" for path, reason in gaps if path == root]
    for name, places in (("cookies", ("cookies",)), ("registrations", ("available", "bookies"))):
        path_prefixes = tuple(f"{root}/{place}" for place in places)
        hidden_faults = root_faults + [
            f"{path}: {reason}" for path, reason in gaps if path.startswith(path_prefixes)
        ]
        yield _listing(name, time, hidden_faults[0] if hidden_faults else None)
    hidden_ids = metadata.source.cache.count("doubtful_ids")
    scope_fault = "a part of the ledgers could not be read" if hidden_ids else None
    yield _listing("ensembles", time, scope_fault)


def _listing(name: str, time: int | None, reason: str | None) -> SourceScope:
    proved, proof = (
        (EVERY_BOOKIE, "listed without a gap") if reason is None else ("the bookies that were listed", "")
    )
    return SourceScope(name, SourceKind.BOOKIES, EVERY_BOOKIE, proved, proof, time, reason)


def _bookie_scope(
    row: Mapping[str, Any], metadata: ClusterMetadata, indexes: Indexes, tables: Tables
) -> SourceScope:
    name = row["bookie_id"]
    claimed_scope = "every ledger on this bookie"
    reason = tables.cluster.unproved_bookies.get(name) or row["reason"]
    if row["read"] == BookieRead.UNREAD:
        return SourceScope(name, SourceKind.BOOKIE, claimed_scope, NOTHING, "", None, reason or "not read")
    time = _as_of(metadata, _bookie_time(name, row, metadata, indexes))
    if row["read"] == BookieRead.PARTIAL or row["suspect"]:
        proof = "entries in the bookie's index exist"
        scope_fault = reason or "one of the bookie's directories is at the path of another bookie"
        return SourceScope(
            name,
            SourceKind.BOOKIE,
            claimed_scope,
            "the ledgers in the bookie's index",
            proof,
            time,
            scope_fault,
        )
    return SourceScope(
        name,
        SourceKind.BOOKIE,
        claimed_scope,
        claimed_scope,
        "all index directories of the bookie were read",
        time,
        None,
    )


def _bookie_time(
    name: str, row: Mapping[str, Any], metadata: ClusterMetadata, indexes: Indexes
) -> int | None:
    """Return the time of a bookie's data in ms. None if it is unknown.

    Directories that are not older than the metadata count as equally new: an idle bookie writes nothing.
    """
    scan_time = metadata.source.scan_time
    collected = collection_times(indexes.bookies).get(name)
    if collected is not None:
        return min(collected, scan_time)
    newest = indexes.newest(name)
    is_dated = metadata.source.store.keeps_times or (metadata.source.live and row["registered"] is not None)
    if name in indexes.old or not is_dated:
        return newest
    return scan_time
