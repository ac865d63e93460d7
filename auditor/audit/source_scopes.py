"""The table ``sources``: for each source, its claimed scope (a part of the cluster) and the proved scope.

If a source lacks an object within its proved scope, the object is absent. Outside this scope it is unknown.
The metadata covers every ledger of its cluster if four conditions are true:

    - The metadata was listed without a gap.
    - Bookies carry the instance id of the metadata.
    - The id generator of the metadata is beyond every id in use.
    - No bookie and no part of the ledger tree lost more than a fifth of its ledgers without explanation.

Cookies, registrations and ensembles together show which bookies exist.
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
from auditor.tables.scans import find_shrunken_blocks
from auditor.tables.sources import SOURCES, rows_of_scopes

MAX_NAMES_SHOWN = 5
DEFAULT_CHECK_SETTINGS = CheckSettings()
"""Settings for the proof of scopes: the defaults of the checks, whatever the run's own settings are."""
EVERY_BOOKIE_SCOPE = "every bookie that exists"
EMPTY_SCOPE = "nothing"


def write_sources(
    cache: TableCache,
    metadata: ClusterMetadata,
    indexes: Indexes,
    tables: Tables,
    earlier_runs: RunsBefore,
    owner_scopes: Iterable[SourceScope] = (),
) -> list[SourceScope]:
    """Write and return the table ``sources``: what part of the cluster each source claims and surely covers.

    Args:
        cache: The writer of the run's tables.
        metadata: The metadata from both scans.
        indexes: The data read from bookies.
        tables: The tables that checks query.
        earlier_runs: The earlier runs of the cluster.
        owner_scopes: The rows for the stores of ledgers' owners, such as topics.
    """
    bookies = tables.roster.bookies
    scopes = [
        _metadata_scope(metadata, indexes.bookies, tables, earlier_runs),
        *_listing_scopes(metadata),
        *(_bookie_scope(row, metadata, indexes, tables) for row in bookies if row["named"] or row["found"]),
        *owner_scopes,
    ]
    cache.write_rows("sources", rows_of_scopes(scopes), SOURCES)
    cache.run.add_to_manifest({DATA_AS_OF: oldest_as_of(scopes)})
    return scopes


def _oldest_data_time(metadata: ClusterMetadata, data_time: int | None) -> int | None:
    """Return the earlier of ``data_time`` and the time of the oldest table that a resumed run took over.

    Times are in ms. Returns ``data_time`` unchanged if it is None, or if the run took over no table.
    """
    oldest_table_time = metadata.source.cache.run_store.oldest_table_ms
    return data_time if data_time is None or oldest_table_time is None else min(data_time, oldest_table_time)


def _metadata_scope(
    metadata: ClusterMetadata, bookies: ClusterBookies, tables: Tables, earlier_runs: RunsBefore
) -> SourceScope:
    source = metadata.source
    claimed_scope = (
        f"every ledger of cluster {source.instance_id}"
        if source.instance_id
        else "every ledger of the cluster, which has no instance id"
    )
    incompleteness_reasons = [
        *_metadata_gap_reasons(metadata, bookies, tables),
        *_lost_ledger_reasons(metadata, tables, earlier_runs),
    ]
    proof_texts = [
        "the list has no gaps",
        "bookies have the same instance id as the metadata",
        "the id generator is above every id",
    ]
    return SourceScope(
        source.uri.text,
        SourceKind.METADATA,
        claimed_scope,
        "the ledgers that the metadata lists" if incompleteness_reasons else claimed_scope,
        "the records of these ledgers were read" if incompleteness_reasons else ", ".join(proof_texts),
        _oldest_data_time(metadata, source.scan_time),
        "; ".join(incompleteness_reasons) or None,
    )


def _metadata_gap_reasons(
    metadata: ClusterMetadata, bookies: ClusterBookies, tables: Tables
) -> Iterator[str]:
    """Yield reasons why the metadata may be incomplete. A fact that could not be checked is also a reason."""
    source = metadata.source
    if metadata.gaps() or source.cache.count("doubtful_ids"):
        yield "not all metadata could be read"
    yield from _wrong_instance_reasons(source.instance_id, bookies)
    generator_row = tables.id_generators.agg(
        F.expr("count(*) AS generators"), F.expr("count_if(listed > 0 or held > 0) AS behind")
    ).first()
    assert generator_row is not None
    if not generator_row["generators"]:
        yield "the id generator could not be compared with the ids in use"
    elif generator_row["behind"]:
        yield "the id generator is behind an id in use"
    suspicious_bookies = (
        tables.holdings.where(large_orphan_share(DEFAULT_CHECK_SETTINGS)).select("bookie_id").collect()
    )
    if suspicious_bookies:
        names = sorted(row["bookie_id"] for row in suspicious_bookies)
        yield f"more than 20 % of the ledgers on {first_names(names, MAX_NAMES_SHOWN)} have no metadata"


def _lost_ledger_reasons(
    metadata: ClusterMetadata, tables: Tables, earlier_runs: RunsBefore
) -> Iterator[str]:
    """Yield a reason if parts of the ledger tree lost ledgers without explanation since an earlier run."""
    source = metadata.source
    earlier_run = earlier_runs.newest_run_with_ledgers(source.cache.run_store, source.scan_time)
    if earlier_run is None:
        return
    earlier_ledgers = source.cache.spark.read.parquet(f"{earlier_run.path}/tables/ledgers")
    shrunken_part_rows = find_shrunken_blocks(
        earlier_ledgers,
        metadata.first.ledgers,
        100 // DEFAULT_CHECK_SETTINGS.large_orphan_share_percent,
        DEFAULT_CHECK_SETTINGS.least_unexplained,
    )
    [row] = shrunken_part_rows.agg(F.expr("count(*) AS leaves"), F.expr("sum(lost) AS lost")).collect()
    if row["leaves"] and not _do_owners_agree(tables):
        tree_part_text = plural(row["leaves"], "part")
        yield (
            f"{tree_part_text} of the ledger tree lost more than 20 % of their ledgers since the run of "
            f"{format_time(earlier_run.finished)}: {row['lost']:,} ledgers in all. The data of the owners "
            "does not show that these ledgers were deleted"
        )


def _do_owners_agree(tables: Tables) -> bool:
    """Return whether all owners (such as topics) were read and name no ledger that the metadata lacks."""
    ownership = tables.ownership
    if named_ledgers(ownership) is None:
        return False
    return ownership.where("standing = 'dangling'").isEmpty()


def _wrong_instance_reasons(instance_id: str | None, bookies: ClusterBookies) -> Iterator[str]:
    """Yield reasons why instance ids do not prove that bookies and metadata belong to the same cluster."""
    directories = bookies.attribution.directories
    instance_ids = {directory.instance_id for directory in directories if directory.instance_id is not None}
    if instance_id is None:
        yield "the metadata has no instance id"
    elif not instance_ids:
        yield "the instance id was not compared: no cookie on a bookie's disks was read"
    elif instance_ids != {instance_id}:
        other_ids = first_names(sorted(instance_ids - {instance_id}), MAX_NAMES_SHOWN)
        yield f"bookies have another instance id: {other_ids}"


def _listing_scopes(metadata: ClusterMetadata) -> Iterator[SourceScope]:
    """Yield how completely each of three lists shows the bookies: cookies, registrations and ensembles."""
    data_time = _oldest_data_time(metadata, metadata.source.scan_time)
    gaps = [(path, reason) for path, reason in metadata.gaps()]
    root = metadata.source.store.root
    unreadable_root_texts = [f"{path}: {reason}" for path, reason in gaps if path == root]
    for name, list_names in (("cookies", ("cookies",)), ("registrations", ("available", "bookies"))):
        path_prefixes = tuple(f"{root}/{list_name}" for list_name in list_names)
        unreadable_list_texts = unreadable_root_texts + [
            f"{path}: {reason}" for path, reason in gaps if path.startswith(path_prefixes)
        ]
        yield _listing_scope(name, data_time, unreadable_list_texts[0] if unreadable_list_texts else None)
    doubtful_count = metadata.source.cache.count("doubtful_ids")
    scope_fault = "some of the ledgers could not be read" if doubtful_count else None
    yield _listing_scope("ensembles", data_time, scope_fault)


def _listing_scope(name: str, data_time: int | None, reason: str | None) -> SourceScope:
    proved_scope, proof_text = (
        (EVERY_BOOKIE_SCOPE, "the list has no gaps")
        if reason is None
        else ("the bookies that were listed", "")
    )
    return SourceScope(
        name, SourceKind.BOOKIES, EVERY_BOOKIE_SCOPE, proved_scope, proof_text, data_time, reason
    )


def _bookie_scope(
    row: Mapping[str, Any], metadata: ClusterMetadata, indexes: Indexes, tables: Tables
) -> SourceScope:
    name = row["bookie_id"]
    claimed_scope = "every ledger on this bookie"
    reason = tables.cluster.unproved_bookies.get(name) or row["reason"]
    if row["read"] == BookieRead.UNREAD:
        return SourceScope(
            name, SourceKind.BOOKIE, claimed_scope, EMPTY_SCOPE, "", None, reason or "not read"
        )
    data_time = _oldest_data_time(metadata, _bookie_time(name, row, metadata, indexes))
    if row["read"] == BookieRead.PARTIAL or row["suspect"]:
        proof_text = "each entry that the bookie's index lists exists on the bookie"
        scope_fault = reason or "one of the bookie's directories is at the path of another bookie"
        return SourceScope(
            name,
            SourceKind.BOOKIE,
            claimed_scope,
            "the ledgers in the bookie's index",
            proof_text,
            data_time,
            scope_fault,
        )
    return SourceScope(
        name,
        SourceKind.BOOKIE,
        claimed_scope,
        claimed_scope,
        "all index directories of the bookie were read",
        data_time,
        None,
    )


def _bookie_time(
    name: str, row: Mapping[str, Any], metadata: ClusterMetadata, indexes: Indexes
) -> int | None:
    """Return the time of a bookie's data in ms, or None if it is unknown.

    If the directories are not proved to be older than the metadata, this is the time of the metadata scan.
    An idle bookie writes nothing, so the times of its files say little.
    """
    scan_time = metadata.source.scan_time
    collection_time = collection_times(indexes.bookies).get(name)
    if collection_time is not None:
        return min(collection_time, scan_time)
    newest_time = indexes.newest_file_time(name)
    has_times = metadata.source.store.keeps_times or (metadata.source.live and row["registered"] is not None)
    if name in indexes.old_sources or not has_times:
        return newest_time
    return scan_time
