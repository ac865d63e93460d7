"""Read of the entry logs (``--entry-logs``) after the indexes, from disks and from collections.

The scan reads index locations before the logs. If compaction moves entries in between, the scan finds the
entries in their new log. A collection made with --entry-logs has the same tables as the scan. With
``--deep``, the audit compares sampled entries with their digests, and the copies of an entry with each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.audit.bookies import ClusterBookies
from auditor.audit.table_cache import SCRATCH, TableCache
from auditor.checks.needs import ENTRIES_WHOLE
from auditor.model.amounts import first_names, plural
from auditor.model.options import AuditOptions
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.model.states import DigestState, NotChecked
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.tables import (
    DISK_SCHEMA,
    LOCATION_SCHEMA,
    LOG_SCHEMA,
    SPACE_TABLES,
    DirectoryOwner,
    collected_rows,
    rows_of_directories,
)
from auditor.sources.bookies.entry_logs.locations import LOCATIONS as LOCATION_ROWS
from auditor.sources.bookies.entry_logs.locations import read_locations
from auditor.sources.bookies.entry_logs.parts import ENTRY_LOGS, LogPart, read_logs_of, slice_parts
from auditor.sources.bookies.entry_logs.rows import DISKS as DISK_ROWS
from auditor.sources.bookies.entry_logs.rows import SIZES, read_sizes, unlisted_row
from auditor.sources.bookies.entry_logs.whole_entries import WHOLE_ENTRIES, EntrySample, WholeEntryReader
from auditor.sources.bookies.owners import AttributedDirectory
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart
from auditor.sources.metadata.credentials import credentials_file
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables import Tables
from auditor.tables.gone_entries import GONE_ENTRIES, entries_in_no_log, gone_entries

BOOKIES_NAMED = 5
"""Largest number of bookies that a note names."""

_WHY = {
    NotChecked.BUDGET: "beyond the budget of bytes (--digest-budget)",
    NotChecked.LOG: "in a log that could not be read",
    NotChecked.OTHER: "with other data at their location (entry-log-missing)",
    NotChecked.METADATA: "of ledgers whose metadata is gone or cannot be read",
    NotChecked.TYPE: "of ledgers without a digest type in their metadata",
    NotChecked.DUMMY: "of ledgers without digests",
    NotChecked.NO_PASSWORD: "with an HMAC digest whose password was not given (--credentials)",
    NotChecked.OTHER_PASSWORD: "with an HMAC digest made with another password",
}


def whole_entries(
    spark: SparkSession,
    indexes: Sequence[IndexPart],
    ledger_directories: Mapping[str, Sequence[str]],
    options: AuditOptions,
) -> DataFrame:
    """Return a frame of sampled entries of index parts.

    Tasks read the entries when a query uses the frame.
    """
    sample = EntrySample(options.digest_entries, options.digest_percent, options.digest_budget * 1_000_000)
    whole_entry_reader = WholeEntryReader(
        indexes, ledger_directories, sample, credentials_file(options.credentials)
    )
    return PartTable.of(spark, WHOLE_ENTRIES, whole_entry_reader, indexes).frame()


def entries_whole(tables: Tables) -> dict[str, int]:
    """Return the number of entries that were read with their payload, by kind of operation.

    The result is empty without --deep.
    """
    if "digests" not in tables.frames:
        return {}
    return {ENTRIES_WHOLE: tables.digests.where(F.col("ledger_id").isNotNull()).count()}


def digest_remarks(digests: DataFrame, collected: Sequence[str] = ()) -> list[Remark]:
    """Return remarks with the numbers of checked and unchecked sampled entries, and the reasons.

    ``collected`` are bookies whose index is in a collection. A collection has no entries to check.
    """
    counts = {
        (row["state"], row["reason"]): row["entries"]
        for row in digests.groupBy("state", "reason").agg(F.sum("entries").alias("entries")).collect()
    }
    checked_count = sum(count for (state, _), count in counts.items() if state != DigestState.NOT_CHECKED)
    text = f"digests: {plural(checked_count, 'copy')} of sampled entries compared with their digests"
    remarks = [remark(RemarkKind.DIGESTS, text)]
    unchecked = [
        f"{counts[DigestState.NOT_CHECKED, reason]:,} {why}"
        for reason, why in _WHY.items()
        if counts.get((DigestState.NOT_CHECKED, reason))
    ]
    if unchecked:
        remarks.append(
            remark(RemarkKind.DIGESTS, "digests: some copies of entries were not checked", *unchecked)
        )
    if collected:
        text = "digests: collections have no entries to check"
        remarks.append(remark(RemarkKind.DIGESTS, text, first_names(collected, BOOKIES_NAMED)))
    return remarks


NOT_COLLECTED = "its collection was made without --entry-logs"
HAVE_LOGS = ("ledger", "unknown")
"""Roles of directories that may have entry logs."""


class EntryLogScan(NamedTuple):
    """The tables ``entry_logs``, ``locations``, ``disks`` and ``gone_entries``.

    ``whole_entries`` is a frame of the sampled entries, which tasks read when it is used. It is None without
    --deep. ``collected`` are the bookies whose indexes are in collections.
    """

    entry_logs: DataFrame
    locations: DataFrame
    disks: DataFrame
    whole_entries: DataFrame | None
    collected: Sequence[str]
    gone_entries: DataFrame


def read_entry_logs(
    cache: TableCache, bookies: ClusterBookies, ledgers: DataFrame, options: AuditOptions
) -> EntryLogScan | None:
    """Read the index locations, the logs and the files beside them. Return None without --entry-logs.

    Index entries of ``ledgers`` that point to a missing log are read a second time, at the end.
    """
    if not options.entry_logs:
        return None
    spark = cache.spark
    part_count = spark.sparkContext.defaultParallelism * options.parts_per_core
    indexed = [bookie for bookie in bookies.attribution.bookies.values() if bookie.index_directories]
    indexes = index_parts.plan_parts(
        [(bookie.bookie_id, bookie.index_directories) for bookie in indexed], part_count
    )
    directories_by_bookie = {
        bookie.bookie_id: bookies.attribution.ledger_directories(bookie.bookie_id) for bookie in indexed
    }
    directories = _Directories(bookies)

    def locations() -> DataFrame:
        disk_locations = PartTable.of(
            spark, LOCATION_ROWS, partial(read_locations, directories_by_bookie), indexes
        ).frame()
        owners = bookies.settled.owner_of_piece
        rows = collected_rows(spark, "locations", LOCATION_SCHEMA, directories.collections, owners)
        return (
            disk_locations if rows is None else disk_locations.unionByName(rows.select(*LOCATION_ROWS.names))
        )

    def entry_logs() -> DataFrame:
        parts = slice_parts(directories.log_parts(options.deep), part_count)
        disk_locations = PartTable.of(spark, ENTRY_LOGS, read_logs_of, parts).frame()
        return directories.with_collected(disk_locations, "entry_logs", LOG_SCHEMA, ENTRY_LOGS)

    where = cache.write_table("locations", locations)
    logs = cache.write_table("entry_logs", entry_logs)
    disks = cache.write_table("disks", lambda: directories.disks(spark))
    sampled_rows = whole_entries(spark, indexes, directories_by_bookie, options) if options.deep else None
    collected = sorted({owner.bookie_id for owner in bookies.settled.owner_of_piece.values()})
    entries_not_in_log = entries_in_no_log(where, ledgers)
    # As many as there are bookies.
    lacking = {row["bookie_id"] for row in entries_not_in_log.select("bookie_id").distinct().collect()}
    parts = [part for part in indexes if part.bookie_id in lacking]
    second_reading = None
    if parts:
        second_part_table = PartTable.of(
            spark, LOCATION_ROWS, partial(read_locations, directories_by_bookie), parts
        )
        second_reading = cache.write_table("locations_again", second_part_table.frame, f"tables/{SCRATCH}")
    lost_entries = cache.write_or_empty(
        bool(lacking), "gone_entries", GONE_ENTRIES, lambda: gone_entries(entries_not_in_log, second_reading)
    )
    return EntryLogScan(logs, where, disks, sampled_rows, collected, lost_entries)


class _Directories:
    """Every directory ``current`` of the sources, on disk or in a collection, with or without an owner."""

    def __init__(self, bookies: ClusterBookies) -> None:
        self._bookies = bookies
        self._in_rocksdb = {
            name: any(directory.storage == ROCKSDB for directory in bookie.index_directories)
            for name, bookie in bookies.attributed.bookies.items()
        }
        directory_by_path = {
            directory.found.path: directory.found for directory in bookies.attributed.found_directories
        }
        self._current = [
            (row, found_directory)
            for row in bookies.attributed.directories
            if (found_directory := directory_by_path.get(row.path)) is not None
            and found_directory.has_current
        ]
        place_by_path = {
            name: place for name, place in bookies.collected.directories.items() if place.trouble is None
        }
        self._collected = place_by_path
        self.collections: list[tuple[Collection, CollectionManifest]] = [
            collection
            for collection in bookies.collected.readable_collections
            if all(name in collection[1].tables for name in SPACE_TABLES)
        ]
        self._ids = {collection.path: manifest.id for collection, manifest in self.collections}

    def _logger(self, row: AttributedDirectory) -> int | None:
        """Return the number of the entry logger that writes to a directory. None if it is unknown."""
        if row.owner is not None and not self._in_rocksdb.get(row.owner):
            return 0
        owner_directories = self._bookies.attributed.ledger_directories(row.owner) if row.owner else []
        return owner_directories.index(row.path) if row.path in owner_directories else None

    def _cache(self, row: AttributedDirectory) -> str | None:
        """Return the directory with the garbage collector's metadata cache. None with RocksDB."""
        if row.owner is None or self._in_rocksdb.get(row.owner):
            return None
        return next(iter(self._bookies.attributed.ledger_directories(row.owner)), None) or None

    def log_parts(self, verify: bool) -> list[LogPart]:
        """Return the parts on disk that may have entry logs."""
        return [
            LogPart(
                row.owner,
                self._logger(row),
                row.path,
                IndexDirectory.from_version(row.path, directory.version).version_sha256,
                verify=verify,
                cache=self._cache(row),
            )
            for row, directory in self._current
            if row.role in HAVE_LOGS and row.path not in self._bookies.collected.directories
        ]

    def disks(self, spark: SparkSession) -> DataFrame:
        """Return the sizes of the files in the directories, without entry logs."""
        rows = [row for row, _ in self._current if row.path not in self._bookies.collected.directories]
        owners = {row.path: row.owner for row in rows}
        bookie_of = spark.createDataFrame(sorted(owners.items()), "directory string, bookie_id string")
        sizes = PartTable.of(spark, SIZES, read_sizes, sorted(owners)).frame().join(bookie_of, "directory")
        return self.with_collected(sizes.select(*DISK_ROWS.names), "disks", DISK_SCHEMA, DISK_ROWS)

    def with_collected(
        self, disk_locations: DataFrame, table: str, collected: pa.Schema, schema: pa.Schema
    ) -> DataFrame:
        """Return the rows of a table from disk (``disk_locations``) and collections.

        Each directory whose collection lacks the table has a row that says so.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = disk_locations.select(*schema.names)
        if owners := list(self._owners()):
            from_collections = rows_of_directories(
                disk_locations.sparkSession, table, collected, self.collections, owners
            )
            rows = rows.unionByName(from_collections.select(*schema.names))
        if lacking := list(self._lacking(table)):
            unread_rows = pa.Table.from_pylist(lacking, schema=schema)
            rows = rows.unionByName(
                disk_locations.sparkSession.createDataFrame(unread_rows, from_arrow_schema(schema))
            )
        return rows

    def _owners(self) -> Iterator[DirectoryOwner]:
        for row, _ in self._current:
            place = self._collected.get(row.path)
            if place is not None and place.collection in self._ids:
                logger = self._logger(row)
                yield DirectoryOwner(self._ids[place.collection], place.path, row.path, row.owner, logger)

    def _lacking(self, table: str) -> Iterator[dict[str, Any]]:
        """Return a row for each directory whose collection lacks the table."""
        for row, _ in self._current:
            place = self._bookies.collected.directories.get(row.path)
            if place is None or (place.trouble is None and place.collection in self._ids):
                continue
            reason = place.trouble or NOT_COLLECTED
            if table != "entry_logs":
                yield {"bookie_id": row.owner, "directory": row.path, "reason": reason}
            elif row.role in HAVE_LOGS:
                unlisted_log = unlisted_row(row.path, OSError(reason))
                yield {"bookie_id": row.owner, "logger": self._logger(row), **unlisted_log}
