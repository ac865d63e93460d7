"""Reader of the owners that refer to ledgers. It runs between the two scans of the metadata.

An owner is an object of an application, such as a topic of Pulsar. The owners of all stores form one table
``owners``. If ``--owners`` names no store, the audit looks for an application next to BookKeeper's root in
the metadata store. If there is none, no table is written, and the checks of owners do not run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from auditor.audit.changes import RunsBefore
from auditor.audit.cursor_scan import read_compactions, resolve_references
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata import ClusterMetadata, ScanDifference
from auditor.audit.metadata_scan import FirstScan, MetadataSource
from auditor.errors import StoreError
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.owner_scope import (
    ROLLOVER_MS,
    ListCounts,
    OwnerCounts,
    StoreFacts,
    owner_store_rows,
)
from auditor.model.run_facts import DONE_FILE, Remark, RemarkKind, remark, remark_with_reason
from auditor.model.source_scope import SourceScope
from auditor.runs.directory import RunDirectory
from auditor.sources.metadata.store import SiblingStore
from auditor.sources.metadata.stores import is_live, source_options
from auditor.sources.metadata.uri import OXIA
from auditor.sources.owners.applications import (
    APPLICATIONS,
    OWNERS_SEPARATOR,
    OwnersUri,
    declared_stores,
    named_stores,
    sibling_tree_uri,
)
from auditor.sources.owners.spark_source import OwnerSource
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable, part_table
from auditor.spark.types import DataFrame
from auditor.tables.owner_stores import (
    OWNER_STORES,
    StoreMatches,
    StoreReferences,
    count_claims,
    find_current_store,
    match_stores,
    summarize_owners,
)
from auditor.tables.ownership import UNREADABLE_FAULT, ReadTimes, ownership

_UNKNOWN_REASONS = {
    "young": "younger than --owner-grace",
    "unknown": "whose owner could not be read",
    "foreign": "of other applications, or of namespaces that are in no owner store",
    "unnamed": "without custom metadata",
}
"""Reasons why a ledger without an owner does not count as unowned, each with its text in the report."""

NO_MATCHES = StoreMatches({}, {}, {})


def check_owners(options: AuditOptions) -> None:
    """Check ``--owners`` and ``--owners-complete`` before anything is read.

    Raises:
        UsageError: a value names no application, its URI is invalid, or NOBODY is given together with a
            store.
    """
    named_stores(options)
    declared_stores(options)


@dataclass(frozen=True)
class Owners:
    """The owners (application objects such as topics) that an audit read. ``rows`` has those of all stores.

    ``rows`` is None if there are no owners. ``is_own`` is True if the owners come from the metadata store
    itself, because ``--owners`` named no store. ``notes`` say why owners were not read. ``same_stores`` maps
    the name of each store in this run to its name in the earlier run.
    """

    stores: tuple[OwnersUri, ...]
    rows: DataFrame | None
    is_own: bool
    notes: tuple[str, ...]
    same_stores: StoreMatches = NO_MATCHES

    @property
    def names(self) -> tuple[str, ...]:
        """Return the stores that contain the owners (such as topics), as URIs in the form of ``--owners``."""
        return tuple(store.text for store in self.stores)

    @property
    def applications(self) -> tuple[str, ...]:
        """Return the names of the applications (such as Pulsar) whose owners were read."""
        return tuple(sorted({store.application for store in self.stores}))


def read_owners(source: MetadataSource, options: AuditOptions) -> Owners:
    """Read the owners of ledgers (such as topics) after the first metadata scan (M0). Write table ``owners``.

    Raises:
        StoreError: a store that ``--owners`` names cannot be read, or has no owners.
    """
    named_uris = named_stores(options)
    is_own = named_uris is None
    stores, notes = _find_neighbour_store(source) if named_uris is None else (named_uris, ())
    if not stores:
        return Owners((), None, is_own, notes)
    try:
        rows = source.cache.write_table("owners", partial(_read_owner_table, source, stores, options))
    except StoreError as error:
        if not is_own:
            raise
        source.cache.run.remove("tables/owners")
        reason = f"owners could not be read from {stores[0].text}: {error}"
        return Owners((), None, True, (*notes, reason))
    if not is_own:
        _require_owners(source, stores)
    return Owners(stores, rows, is_own, notes)


def _require_owners(source: MetadataSource, stores: Sequence[OwnersUri]) -> None:
    """Raise StoreError if a store that ``--owners`` names has no row in the table ``owners``."""
    store_names = source.cache.distinct_values("owners", "store")
    for store in stores:
        if store.text not in store_names:
            first_tree = APPLICATIONS[store.application].trees[0]
            raise StoreError(
                f"--owners {store.text}: the store has no data of {store.application}; add the chroot "
                f"above {first_tree} to the URI"
            )


def resolve_cursors(owners: Owners, first_scan: FirstScan, indexes: Indexes) -> Owners:
    """Return ``owners`` with the compacted ledgers that cursor ledgers name (`auditor.audit.cursor_scan`)."""
    run = first_scan.source.cache.run
    if owners.rows is None or run.exists(f"tables/ownership/{DONE_FILE}"):
        return owners
    return replace(
        owners, rows=resolve_references(owners.rows, read_compactions(owners.rows, first_scan, indexes))
    )


def shared_references(owners: DataFrame, previous_ownership: DataFrame | None) -> StoreReferences:
    """Find the stores of owners (e.g. topics) in which the same paths refer to the same ledgers.

    Runs up to three Spark queries.

    BookKeeper issues each ledger id only once, so two different stores never share a reference to a ledger.
    Store names that share a reference therefore mean the same store, or copies of it from two times.

    Args:
        owners: The table ``owners`` of this run.
        previous_ownership: The table ``ownership`` of the earlier run, or None if there is no such table.
    """
    has_own_ledger = (F.col("status") == "ok") & F.col("ledger_id").isNotNull()
    references = owners.where(has_own_ledger & ~F.coalesce("borrowed", F.lit(False)))
    references = references.select("store", "path", "ledger_id").distinct()
    first_ledger_rows = references.groupBy("store").agg(F.min("ledger_id").alias("first")).collect()
    first_ledgers = {row["store"]: row["first"] for row in first_ledger_rows}
    stores_of_same_identity: list[tuple[str, str]] = []
    if len(first_ledgers) > 1:
        store_pairs = references.join(references.withColumnRenamed("store", "other"), ["path", "ledger_id"])
        store_pairs = store_pairs.where("store < other").select("store", "other").distinct()
        stores_of_same_identity = [(row["store"], row["other"]) for row in store_pairs.collect()]
    if previous_ownership is None or "store" not in previous_ownership.columns:  # of an earlier release
        return StoreReferences(first_ledgers, stores_of_same_identity, {})
    earlier_references = previous_ownership.where(
        "path is not null and store is not null and not coalesce(borrowed, false)"
    )
    earlier_rows = earlier_references.select(F.col("store").alias("then"), "path", "ledger_id").distinct()
    counts = references.join(earlier_rows, ["path", "ledger_id"]).groupBy("store", "then").count().collect()
    return StoreReferences(
        first_ledgers, stores_of_same_identity, {(row["store"], row["then"]): row["count"] for row in counts}
    )


def match_owner_stores(owners: Owners, source: MetadataSource, earlier_runs: RunsBefore) -> Owners:
    """Return ``owners`` with ``matches``, which maps names of owner stores to those in the earlier run.

    An owner is an object of an application, such as a topic.
    """
    if owners.rows is None:
        return owners
    run = earlier_runs.newest_run_with(source.cache.run_store, "ownership", source.scan_time)
    previous_ownership = (
        None if run is None else earlier_runs.run_table(source.cache, "ownership", source.scan_time)
    )
    earlier_identities: dict[str, str | None] = {}
    if run is not None and RunDirectory(run.path).exists(f"tables/owner_stores/{DONE_FILE}"):
        rows = RunDirectory(run.path).read("tables/owner_stores").to_pylist()
        earlier_identities = {row["source"]: row.get("identity") for row in rows}
    references = shared_references(owners.rows, previous_ownership)
    return replace(owners, same_stores=match_stores(owners.names, references, earlier_identities))


def _rename_stores(previous_ownership: DataFrame | None, owners: Owners) -> DataFrame | None:
    """Return the earlier run's table ``ownership``, with store names replaced by the names in this run."""
    if previous_ownership is None or "store" not in previous_ownership.columns:
        return previous_ownership
    # One row per store.
    names = [
        row["store"]
        for row in previous_ownership.select("store").distinct().collect()
        if row["store"] is not None
    ]
    stores = [store for store in owners.names if store not in owners.same_stores.first_name_by_alias]
    store_by_name = {
        name: find_current_store(name, stores, owners.same_stores.name_by_earlier_name) for name in names
    }
    renamed_stores = {name: store for name, store in store_by_name.items() if name != store}
    if not renamed_stores:
        return previous_ownership
    store_name_parts = [
        F.lit(store_name) for store_pair in renamed_stores.items() for store_name in store_pair
    ]
    return previous_ownership.withColumn(
        "store", F.coalesce(F.create_map(*store_name_parts)[F.col("store")], F.col("store"))
    )


def write_ownership(
    owners: Owners,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    earlier_runs: RunsBefore,
    options: AuditOptions,
) -> DataFrame | None:
    """Join owners (e.g. topics) with both scans and write table ``ownership``. Return None without owners."""
    source, rows = metadata.source, owners.rows
    cache = source.cache
    if rows is None:
        return None
    grace_ms = round(options.owner_grace * 1000)
    earlier_owner_run = earlier_runs.newest_run_with_owners(
        cache.run_store, source.scan_time - max(grace_ms, ROLLOVER_MS)
    )
    newest_rows = _rename_stores(earlier_runs.run_table(cache, "ownership", source.scan_time), owners)
    read_times = ReadTimes(
        source.scan_time,
        grace_ms,
        {store.text: store.chroot for store in owners.stores},
        _zxid(metadata.first) if owners.is_own else None,
        metadata.first.nodes.scan_time if _lack_common_order(source, owners) else None,
        next(filter(None, (_time_gap_reason(owners, store, source) for store in owners.stores)), None),
    )

    def make_rows() -> DataFrame:
        earlier_ownership = (
            cache.spark.read.parquet(f"{earlier_owner_run.path}/tables/ownership")
            if earlier_owner_run
            else None
        )
        scan_tables = (metadata.first.ledgers, rows, difference.moved_ids, difference.doubtful_ids)
        return ownership(*scan_tables, earlier_ownership, newest_rows, owners.applications, read_times)

    return cache.write_table("ownership", make_rows)


def write_owner_stores(
    owners: Owners, ownership: DataFrame | None, source: MetadataSource, options: AuditOptions
) -> list[SourceScope]:
    """Write the table ``owner_stores``. Return what part of the cluster each store is proved to cover.

    Returns an empty list if there are no stores.
    """
    cache, rows = source.cache, []
    if (
        ownership is not None
        and owners.rows is not None
        and not cache.run.exists(f"tables/owner_stores/{DONE_FILE}")
    ):
        counts = _count_owners(owners, owners.rows, ownership, source.scan_time)
        times_by_store = {
            store.text: source.scan_time
            if _time_gap_reason(owners, store, source) is None
            else counts.store_facts[store.text].newest_value_ms
            for store in owners.stores
            if store.text in counts.store_facts
        }
        rows = owner_store_rows(counts, owners.names, declared_stores(options), times_by_store)
    cache.write_rows("owner_stores", rows, OWNER_STORES)
    names = [field.name for field in fields(SourceScope)]
    stores = cache.run.read("tables/owner_stores", names).to_pylist()
    return [SourceScope(**store) for store in stores]


def _count_owners(owners: Owners, rows: DataFrame, ownership: DataFrame, scan_time: int) -> OwnerCounts:
    """Count rows of the tables ``owners`` (e.g. topics) and ``ownership``. Return totals and counts by store.

    ``rows`` is the table ``owners``. ``owners`` names the stores that were read.
    """
    counts = count_claims(ownership, owners.applications, scan_time).collect()
    counts_by_store: dict[str, ListCounts] = {}
    for row in counts:
        store = owners.names[0] if row["store"] is None else row["store"]  # of an earlier release
        store_counts = counts_by_store.get(store, ListCounts())
        counts_by_store[store] = ListCounts(
            store_counts.listed_before + row["listed_before"], store_counts.dropped + row["dropped"]
        )
    return OwnerCounts(
        claim_count=sum(row["claims"] for row in counts),
        foreign_claim_count=sum(row["foreign_claims"] for row in counts),
        unowned_ledgers=sum(row["unowned"] for row in counts),
        list_counts=counts_by_store,
        store_facts={
            row["store"]: StoreFacts(row["gaps"], row["newest"]) for row in summarize_owners(rows).collect()
        },
        name_by_alias=owners.same_stores.first_name_by_alias,
        store_identities=owners.same_stores.identity_by_name,
    )


def named_ledgers(rows: DataFrame) -> DataFrame | None:
    """Return the rows of the table ``ownership`` in which an owner (such as a topic) names a ledger.

    Returns None if an owner could not be read or no owner names a ledger: a missing row then proves nothing.
    Runs a Spark query.
    """
    has_ledger = F.col("ledger_id").isNotNull() & F.col("path").isNotNull()
    [row] = rows.agg(
        F.count_if(has_ledger).alias("named"),
        F.count_if(F.col("fault") == UNREADABLE_FAULT).alias("unreadable"),
    ).collect()
    return rows.where(has_ledger) if row["named"] and not row["unreadable"] else None


def owner_remarks(owners: Owners, rows: DataFrame) -> list[Remark]:
    """Return remarks about the owners (e.g. topics) that were read, and ledgers whose owner stays unknown.

    ``rows`` are the rows of the table ``ownership``.
    """
    unread_remarks = [remark_with_reason(RemarkKind.OWNERS_UNREAD, note) for note in owners.notes]
    if not owners.stores:
        return unread_remarks
    unknown_rows = rows.where(rows.standing.isin(*_UNKNOWN_REASONS)).groupBy("standing").count().collect()
    counts = {row["standing"]: row["count"] for row in unknown_rows}
    details = [
        f"{plural(counts[name], 'ledger', 'ledgers')} {reason_text}"
        for name, reason_text in _UNKNOWN_REASONS.items()
        if name in counts
    ]
    text = f"{plural(sum(counts.values()), 'ledger')}: owner unknown, not counted as unowned"
    unknown_remarks = [remark(RemarkKind.OWNERS, text, *details)] if details else []
    return [*unread_remarks, remark(RemarkKind.OWNERS, "owners were read", *owners.names), *unknown_remarks]


def _find_neighbour_store(source: MetadataSource) -> tuple[tuple[OwnersUri, ...], tuple[str, ...]]:
    """Return the store of owners (such as topics) next to BookKeeper's root, and notes.

    The first tuple is empty if there is no such store. The notes name applications that could not be
    searched.
    """
    notes: tuple[str, ...] = ()
    for name, application in APPLICATIONS.items():
        try:
            store = source.store
            if isinstance(store, SiblingStore) and store.has_sibling(application.trees[0]):
                return (sibling_tree_uri(name, source.uri),), notes
        except StoreError as error:
            notes += (f"cannot determine whether {name} owns ledgers of this cluster: {error}",)
    return (), notes


def _read_owner_table(
    source: MetadataSource, stores: Sequence[OwnersUri], options: AuditOptions
) -> PartTable:
    spark = source.cache.spark
    parameters = {"owners": OWNERS_SEPARATOR.join(store.text for store in stores)}
    return part_table(spark, OwnerSource(source_options(spark, options, parameters)))


def _zxid(first_scan: FirstScan) -> int | None:
    """Return the zxid of a running ZooKeeper at the first scan, or None for other stores."""
    return int(first_scan.nodes.position, 16) if first_scan.source.uri.scheme == "zk" else None


def _lack_common_order(source: MetadataSource, owners: Owners) -> bool:
    """Return whether owners (such as topics) and ledgers are from live stores without a common order.

    Clocks must then show which read came first. Two different running stores have no common order of changes.
    Oxia has no common order either, because each shard has its own versions.
    """
    return source.live and (not owners.is_own or source.uri.scheme == OXIA)


def _time_gap_reason(owners: Owners, uri: OwnersUri, source: MetadataSource) -> str | None:
    """Return why owners (e.g. topics) and ledgers may be from different times, or None if they are not."""
    first_tree = APPLICATIONS[uri.application].trees[0]
    if owners.is_own or (source.live and is_live(uri.tree_uri(first_tree))):
        return None
    if uri.store.partition("?")[0] == source.uri.text.partition("?")[0]:
        return None  # both are in one file, or in the files of one server
    return "owners and ledgers were not saved together, so they may be from different times"
