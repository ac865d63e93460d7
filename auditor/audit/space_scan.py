"""Disk space in entry logs by owner, and a forecast of garbage collection.

An owner is an object of an application, such as a topic. The forecast (table ``gc_foresight``) needs metadata
and indexes, but no entry logs. It starts from orphans (ledgers without metadata) and from copies outside the
ensembles. If a metadata record is in the wrong place or has the greatest possible id, the servers list other
ledgers than the scan. The forecast then considers all ledgers.

A bookie keeps a deleted ledger until its next garbage collection. On a busy bookie, many orphans may
therefore be ledgers that were deleted since its last collection. `find_recent_ids` finds these ledgers.
"""

from dataclasses import replace

from auditor.audit.changes import RunsBefore
from auditor.audit.entry_log_scan import EntryLogScan, digest_remarks
from auditor.audit.metadata import ClusterMetadata
from auditor.audit.placement_scan import read_properties
from auditor.audit.table_cache import TableCache
from auditor.checks.gc_guards import orphan_doubts
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
from auditor.spark.table_queries import TableQuery, aggregate_tables
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.cluster_state import IdRange
from auditor.tables.digests import digests
from auditor.tables.gc_foresight import GC_FORESIGHT, CollectorInputs, find_gc_bookies, gc_foresight
from auditor.tables.gc_listing import (
    ServerListing,
    find_listed_ids,
    find_listing_positions,
    find_misplaced_ledgers,
    find_ranges,
    summarize_walk,
)
from auditor.tables.log_entries import log_entries
from auditor.tables.log_foresight import log_foresight
from auditor.tables.orphans import RecentIds
from auditor.tables.space import drop_repeated_files, misplaced_locations, space


def add_space_tables(
    cache: TableCache,
    log_scan: EntryLogScan,
    availability: DataFrame,
    tables: Tables,
    earlier_runs: RunsBefore,
    conf_path: str | None,
) -> Tables:
    """Return ``tables`` with the tables of entry logs.

    ``availability`` is the table of that name with all its rows. ``conf_path`` is the path of
    ``--bookie-conf``, or None.
    """
    settings = read_collector_settings(conf_path)
    index_times = [(row["path"], row["index_time"]) for row in tables.roster.directories]
    dated_directories = cache.spark.createDataFrame(index_times, "path string, index_time long")
    unlocated_table = cache.write_table(
        "log_entries",
        lambda: log_entries(
            log_scan.entry_logs, log_scan.locations, tables.ledgers, tables.judged, log_scan.gone_entries
        ),
    )
    byte_counts = cache.write_table(
        "space",
        lambda: space(
            log_scan.entry_logs,
            log_scan.locations,
            tables.ledgers,
            availability,
            tables.orphans,
            tables.over_replicated,
            tables.judged,
            tables.bookies,
            dated_directories,
            unlocated_table,
            tables.ownership,
            None if settings.source is None else settings.log_per_ledger,
        ),
    )
    digest_rows = None
    if (sampled_entries := log_scan.whole_entries) is not None:
        digest_rows = cache.write_table("digests", lambda: digests(sampled_entries, tables.ledgers))
    scan_time = tables.cluster.scan_time
    earlier_misplaced_rows = earlier_runs.run_table(cache, "misplaced", scan_time)
    misplaced_rows = cache.write_table(
        "misplaced",
        lambda: misplaced_locations(
            log_scan.locations, availability, tables.orphans, digest_rows, scan_time, earlier_misplaced_rows
        ),
    )
    written_tables = {
        "space": byte_counts,
        "log_entries": unlocated_table,
        "entry_logs": log_scan.entry_logs,
        "locations": log_scan.locations,
        "gone_entries": log_scan.gone_entries,
        "disks": log_scan.disks,
        "misplaced": misplaced_rows,
    }
    return tables.add(**written_tables, **({} if digest_rows is None else {"digests": digest_rows}))


def space_remarks(log_scan: EntryLogScan, tables: Tables) -> list[Remark]:
    """Return remarks about bytes in entry logs by class, the sampled entries and the unreadable files."""
    counts = _count_bytes(tables.space, log_scan.entry_logs, log_scan.locations)
    (
        file_count,
        byte_count,
        ledgers_map_count,
        verified_map_count,
        cached_log_count,
        unreadable_cache_count,
    ) = counts["files"]
    [classified_byte_count], [unread_count], (pair_count, compared_pairs) = (
        counts["space"],
        counts["unread"],
        counts["pairs"],
    )
    all_bytes_text = f"all of {'its' if file_count == 1 else 'their'} {byte_count:,} bytes are classified"
    classified_text = (
        all_bytes_text
        if classified_byte_count == byte_count
        else f"{byte_count - classified_byte_count:,} of {byte_count:,} bytes are NOT classified"
    )
    remarks = [
        remark(
            RemarkKind.SPACE if classified_byte_count == byte_count else RemarkKind.SPACE_UNREAD,
            f"entry logs: {plural(file_count, 'file', 'files')}, {classified_text} (table space)",
            "each byte counts in exactly one class",
            f"{verified_map_count:,} of {plural(ledgers_map_count, 'ledgers map')} compared with the entries "
            "in the log",
            f"one entry was looked up for {compared_pairs:,} of {pair_count:,} pairs of ledger and log",
        )
    ]
    if cached_log_count:
        unreadable_text = f", {unreadable_cache_count:,} of them unreadable" if unreadable_cache_count else ""
        logs_text = f"{plural(cached_log_count, 'log')}{unreadable_text}"
        text = f"entry logs: metadata caches of garbage collection contain {logs_text}"
        remarks.append(remark(RemarkKind.SPACE, text))
    if unread_count:
        paths = plural(unread_count, "file or directory", "files or directories")
        remarks.append(remark(RemarkKind.SPACE_UNREAD, f"entry logs: {paths} could not be read"))
    remarks += disk_remarks(log_scan.disks)
    return (
        [*remarks, *digest_remarks(tables.digests, log_scan.collected_bookies)]
        if "digests" in tables.frames
        else remarks
    )


def disk_remarks(disks: DataFrame) -> list[Remark]:
    """Return remarks about the files next to the entry logs, and about files that could not be read."""
    aggregate_sqls = [*(f"sum({kind.column})" for kind in DISK_BYTES), "count(reason)", "count(*)"]
    *byte_sums, unread_count, row_count = aggregate_tables({"disks": (disks, aggregate_sqls)})["disks"]
    if not row_count:
        return []
    size_texts = [
        f"{bytes:,} bytes of {kind.label}" for kind, bytes in zip(DISK_BYTES, byte_sums, strict=True)
    ]
    remarks = [remark(RemarkKind.SPACE, "other files on the ledger disks (table disks)", *size_texts)]
    if unread_count:
        directories = plural(unread_count, "directory", "directories")
        text = f"other files on the ledger disks: {directories} could not be read completely"
        remarks.append(remark(RemarkKind.SPACE_UNREAD, text))
    return remarks


def _count_bytes(space: DataFrame, entry_logs: DataFrame, locations: DataFrame) -> dict[str, tuple[int, ...]]:
    """Return counts of files and bytes, by the names below.

    The number of bytes in the table ``space`` must equal the total length of all files.

        files    numbers of files, bytes, ledgers maps, maps compared with the log's entries, logs in
                 metadata caches, and unreadable caches
        space    number of bytes in the table
        unread   number of unreadable paths
        pairs    number of pairs of ledger and log, and number of these pairs with a compared entry
    """
    has_map_sql = f"state in ('{EntryLogState.OK}', '{EntryLogState.MAP_WRONG}')"
    ledgers_map_sqls = (f"count_if({has_map_sql})", f"count_if({has_map_sql} and counted = '{SCAN_SOURCE}')")
    cache_sqls = ("count(cache)", f"count_if(cache = '{CacheState.UNREADABLE}')")
    unread_count = entry_logs.where("bytes is null and ledger_id is null")
    return aggregate_tables(
        {
            "files": (
                drop_repeated_files(entry_logs),
                ("count(*)", "sum(bytes)", *ledgers_map_sqls, *cache_sqls),
            ),
            "space": (space, ("sum(bytes)",)),
            "unread": (unread_count, ("count(distinct path)",)),
            "pairs": (locations.where("log_id is not null"), ("count(*)", "count(probe)")),
        }
    )


PULSAR_GC_INTERVAL_MS = 900_000
"""Interval of garbage collection (gcWaitTime) that Pulsar sets, in ms. BookKeeper's default is shorter."""


def read_collector_settings(conf_path: str | None) -> CollectorSettings:
    """Return the garbage collection settings from a bookie's configuration file, or the defaults.

    ``conf_path`` is the path of ``--bookie-conf``. If it is None, the result has the defaults.

    Raises:
        UsageError: the file does not exist or is not a properties file, or no bookie would start with its
            values.
    """
    if conf_path is None:
        return CollectorSettings()
    try:
        return CollectorSettings.from_properties(read_properties("--bookie-conf", conf_path), conf_path)
    except ValueError as error:
        raise UsageError(f"--bookie-conf {conf_path}: {error}") from None


def add_gc_forecast(
    metadata: ClusterMetadata, tables: Tables, earlier_runs: RunsBefore, conf_path: str | None
) -> Tables:
    """Return ``tables`` with a forecast of garbage collection by ledger and, if logs were read, by log.

    These are the tables ``gc_foresight`` and ``log_foresight``. ``conf_path`` is the path of
    ``--bookie-conf``, or None.
    """
    cache, layout = metadata.source.cache, metadata.source.layout
    collector_inputs = CollectorInputs(
        read_collector_settings(conf_path), layout, _forecast_server_listing(metadata), tables.roster.aliases
    )
    scan_time = tables.cluster.scan_time

    def forecast_rows(forecast_tables: Tables) -> DataFrame:
        return query_gc_forecast(
            collector_inputs, forecast_tables, earlier_runs.run_table(cache, "gc_foresight", scan_time)
        )

    needed_tables = None if collector_inputs.listing.found_ids is not None else ("orphans", "over_replicated")
    rows = cache.write_query("gc_foresight", GC_FORESIGHT, TableQuery(needed_tables, forecast_rows), tables)
    tables = replace(tables, collector_settings=collector_inputs.settings).add(gc_foresight=rows)
    if "space" not in tables.frames:
        return tables
    # If all ledgers that an earlier run expected to be deleted are gone, garbage was collected since that
    # run.
    earlier_rows = earlier_runs.run_table(cache, "gc_foresight", scan_time)
    earlier_log_rows = earlier_runs.run_table(cache, "log_foresight", scan_time)
    collected_bookies = None if earlier_rows is None else find_gc_bookies(earlier_rows, tables.availability)
    # With a saved store, directories are copies on some other disk. Only collections have the free bytes of
    # the bookies' own disks.
    collected_disks = tables.disks.where(F.col("directory").contains(COLLECTION_SEPARATOR))
    disks = tables.disks if metadata.source.live else collected_disks
    log_rows = cache.write_table(
        "log_foresight",
        lambda: log_foresight(
            tables.space,
            tables.entry_logs,
            rows,
            collector_inputs.settings,
            scan_time,
            earlier_log_rows,
            disks,
            tables.availability,
            collected_bookies,
        ),
    )
    return tables.add(log_foresight=log_rows)


def forecast_remarks(tables: Tables) -> list[Remark]:
    """Return remarks about the garbage collection settings, or an empty list without bookie sources."""
    if not tables.cluster.has_sources:
        return []
    settings, detail_texts = tables.collector_settings, []
    if tables.cluster.layout == LayoutKind.ETCD and settings.over_replicated_wait_ms > 0:
        detail_texts = [
            "on etcd, a bookie deletes nothing once it has run longer than gcOverreplicatedLedgerWaitTime"
        ]
    kind = RemarkKind.COLLECTOR_DEFAULTS if settings.source is None else RemarkKind.COLLECTOR_SETTINGS
    return [remark(kind, settings.origin_text, *detail_texts)]


def query_gc_forecast(
    collector_inputs: CollectorInputs, tables: Tables, earlier_rows: DataFrame | None = None
) -> DataFrame:
    """Return the forecast of garbage collection (``gc_foresight``) from ``tables`` and an older forecast."""
    return gc_foresight(
        collector_inputs,
        orphan_doubts(tables),
        tables.over_replicated,
        tables.ledgers,
        tables.availability,
        tables.judged,
        tables.verdicts,
        tables.unequal,
        tables.moved_ledgers,
        tables.cluster.scan_time,
        earlier_rows,
    )


def find_recent_ids(metadata: ClusterMetadata, earlier_runs: RunsBefore) -> RecentIds:
    """Return evidence that the metadata listed some orphans during the last garbage collection interval.

    An orphan is a ledger that bookies have and the metadata lacks. The evidence is an earlier run that lists
    these orphans, or the order of ids. Runs up to two Spark queries.
    """
    source, nodes = metadata.source, metadata.first.nodes.nodes
    conf_path = source.options.bookie_conf
    min_time = source.scan_time - (
        PULSAR_GC_INTERVAL_MS if conf_path is None else read_collector_settings(conf_path).wait_ms
    )
    id_ranges, issued_id_range = metadata.issued_id_ranges(), None
    if (
        len(id_ranges) == 1
        and "idgen" in nodes
        and source.store.keeps_times
        and metadata.first.gap_reason is None
    ):
        issued_id_range = ids_issued_since(
            metadata.first.ledgers, id_ranges[0], nodes["idgen"].ctime, min_time
        )
    return RecentIds(earlier_runs.recent_ledgers(source.cache, min_time, source.scan_time), issued_id_range)


def ids_issued_since(
    ledgers: DataFrame, id_ranges: IdRange, generator_ctime: int, min_time: int
) -> tuple[int, int] | None:
    """Return the first id that the generator issued after ``min_time``, and the id that it issues next.

    The first id is the lowest id that is greater than all ids of ledgers from before ``min_time``. It is 0
    if the generator is newer than ``min_time``. ``generator_ctime`` is the time at which the generator was
    created. Times are in ms.

    Returns None if the ids are unknown. They are also unknown if the store lists an id beyond the
    generator: either an application chose the id, or the tree is a copy with new znodes and an old
    generator.
    """
    id_without_scope = F.when(F.col("status").isin(*LISTED) & (F.col("scope_id") == 0), F.col("ledger_id"))
    row = ledgers.agg(
        F.max(id_without_scope).alias("highest"),
        F.max(F.when(F.col("ctime") < min_time, id_without_scope)).alias("old"),
        F.count_if(F.col("status") == LedgerStatus.GAP.value).alias("gaps"),
    ).first()
    assert row is not None
    if row["gaps"] or row["highest"] is None or row["highest"] >= id_ranges.next:
        return None
    if row["old"] is None and generator_ctime >= min_time:
        return 0, id_ranges.next
    highest_earlier_id = -1 if row["old"] is None else row["old"]
    lowest_id_row = ledgers.agg(
        F.min(F.when(id_without_scope > highest_earlier_id, id_without_scope)).alias("first")
    ).first()
    assert lowest_id_row is not None
    return None if lowest_id_row["first"] is None else (lowest_id_row["first"], id_ranges.next)


def _forecast_server_listing(metadata: ClusterMetadata) -> ServerListing:
    """Return the ledgers that the bookies' next garbage collection will list, by the last metadata scan."""
    source, second_ledgers = metadata.source, metadata.second.ledgers
    ledger_rows = metadata.first.ledgers if second_ledgers is None else second_ledgers
    if find_misplaced_ledgers(ledger_rows).isEmpty():
        return ServerListing()
    listing_places = find_listing_positions(ledger_rows, source.layout, source.store.root)
    range_rows = source.cache.write_table("gc_ranges", lambda: find_ranges(listing_places), "tables/checks")
    listing_end_row = summarize_walk(range_rows).first()
    assert listing_end_row is not None
    return ServerListing(
        find_listed_ids(listing_places, range_rows), listing_end_row["reach"], listing_end_row["overflows"]
    )
