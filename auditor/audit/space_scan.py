"""Disk space of an audit: the owner of each byte in entry logs, and a forecast of garbage collection.

The forecast (table ``gc_foresight``) needs only metadata and indexes. It starts from orphans and copies
outside the ensembles. It looks at all ledgers only if a metadata record is in the wrong place or has the
greatest possible id, because the server's listing of ledgers then differs from the scan.

A bookie keeps a deleted ledger until its next garbage collection. Many copies on a busy bookie may therefore
be orphans only since the last collection. `listed_lately` finds these.
"""

from dataclasses import replace

from auditor.audit.changes import RunsBefore
from auditor.audit.entry_log_scan import EntryLogScan, digest_remarks
from auditor.audit.metadata import ClusterMetadata
from auditor.audit.placement_scan import read_properties
from auditor.audit.table_cache import TableCache
from auditor.checks.gc_guards import doubted_orphans
from auditor.errors import UsageError
from auditor.model.amounts import plural
from auditor.model.collector_settings import CollectorSettings
from auditor.model.ledger_id import LayoutKind
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.model.space import DISK_BYTES
from auditor.model.states import LISTED, CacheState, EntryLogState, LedgerStatus
from auditor.sources.bookies.collections.places import COLLECTION_SEPARATOR
from auditor.sources.bookies.entry_logs.reader import SCAN_SOURCE
from auditor.spark import functions as F
from auditor.spark.table_queries import TableQuery, aggregate_many
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.cluster_state import IdRange
from auditor.tables.digests import digests
from auditor.tables.gc_foresight import GC_FORESIGHT, Collector, collected_since, gc_foresight
from auditor.tables.gc_listing import (
    ServerListing,
    find_listing_places,
    listed_ids,
    outcome,
    ranges,
    unsure_ledgers,
)
from auditor.tables.log_entries import log_entries
from auditor.tables.log_foresight import log_foresight
from auditor.tables.orphans import RecentIds
from auditor.tables.space import each_file_once, misplaced_locations, space


def with_space(
    cache: TableCache,
    scan: EntryLogScan,
    availability: DataFrame,
    tables: Tables,
    before: RunsBefore,
    conf: str | None,
) -> Tables:
    """Return ``tables`` with the tables of entry logs. ``availability`` is the whole table of that name.

    ``conf`` is the bookies' configuration file, or None.
    """
    settings = collector_settings(conf)
    times = [(row["path"], row["index_time"]) for row in tables.roster.directories]
    marked_directories = cache.spark.createDataFrame(times, "path string, index_time long")
    unlocated_table = cache.write_table(
        "log_entries",
        lambda: log_entries(
            scan.entry_logs, scan.locations, tables.ledgers, tables.judged, scan.gone_entries
        ),
    )
    byte_counts = cache.write_table(
        "space",
        lambda: space(
            scan.entry_logs,
            scan.locations,
            tables.ledgers,
            availability,
            tables.orphans,
            tables.over_replicated,
            tables.judged,
            tables.bookies,
            marked_directories,
            unlocated_table,
            tables.ownership,
            None if settings.source is None else settings.log_per_ledger,
        ),
    )
    sampled = None
    if (entries := scan.whole_entries) is not None:
        sampled = cache.write_table("digests", lambda: digests(entries, tables.ledgers))
    scan_time = tables.cluster.scan_time
    earlier = before.table(cache, "misplaced", scan_time)
    misplaced_rows = cache.write_table(
        "misplaced",
        lambda: misplaced_locations(
            scan.locations, availability, tables.orphans, sampled, scan_time, earlier
        ),
    )
    read = {
        "space": byte_counts,
        "log_entries": unlocated_table,
        "entry_logs": scan.entry_logs,
        "locations": scan.locations,
        "gone_entries": scan.gone_entries,
        "disks": scan.disks,
        "misplaced": misplaced_rows,
    }
    return tables.add(**read, **({} if sampled is None else {"digests": sampled}))


def space_remarks(scan: EntryLogScan, tables: Tables) -> list[Remark]:
    """Return remarks on the classified bytes, the sampled entries and the unreadable files."""
    counts = _count_bytes(tables.space, scan.entry_logs, scan.locations)
    files, bytes, maps, verified, cached, cache_unread = counts["files"]
    [classed_bytes], [unread], (pair_count, probe_count) = (
        counts["space"],
        counts["unread"],
        counts["pairs"],
    )
    all_bytes = f"all of {'its' if files == 1 else 'their'} {bytes:,} bytes are"
    extent_text = (
        all_bytes if classed_bytes == bytes else f"{bytes - classed_bytes:,} of {bytes:,} bytes are NOT"
    )
    remarks = [
        remark(
            RemarkKind.SPACE if classed_bytes == bytes else RemarkKind.SPACE_UNREAD,
            f"entry logs: {plural(files, 'file', 'files')}, {extent_text} in the table space",
            "each byte is in one class",
            f"{verified:,} of {plural(maps, 'ledgers map')} compared with the log's entries",
            f"{probe_count:,} of {pair_count:,} pairs of ledger and log compared with an entry in the log",
        )
    ]
    if cached:
        unreadable = f", {cache_unread:,} of them unreadable" if cache_unread else ""
        text = f"entry logs: metadata caches of garbage collection have {plural(cached, 'log')}{unreadable}"
        remarks.append(remark(RemarkKind.SPACE, text))
    if unread:
        paths = plural(unread, "file or directory", "files or directories")
        remarks.append(remark(RemarkKind.SPACE_UNREAD, f"entry logs: {paths} could not be read"))
    remarks += disk_remarks(scan.disks)
    return (
        [*remarks, *digest_remarks(tables.digests, scan.collected)] if "digests" in tables.frames else remarks
    )


def disk_remarks(disks: DataFrame) -> list[Remark]:
    """Return remarks on the files beside the entry logs, and on files that could not be read."""
    aggregates = [*(f"sum({kind.column})" for kind in DISK_BYTES), "count(reason)", "count(*)"]
    *sums, unread, row_count = aggregate_many({"disks": (disks, aggregates)})["disks"]
    if not row_count:
        return []
    parts = [f"{bytes:,} bytes of {kind.words}" for kind, bytes in zip(DISK_BYTES, sums, strict=True)]
    remarks = [remark(RemarkKind.SPACE, "other files of the ledger disks (table disks)", *parts)]
    if unread:
        directories = plural(unread, "directory", "directories")
        text = f"other files of the ledger disks: {directories} could not be read to the end"
        remarks.append(remark(RemarkKind.SPACE_UNREAD, text))
    return remarks


def _count_bytes(space: DataFrame, entry_logs: DataFrame, locations: DataFrame) -> dict[str, tuple[int, ...]]:
    """Count files and bytes, so that the sum of ``space`` can be compared with the file lengths.

    Four results have names. ``files`` has six numbers: files, bytes, ledgers maps, maps compared with the
    log's entries, logs in metadata caches, and unreadable ones of the latter. ``space`` has the bytes in the
    table, and ``unread`` the number of unreadable paths. ``pairs`` has the number of pairs of ledger and log,
    and the number of pairs for which an entry was compared.
    """
    is_mapped = f"state in ('{EntryLogState.OK}', '{EntryLogState.MAP_WRONG}')"
    maps = (f"count_if({is_mapped})", f"count_if({is_mapped} and counted = '{SCAN_SOURCE}')")
    caches = ("count(cache)", f"count_if(cache = '{CacheState.UNREADABLE}')")
    unread = entry_logs.where("bytes is null and ledger_id is null")
    return aggregate_many(
        {
            "files": (each_file_once(entry_logs), ("count(*)", "sum(bytes)", *maps, *caches)),
            "space": (space, ("sum(bytes)",)),
            "unread": (unread, ("count(distinct path)",)),
            "pairs": (locations.where("log_id is not null"), ("count(*)", "count(probe)")),
        }
    )


USUAL_INTERVAL_MS = 900_000
"""Interval of garbage collection (gcWaitTime) that Pulsar sets, in ms. The server's default is shorter."""


def collector_settings(path: str | None) -> CollectorSettings:
    """Return the garbage collection settings of a bookie's configuration file, or the server's defaults.

    Raises:
        UsageError: the file does not exist, is no properties file, or has values with which no bookie starts.
    """
    if path is None:
        return CollectorSettings()
    try:
        return CollectorSettings.of(read_properties("--bookie-conf", path), path)
    except ValueError as error:
        raise UsageError(f"--bookie-conf {path}: {error}") from None


def with_foresight(metadata: ClusterMetadata, tables: Tables, before: RunsBefore, conf: str | None) -> Tables:
    """Return ``tables`` with ``gc_foresight``, and with ``log_foresight`` if entry logs were read.

    ``conf`` is the bookies' configuration file, or None. ``before`` are the earlier runs.
    """
    cache, layout = metadata.source.cache, metadata.source.layout
    collector = Collector(collector_settings(conf), layout, _listing(metadata), tables.roster.aliases)
    scan_time = tables.cluster.scan_time

    def of_tables(asked_tables: Tables) -> DataFrame:
        return foresight(collector, asked_tables, before.table(cache, "gc_foresight", scan_time))

    asked_names = None if collector.listing.seen is not None else ("orphans", "over_replicated")
    rows = cache.write_query("gc_foresight", GC_FORESIGHT, TableQuery(asked_names, of_tables), tables)
    tables = replace(tables, collector=collector.settings).add(gc_foresight=rows)
    if "space" not in tables.frames:
        return tables
    # If nothing is left of what an earlier run saw going, that run also shows that a collection came since.
    earlier_rows = before.table(cache, "gc_foresight", scan_time)
    earlier = before.table(cache, "log_foresight", scan_time)
    collections_since = None if earlier_rows is None else collected_since(earlier_rows, tables.availability)
    # With a saved store directories are copies, but for those that were collected: only there bytes that are
    # free are the bookies'.
    collected = tables.disks.where(F.col("directory").contains(COLLECTION_SEPARATOR))
    disks = tables.disks if metadata.source.live else collected
    logs = cache.write_table(
        "log_foresight",
        lambda: log_foresight(
            tables.space,
            tables.entry_logs,
            rows,
            collector.settings,
            scan_time,
            earlier,
            disks,
            tables.availability,
            collections_since,
        ),
    )
    return tables.add(log_foresight=logs)


def foresight_remarks(tables: Tables) -> list[Remark]:
    """Return remarks on the settings of garbage collection. Empty without bookie sources."""
    if not tables.cluster.has_sources:
        return []
    settings, details = tables.collector, []
    if tables.cluster.layout == LayoutKind.ETCD and settings.over_replicated_wait_ms > 0:
        details = [
            "on etcd a bookie that runs for longer than gcOverreplicatedLedgerWaitTime deletes nothing"
        ]
    kind = RemarkKind.COLLECTOR_DEFAULTS if settings.source is None else RemarkKind.COLLECTOR_SETTINGS
    return [remark(kind, settings.origin_text, *details)]


def foresight(collector: Collector, tables: Tables, earlier: DataFrame | None = None) -> DataFrame:
    """Return the rows of ``gc_foresight`` from the tables that checks query."""
    return gc_foresight(
        collector,
        doubted_orphans(tables),
        tables.over_replicated,
        tables.ledgers,
        tables.availability,
        tables.judged,
        tables.verdicts,
        tables.unequal,
        tables.moved,
        tables.cluster.scan_time,
        earlier,
    )


def listed_lately(metadata: ClusterMetadata, before: RunsBefore) -> RecentIds:
    """Return evidence on which orphans were in the metadata within the last garbage collection interval.

    The evidence is an earlier run that lists these orphans, or the order of ids. Runs a query or two.
    """
    source, nodes = metadata.source, metadata.first.nodes.nodes
    conf = source.options.bookie_conf
    since = source.scan_time - (USUAL_INTERVAL_MS if conf is None else collector_settings(conf).wait_ms)
    ids, drawn_ids = metadata.ids_drawn(), None
    if len(ids) == 1 and "idgen" in nodes and source.store.keeps_times and metadata.first.cut is None:
        drawn_ids = drawn_since(metadata.first.ledgers, ids[0], nodes["idgen"].ctime, since)
    return RecentIds(before.ledgers_listed(source.cache, since, source.scan_time), drawn_ids)


def drawn_since(ledgers: DataFrame, ids: IdRange, generator_ctime: int, since: int) -> tuple[int, int] | None:
    """Return the first id that the generator gave out after ``since``, and the id that it gives out next.

    The first id is the lowest above all ids of ledgers from before ``since``. It is 0 if the generator itself
    is newer than ``since``. ``generator_ctime`` is the creation time of the generator. Both times are in ms.
    None if the ids are unknown. A store that lists an id beyond the generator is not trusted: an application
    chose its ids, or its tree is a copy with new znodes and an old generator.
    """
    scope_0_id = F.when(F.col("status").isin(*LISTED) & (F.col("scope_id") == 0), F.col("ledger_id"))
    row = ledgers.agg(
        F.max(scope_0_id).alias("highest"),
        F.max(F.when(F.col("ctime") < since, scope_0_id)).alias("old"),
        F.count_if(F.col("status") == LedgerStatus.GAP.value).alias("gaps"),
    ).first()
    assert row is not None
    if row["gaps"] or row["highest"] is None or row["highest"] >= ids.next:
        return None
    if row["old"] is None and generator_ctime >= since:
        return 0, ids.next
    highest_earlier_id = -1 if row["old"] is None else row["old"]
    lowest_row = ledgers.agg(
        F.min(F.when(scope_0_id > highest_earlier_id, scope_0_id)).alias("first")
    ).first()
    assert lowest_row is not None
    return None if lowest_row["first"] is None else (lowest_row["first"], ids.next)


def _listing(metadata: ClusterMetadata) -> ServerListing:
    """Return the ledgers that garbage collectors will list next, by the last scan."""
    source, second_ledgers = metadata.source, metadata.second.ledgers
    scan = metadata.first.ledgers if second_ledgers is None else second_ledgers
    if unsure_ledgers(scan).isEmpty():
        return ServerListing()
    listed_places = find_listing_places(scan, source.layout, source.store.root)
    range_rows = source.cache.write_table("gc_ranges", lambda: ranges(listed_places), "tables/checks")
    end = outcome(range_rows).first()
    assert end is not None
    return ServerListing(listed_ids(listed_places, range_rows), end["reach"], end["overflows"])
