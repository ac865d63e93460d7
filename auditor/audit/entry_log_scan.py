"""Scan of the entry logs (``--entry-logs``) on disks and in collections. It runs after the index scan.

The scan reads the locations of entries from the indexes before it reads the logs. If compaction moves entries
in between, the scan finds the entries in their new log. A collection made with --entry-logs has the same
tables as the scan. With ``--deep``, the audit compares sampled entries with their digests, and the copies of
an entry with each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.audit.bookies import ClusterBookies
from auditor.audit.table_cache import SCRATCH_DIRECTORY, TableCache
from auditor.checks.needs import WHOLE_ENTRIES_OPERATION
from auditor.model.amounts import first_names, plural
from auditor.model.options import AuditOptions
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.model.states import DigestState, UncheckedReason
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.collections.collection import Collection, CollectionManifest
from auditor.sources.bookies.collections.tables import (
    DISK_SCHEMA,
    LOCATION_SCHEMA,
    LOG_SCHEMA,
    SPACE_TABLES,
    DirectoryOwner,
    read_collected_rows,
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
from auditor.tables.gone_entries import GONE_ENTRIES, find_entries_in_no_log, gone_entries

MAX_BOOKIES_NAMED = 5
"""Largest number of bookies that a note names."""

_UNCHECKED_REASON_TEXTS = {
    UncheckedReason.BUDGET: "beyond the byte limit (--digest-budget)",
    UncheckedReason.LOG: "in a log that could not be read",
    UncheckedReason.OTHER: "with other data at their location in the entry log (entry-log-missing)",
    UncheckedReason.METADATA: "of ledgers whose metadata is gone or cannot be read",
    UncheckedReason.TYPE: "of ledgers whose metadata has no digest type",
    UncheckedReason.DUMMY: "of ledgers with digest type DUMMY, which have no digests",
    UncheckedReason.NO_PASSWORD: "with an HMAC digest whose password was not given (--credentials)",
    UncheckedReason.OTHER_PASSWORD: "with an HMAC digest made with another password",
}


def sample_whole_entries(
    spark: SparkSession,
    parts_of_indexes: Sequence[IndexPart],
    ledger_directories: Mapping[str, Sequence[str]],
    options: AuditOptions,
) -> DataFrame:
    """Return a Spark frame with sampled entries of the indexes, each with its payload.

    Spark tasks read the entries when a query uses the frame.
    """
    entry_sample = EntrySample(
        options.digest_entries, options.digest_percent, options.digest_budget * 1_000_000
    )
    whole_entry_reader = WholeEntryReader(
        parts_of_indexes, ledger_directories, entry_sample, credentials_file(options.credentials)
    )
    return PartTable.from_parts(spark, WHOLE_ENTRIES, whole_entry_reader, parts_of_indexes).frame()


def count_whole_entries(tables: Tables) -> dict[str, int]:
    """Return the number of entries that were read with their payload, or an empty dict without --deep.

    The dict has one key: the report's name for this kind of read operation.
    """
    if "digests" not in tables.frames:
        return {}
    return {WHOLE_ENTRIES_OPERATION: tables.digests.where(F.col("ledger_id").isNotNull()).count()}


def digest_remarks(digests: DataFrame, collected_bookies: Sequence[str] = ()) -> list[Remark]:
    """Return remarks with the numbers of checked and unchecked entry copies, and why copies were not checked.

    ``collected_bookies`` are bookies whose index was read from a collection. A collection is a saved copy
    of bookies' indexes, without entry data to check.
    """
    entry_counts = {
        (row["state"], row["reason"]): row["entries"]
        for row in digests.groupBy("state", "reason").agg(F.sum("entries").alias("entries")).collect()
    }
    checked_count = sum(
        count for (state, _), count in entry_counts.items() if state != DigestState.NOT_CHECKED
    )
    text = f"digests: {plural(checked_count, 'copy')} of sampled entries compared with their digests"
    remarks = [remark(RemarkKind.DIGESTS, text)]
    unchecked_texts = [
        f"{entry_counts[DigestState.NOT_CHECKED, reason]:,} {reason_text}"
        for reason, reason_text in _UNCHECKED_REASON_TEXTS.items()
        if entry_counts.get((DigestState.NOT_CHECKED, reason))
    ]
    if unchecked_texts:
        remarks.append(
            remark(RemarkKind.DIGESTS, "digests: some copies of entries were not checked", *unchecked_texts)
        )
    if collected_bookies:
        text = "digests: not checked for bookies read from collections, which contain no entry data"
        remarks.append(remark(RemarkKind.DIGESTS, text, first_names(collected_bookies, MAX_BOOKIES_NAMED)))
    return remarks


NO_LOGS_REASON = "the bookie's collection was made without --entry-logs"
DIRECTORY_ROLES_WITH_LOGS = ("ledger", "unknown")
"""Roles of directories that may have entry logs."""


class EntryLogScan(NamedTuple):
    """The tables ``entry_logs``, ``locations``, ``disks`` and ``gone_entries`` (entries in missing logs).

    ``whole_entries`` is a frame of the sampled entries, which tasks read when it is used. It is None
    without --deep. ``collected_bookies`` are the bookies whose indexes are in collections.
    """

    entry_logs: DataFrame
    locations: DataFrame
    disks: DataFrame
    whole_entries: DataFrame | None
    collected_bookies: Sequence[str]
    gone_entries: DataFrame


def read_entry_logs(
    cache: TableCache, bookies: ClusterBookies, ledgers: DataFrame, options: AuditOptions
) -> EntryLogScan | None:
    """Read entry locations, the entry logs and the files next to them. Return None without --entry-logs.

    An index may point to a missing log for a ledger in ``ledgers``. The indexes of that bookie are then read
    again at the end.
    """
    if not options.entry_logs:
        return None
    spark = cache.spark
    part_count = spark.sparkContext.defaultParallelism * options.parts_per_core
    indexed_bookies = [bookie for bookie in bookies.attribution.bookies.values() if bookie.index_directories]
    parts_of_indexes = index_parts.plan_parts(
        [(bookie.bookie_id, bookie.index_directories) for bookie in indexed_bookies], part_count
    )
    directories_by_bookie = {
        bookie.bookie_id: bookies.attribution.ledger_directories(bookie.bookie_id)
        for bookie in indexed_bookies
    }
    directories = _CurrentDirectories(bookies)

    def make_location_rows() -> DataFrame:
        disk_locations = PartTable.from_parts(
            spark, LOCATION_ROWS, partial(read_locations, directories_by_bookie), parts_of_indexes
        ).frame()
        owners = bookies.directory_owners.owner_by_piece_id
        rows = read_collected_rows(spark, "locations", LOCATION_SCHEMA, directories.collections, owners)
        return (
            disk_locations if rows is None else disk_locations.unionByName(rows.select(*LOCATION_ROWS.names))
        )

    def make_log_rows() -> DataFrame:
        log_parts = slice_parts(directories.plan_log_parts(options.deep), part_count)
        rows_from_disk = PartTable.from_parts(spark, ENTRY_LOGS, read_logs_of, log_parts).frame()
        return directories.with_collected_rows(rows_from_disk, "entry_logs", LOG_SCHEMA, ENTRY_LOGS)

    location_rows = cache.write_table("locations", make_location_rows)
    log_rows = cache.write_table("entry_logs", make_log_rows)
    disk_file_sizes = cache.write_table("disks", lambda: directories.read_file_sizes(spark))
    sampled_rows = (
        sample_whole_entries(spark, parts_of_indexes, directories_by_bookie, options)
        if options.deep
        else None
    )
    collected_bookies = sorted(
        {owner.bookie_id for owner in bookies.directory_owners.owner_by_piece_id.values()}
    )
    entries_not_in_log = find_entries_in_no_log(location_rows, ledgers)
    # At most one row per bookie.
    bookies_with_missing_logs = {
        row["bookie_id"] for row in entries_not_in_log.select("bookie_id").distinct().collect()
    }
    parts_to_reread = [part for part in parts_of_indexes if part.bookie_id in bookies_with_missing_logs]
    reread_locations = None
    if parts_to_reread:
        reread_part_table = PartTable.from_parts(
            spark, LOCATION_ROWS, partial(read_locations, directories_by_bookie), parts_to_reread
        )
        reread_locations = cache.write_table(
            "locations_again", reread_part_table.frame, f"tables/{SCRATCH_DIRECTORY}"
        )
    gone_entry_rows = cache.write_or_empty(
        bool(bookies_with_missing_logs),
        "gone_entries",
        GONE_ENTRIES,
        lambda: gone_entries(entries_not_in_log, reread_locations),
    )
    return EntryLogScan(
        log_rows, location_rows, disk_file_sizes, sampled_rows, collected_bookies, gone_entry_rows
    )


class _CurrentDirectories:
    """All directories named ``current`` in the sources, on disk and in collections, some without a bookie."""

    def __init__(self, bookies: ClusterBookies) -> None:
        self._bookies = bookies
        self._has_rocksdb_by_id = {
            name: any(directory.storage == ROCKSDB for directory in bookie.index_directories)
            for name, bookie in bookies.source_attribution.bookies.items()
        }
        directory_by_path = {
            directory.found_directory.path: directory.found_directory
            for directory in bookies.source_attribution.found_directories
        }
        self._rows_and_directories = [
            (row, found_directory)
            for row in bookies.source_attribution.directories
            if (found_directory := directory_by_path.get(row.path)) is not None
            and found_directory.has_current
        ]
        collected_place_by_path = {
            name: collected_place
            for name, collected_place in bookies.collection_places.directories.items()
            if collected_place.unread_reason is None
        }
        self._collected_places = collected_place_by_path
        self.collections: list[tuple[Collection, CollectionManifest]] = [
            collection
            for collection in bookies.collection_places.readable_collections
            if all(name in collection[1].tables for name in SPACE_TABLES)
        ]
        self._manifest_ids = {collection.path: manifest.id for collection, manifest in self.collections}

    def _entry_logger_number(self, row: AttributedDirectory) -> int | None:
        """Return the number of the entry logger that writes to a directory, or None if it is unknown."""
        if row.owner is not None and not self._has_rocksdb_by_id.get(row.owner):
            return 0
        owner_directories = (
            self._bookies.source_attribution.ledger_directories(row.owner) if row.owner else []
        )
        return owner_directories.index(row.path) if row.path in owner_directories else None

    def _cache_directory(self, row: AttributedDirectory) -> str | None:
        """Return the directory in which a bookie's garbage collector caches the metadata of entry logs.

        ``row`` is a directory of the bookie. Returns None if the bookie is unknown or has its index in
        RocksDB.
        """
        if row.owner is None or self._has_rocksdb_by_id.get(row.owner):
            return None
        return next(iter(self._bookies.source_attribution.ledger_directories(row.owner)), None) or None

    def plan_log_parts(self, verify: bool) -> list[LogPart]:
        """Return the directories on disk that may have entry logs, as parts for Spark tasks."""
        return [
            LogPart(
                row.owner,
                self._entry_logger_number(row),
                row.path,
                IndexDirectory.from_version(row.path, directory.version).version_sha256,
                verify=verify,
                cache=self._cache_directory(row),
            )
            for row, directory in self._rows_and_directories
            if row.role in DIRECTORY_ROLES_WITH_LOGS
            and row.path not in self._bookies.collection_places.directories
        ]

    def read_file_sizes(self, spark: SparkSession) -> DataFrame:
        """Return the sizes of the files next to the entry logs, by directory."""
        disk_rows = [
            row
            for row, _ in self._rows_and_directories
            if row.path not in self._bookies.collection_places.directories
        ]
        owners = {row.path: row.owner for row in disk_rows}
        owner_rows = spark.createDataFrame(sorted(owners.items()), "directory string, bookie_id string")
        file_sizes_by_directory = (
            PartTable.from_parts(spark, SIZES, read_sizes, sorted(owners))
            .frame()
            .join(owner_rows, "directory")
        )
        return self.with_collected_rows(
            file_sizes_by_directory.select(*DISK_ROWS.names), "disks", DISK_SCHEMA, DISK_ROWS
        )

    def with_collected_rows(
        self, rows_from_disk: DataFrame, table_name: str, collected_schema: pa.Schema, schema: pa.Schema
    ) -> DataFrame:
        """Return the rows of a table from disk (``rows_from_disk``) and from collections.

        If the collection of a directory lacks the table, the result has a row for the directory with the
        reason.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = rows_from_disk.select(*schema.names)
        if owners := list(self._collected_owners()):
            rows_from_collections = rows_of_directories(
                rows_from_disk.sparkSession, table_name, collected_schema, self.collections, owners
            )
            rows = rows.unionByName(rows_from_collections.select(*schema.names))
        if uncollected_rows := list(self._uncollected_rows(table_name)):
            unread_rows = pa.Table.from_pylist(uncollected_rows, schema=schema)
            rows = rows.unionByName(
                rows_from_disk.sparkSession.createDataFrame(unread_rows, from_arrow_schema(schema))
            )
        return rows

    def _collected_owners(self) -> Iterator[DirectoryOwner]:
        for row, _ in self._rows_and_directories:
            collected_place = self._collected_places.get(row.path)
            if collected_place is not None and collected_place.collection in self._manifest_ids:
                logger_number = self._entry_logger_number(row)
                yield DirectoryOwner(
                    self._manifest_ids[collected_place.collection],
                    collected_place.path,
                    row.path,
                    row.owner,
                    logger_number,
                )

    def _uncollected_rows(self, table_name: str) -> Iterator[dict[str, Any]]:
        """Yield one row for each directory whose collection lacks the table. The row contains the reason."""
        for row, _ in self._rows_and_directories:
            collected_place = self._bookies.collection_places.directories.get(row.path)
            if collected_place is None or (
                collected_place.unread_reason is None and collected_place.collection in self._manifest_ids
            ):
                continue
            reason = collected_place.unread_reason or NO_LOGS_REASON
            if table_name != "entry_logs":
                yield {"bookie_id": row.owner, "directory": row.path, "reason": reason}
            elif row.role in DIRECTORY_ROLES_WITH_LOGS:
                unlisted_directory_row = unlisted_row(row.path, OSError(reason))
                yield {
                    "bookie_id": row.owner,
                    "logger": self._entry_logger_number(row),
                    **unlisted_directory_row,
                }
