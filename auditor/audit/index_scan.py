"""Reader of the bookies' indexes and then of their journals. It also determines how old both are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from auditor.audit import journal_scan
from auditor.audit.bookies import ClusterBookies
from auditor.audit.earlier_run import EarlierRun, ReusePlan, save_file_sizes, save_index_facts
from auditor.audit.journal_scan import JournalTails
from auditor.audit.metadata_scan import FirstScan
from auditor.audit.table_cache import TableCache
from auditor.errors import RunError
from auditor.model.options import AuditOptions, to_time_ms
from auditor.model.run_facts import Remark, RemarkKind, ReuseCount, remark
from auditor.model.start_refusal import Refusal
from auditor.model.states import REPLICA_STATES, BookieRead, IndexState, TailRead, TimeBasis
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.collections.copied_rows import CopiedRowsReader, index_bytes, make_shares
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.reusable_parts import read_reusable_part
from auditor.sources.clock import now_ms
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable, ReadCost
from auditor.spark.table_queries import aggregate_tables
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables.accounts import combine_index_pieces
from auditor.tables.index_counts import (
    IndexCount,
    IndexFileFacts,
    count_index_rows,
    derive_facts,
    replicas_in_pieces,
    union_by_state,
)

MAX_AUDIT_MS = 24 * 3_600_000
"""Longest duration that an audit is assumed to take, in ms."""
NO_REUSE = ReuseCount(reused=0, read=0)


@dataclass(frozen=True)
class Indexes:
    """The entries that the bookies hold, as read from their indexes and journals. Times are in ms.

    ``bookies`` are the bookies that were read, without damaged collections. ``rows`` is the table
    ``availability``. ``counts`` has the number of its rows by kind. ``shapes`` has page sizes and other
    properties of all indexes. ``rows_by_state`` has the rows of ``availability``, with the state ``cut``
    for truncated index files. Only queries of a few rows use ``rows_by_state``.

    ``overlapping_bookies`` are the bookies where a ledger may have more than one row. ``combined_pieces``
    has one row for each replica on these bookies. It is None if there are no such bookies.
    ``journal_tails`` has the entries that journals contain after their lastMark.

    ``gap_by_bookie`` has the reason for each bookie with data that could not be listed. ``old_sources`` has
    the reason for each bookie whose data is older than the metadata (`auditor.audit.source_age`).
    ``reuse_count`` has the numbers of indexes reused from an earlier run and of indexes read.
    ``reuse_notes`` say why indexes were not reused. ``option_time`` is the time in ``--index-time``, or
    None. ``read_end`` is the time when the audit finished reading the bookies.
    """

    bookies: ClusterBookies
    rows: DataFrame
    counts: Sequence[IndexCount]
    shapes: IndexFileFacts
    rows_by_state: DataFrame
    overlapping_bookies: Sequence[str]
    combined_pieces: DataFrame | None
    journal_tails: JournalTails
    gap_by_bookie: Mapping[str, str]
    reuse_count: ReuseCount
    reuse_notes: tuple[str, ...]
    is_live: bool
    scan_time: int
    option_time: int | None
    read_end: int
    old_sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_complete_rows(self) -> bool:
        """Return whether each row of ``availability`` has all known entries of a ledger on a bookie.

        Returns False if index files are truncated, indexes overlap, or journals have entries after their last
        checkpoint.
        """
        has_partial_rows = self.shapes.bookies_with_cut_files or self.overlapping_bookies
        return not has_partial_rows and self.journal_tails.rows is None

    @property
    def database_bookies(self) -> list[str]:
        """Return the bookies with an index in RocksDB (DbLedgerStorage)."""
        return sorted({count.bookie_id for count in self.counts if count.storage == index_parts.ROCKSDB})

    def with_rows(self, rows: DataFrame) -> Indexes:
        """Return a copy of these indexes with ``rows`` as the table ``availability``."""
        return replace(self, rows=rows)

    def tail(self, bookie_id: str) -> tuple[str | None, str | None]:
        """Return how much of the journal after lastMark was read, and why not all (`tail_state`)."""
        bookie = self.bookies.attribution.bookies.get(bookie_id)
        if bookie is None:
            return None, None
        tail = self.journal_tails.tail_by_bookie.get(bookie_id)
        return journal_scan.tail_read_state(bookie, tail, self._is_running(bookie_id))

    def dated_index(self, bookie_id: str) -> DatedIndex | None:
        """Return a time up to which the bookie's data is certainly complete, and what shows this (the basis).

        Returns None if there is no such time.
        """
        if self.option_time is not None:
            return DatedIndex(self.option_time, TimeBasis.OPTION)
        bookie = self.bookies.attribution.bookies.get(bookie_id)
        if bookie is None:
            return None
        tail, is_running = self.journal_tails.tail_by_bookie.get(bookie_id), self._is_running(bookie_id)
        return journal_scan.find_dated_index(bookie, tail, is_running, self._latest_time)

    def index_time(self, bookie_id: str) -> int | None:
        """Return the time of `dated_index` in ms, or None if it is unknown."""
        index_date = self.dated_index(bookie_id)
        return None if index_date is None else index_date.time_ms

    @property
    def _latest_time(self) -> int:
        """Return the upper bound of all times in a bookie's data, in ms.

        There are two candidates: the end of the reading by this machine's clock, and the time `MAX_AUDIT_MS`
        after the first metadata scan. For a running store, the earlier one is used. For saved metadata, the
        later one is used: files may be newer than the metadata, and this machine's clock may be slow.
        """
        latest_audit_end = self.scan_time + MAX_AUDIT_MS
        return min(self.read_end, latest_audit_end) if self.is_live else max(self.read_end, latest_audit_end)

    def newest_file_time(self, bookie_id: str) -> int | None:
        """Return an upper bound of the times of the bookie's index files in ms, or None if it is unknown."""
        if self.option_time is not None:
            return self.option_time
        bookie = self.bookies.attribution.bookies.get(bookie_id)
        tail = self.journal_tails.tail_by_bookie.get(bookie_id)
        if bookie is None or bookie.journals.newest_mark_ms is None:
            return None
        return max(bookie.journals.newest_mark_ms, (tail.last_write if tail else None) or 0)

    def dated_replicas(self) -> DataFrame:
        """Return one row for each replica. Its file times are null unless they can date an orphan.

        An orphan is a ledger without metadata. Rows from collections always have file times. Other rows have
        them only if the metadata is saved and an index may be newer than the metadata scan.
        """
        replicas = self.rows.where(F.col("state").isin(*REPLICA_STATES))
        if self.combined_pieces is not None:
            other_replicas = replicas.where(~F.col("bookie_id").isin(list(self.overlapping_bookies)))
            replicas = other_replicas.unionByName(self.combined_pieces)
        times_ms = [self.newest_file_time(bookie_id) for bookie_id in self.bookies.attribution.bookies]
        if not self.is_live and any(time is None or time > self.scan_time for time in times_ms):
            return replicas
        piece_owners = self.bookies.directory_owners.owner_by_piece_id.values()
        is_collected_bookie = F.col("bookie_id").isin(sorted({owner.bookie_id for owner in piece_owners}))
        return replicas.withColumn("mtime", F.when(is_collected_bookie, F.col("mtime")))

    def replay_refusals(self) -> dict[str, Refusal]:
        """Return, by bookie id, why a bookie would not start: a replay of its journals would fail."""
        running_bookies = {name for name in self.journal_tails.tail_by_bookie if self._is_running(name)}
        return journal_scan.find_replay_refusals(self.journal_tails.tail_by_bookie, running_bookies)

    def remarks(self) -> list[Remark]:
        """Return remarks for the report about collections, journals and lastMark files."""
        collections = self.bookies.collection_places
        unmarked_directory_texts = [
            f"{name} ({path})"
            for name, bookie in self.bookies.attribution.bookies.items()
            for path in bookie.journals.directories_without_mark
        ]
        return [
            *(
                remark(RemarkKind.COLLECTION_UNUSED, f"collection {path} was not used", reason)
                for path, reason in collections.unreadable_collections
            ),
            *(remark(RemarkKind.COLLECTION_CHOICE, note) for note in collections.notes),
            *journal_scan.remark_on_unread_tails(self._unread_tails()),
            *journal_scan.remark_on_unread_marks(unmarked_directory_texts),
        ]

    def _unread_tails(self) -> list[tuple[str, str | None]]:
        return [
            (name, reason)
            for name, bookie in self.bookies.attribution.bookies.items()
            if name in self.bookies.members and bookie.read != BookieRead.UNREAD
            for tail_read, reason in [self.tail(name)]
            if tail_read == TailRead.UNREAD
        ]

    def _is_running(self, bookie_id: str) -> bool:
        return self.is_live and bookie_id in self.bookies.registered_modes


def read_indexes(
    cache: TableCache, first_scan: FirstScan, bookies: ClusterBookies, earlier_run: EarlierRun,
    options: AuditOptions,
) -> Indexes:  # fmt: skip
    """Read all indexes, then all journals after their lastMark. Write a table of each kind.

    The rows of indexes that have not changed since the run ``earlier_run`` are taken from that run.
    """
    bookies, rows, notes = _scan_indexes(cache, bookies, earlier_run, options)
    bookies_by_id, owners = bookies.attribution.bookies, bookies.directory_owners
    tails_of_journals = journal_scan.write_tails(
        cache, bookies.journal_parts, bookies_by_id, bookies.collection_places, owners
    )
    counts = count_index_rows(cache.execution, cache.files("availability"))
    index_facts, overlapping_ids = _get_file_facts(counts), _find_overlapping_bookies(bookies, counts)
    piece_rows = replicas_in_pieces(rows, index_facts, overlapping_ids) if overlapping_ids else None
    combined_rows = None if piece_rows is None else combine_index_pieces(piece_rows)
    rows_by_state = union_by_state(rows, index_facts, combined_rows, overlapping_ids)
    index_time = options.index_time
    return Indexes(
        bookies,
        rows,
        counts,
        index_facts,
        journal_scan.without_journal_ledgers(rows_by_state, tails_of_journals),
        overlapping_ids,
        combined_rows,
        tails_of_journals,
        gap_reasons(rows) if index_facts.states & {IndexState.GAP, IndexState.DAMAGED} else {},
        _count_reuse(rows) if earlier_run.path is not None else NO_REUSE,
        notes,
        first_scan.source.live,
        first_scan.source.scan_time,
        None if index_time is None else to_time_ms(index_time),
        now_ms(),
    )


def gap_reasons(availability: DataFrame) -> dict[str, str]:
    """Return by bookie id why a part of its index was not read: it is damaged or could not be listed."""
    gap_rows = availability.where("state in ('gap', 'damaged')").groupBy("bookie_id")
    rows = gap_rows.agg(F.min(F.concat_ws(": ", "path", "reason")).alias("reason")).collect()
    return {row["bookie_id"]: row["reason"] for row in rows}


def _scan_indexes(
    cache: TableCache, bookies: ClusterBookies, earlier_run: EarlierRun, options: AuditOptions
) -> tuple[ClusterBookies, DataFrame, tuple[str, ...]]:
    """Write the table ``availability``: the entries on each bookie with a readable directory.

    Return the bookies that were read, the table, and notes on indexes that were not reused.
    """
    indexed_bookies = [bookie for bookie in bookies.attribution.bookies.values() if bookie.index_directories]
    part_count = cache.spark.sparkContext.defaultParallelism * options.parts_per_core
    index_directories = [(bookie.bookie_id, bookie.index_directories) for bookie in indexed_bookies]
    parts = index_parts.plan_parts(index_directories, part_count, threads=options.threads)
    save_index_facts(cache.run_store, bookies.attribution.bookies)
    plan = earlier_run.plan(parts, bookies.attribution.bookies)
    try:
        bookies, rows = _write_indexes(cache, bookies, part_count, plan)
    except RunError as error:
        if not plan.reusable_parts:
            raise
        # The table of the earlier run is damaged, which showed only while it was read: reuse no rows.
        notes = plan.notes
        plan = earlier_run.plan_without_reuse(parts, str(error))
        plan = plan._replace(notes=(*notes, *plan.notes))
        bookies, rows = _write_indexes(cache, bookies, part_count, plan)
    save_file_sizes(cache.run_store)
    return bookies, rows, plan.notes


def _write_indexes(
    cache: TableCache, bookies: ClusterBookies, part_count: int, plan: ReusePlan
) -> tuple[ClusterBookies, DataFrame]:
    """Write the table ``availability`` from the planned parts and all collections.

    Damaged collections are left out of the table and of the returned bookies.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        make_table = partial(_availability_table, cache, bookies, part_count, plan)
        return bookies, cache.write_table("availability", make_table)
    except (Py4JError, PySparkException, OSError, pa.ArrowException):
        damage_by_path = _damaged_collections(cache.spark, bookies)
        if not damage_by_path:
            raise
        undamaged_bookies = bookies.drop_damaged_collections(damage_by_path)
        make_table = partial(_availability_table, cache, undamaged_bookies, part_count, plan)
        return undamaged_bookies, cache.write_table("availability", make_table)


DAMAGED_REASON = "its availability table is damaged and cannot be read completely"
NO_FILE_REASON = (
    "tasks found no file of its availability table; executors must see the collection at "
    "the same path as the driver"
)


def _damaged_collections(spark: SparkSession, bookies: ClusterBookies) -> dict[str, str]:
    """Return the reason for each damaged collection, by path. Runs a Spark job for each collection."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    owners, reasons = bookies.directory_owners.owner_by_piece_id, {}
    for collection, manifest in bookies.collection_places.readable_collections:
        parts = make_shares([(collection, manifest)], owners, 1)
        try:
            rows = PartTable.from_parts(spark, SCHEMA, CopiedRowsReader(owners).read, parts).frame()
            rows.write.format("noop").mode("overwrite").save()
        except (Py4JError, PySparkException) as error:
            reasons[collection.path] = NO_FILE_REASON if "FileNotFoundError" in str(error) else DAMAGED_REASON
    return reasons


def _availability_table(
    cache: TableCache, bookies: ClusterBookies, part_count: int, plan: ReusePlan
) -> PartTable:
    all_parts = [*plan.parts, *(reusable_part.index_part for reusable_part in plan.reusable_parts)]
    cost = index_cost(all_parts, bookies.replica_count)
    table = PartTable.from_parts(cache.spark, SCHEMA, read_part, plan.parts, cost)
    table = table.with_parts(((read_reusable_part, part) for part in plan.reusable_parts), ReadCost())
    collections = bookies.collection_places.readable_collections
    owners = bookies.directory_owners.owner_by_piece_id
    collection_reader = CopiedRowsReader(owners)
    copy_parts = make_shares(collections, owners, part_count)
    collection_parts = ((collection_reader.read, part) for part in copy_parts)
    return table.with_parts(collection_parts, ReadCost(index_bytes(collections) * _COPIED_BYTE_SECONDS))


_INDEX_FILE_SECONDS = 20e-6
"""Approximate time to read an index file from the cache, in seconds."""
_COPIED_BYTE_SECONDS = 22e-9
"""Approximate time to copy a byte of a collected table, in seconds."""


def index_cost(parts: Iterable[index_parts.IndexPart], replicas: int) -> ReadCost:
    """Return the estimated time in which one process reads the indexes of all parts.

    ``replicas`` is the number of replicas that the metadata assigns to these bookies. It serves as an
    estimate of the number of index files. Counting the files would take half as long as reading them.
    """
    directories = {(directory.path, part.storage_kind) for part in parts for directory in part.directories}
    has_files = any(storage != index_parts.ROCKSDB for _, storage in directories)
    db_paths = [path for path, storage in sorted(directories) if storage == index_parts.ROCKSDB]
    return ReadCost(
        _INDEX_FILE_SECONDS * replicas if has_files else 0,
        tuple(str(Path(path, "current", name)) for path in db_paths for name in ("ledgers", "locations")),
    )


def _find_overlapping_bookies(bookies: ClusterBookies, counts: Sequence[IndexCount]) -> list[str]:
    """Return the bookies where a ledger may have more than one row.

    There are two cases: the index of the bookie was read from several sources, or one of its databases has a
    ledger that belongs in another of its databases.
    """
    has_split_databases = any(
        directory.storage == index_parts.ROCKSDB and directory.directory_count > 1
        for bookie in bookies.attribution.bookies.values()
        for directory in bookie.index_directories
    )
    if not has_split_databases and not bookies.collection_places.readable_collections:
        return sorted(bookies.directory_owners.overlapping_bookies)
    misplaced_bookies = {
        count.bookie_id
        for count in counts
        if count.state in (IndexState.UNREADABLE, IndexState.WRONG_DIRECTORY)
        and count.storage == index_parts.ROCKSDB
    }
    return sorted(misplaced_bookies.union(bookies.directory_owners.overlapping_bookies))


def _get_file_facts(counts: Sequence[IndexCount]) -> IndexFileFacts:
    """Return the page sizes of the bookies' indexes, and other properties that queries need."""
    counts_by_properties: Counter[tuple[str, str, int]] = Counter()
    for count in counts:
        counts_by_properties[count.bookie_id, count.state, count.length] += count.number
    return derive_facts((*properties, file_count) for properties, file_count in counts_by_properties.items())


REUSE_COUNT_SQL = ("count_if(coalesce(reused, false))", "count_if(not coalesce(reused, false))")
"""SQL aggregates: the number of rows taken from an earlier run, and the number of rows read."""


def _count_reuse(availability: DataFrame) -> ReuseCount:
    """Return the number of indexes taken from an earlier run, and the number read."""
    counts = aggregate_tables({"indexes": (availability.where("path is not null"), REUSE_COUNT_SQL)})
    reused_count, read_count = counts["indexes"]
    return ReuseCount(reused=reused_count, read=read_count)
