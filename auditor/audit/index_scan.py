"""Reader of the bookies' indexes and then of their journals, with the age of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from auditor.audit import journal_scan
from auditor.audit.bookies import ClusterBookies
from auditor.audit.earlier_run import EarlierRun, IndexPlan, note_files, note_indexes
from auditor.audit.journal_scan import Tails
from auditor.audit.metadata_scan import FirstScan
from auditor.audit.table_cache import TableCache
from auditor.errors import RunError
from auditor.model.options import AuditOptions, parse_moment
from auditor.model.run_facts import Remark, RemarkKind, ReuseCount, remark
from auditor.model.start_refusal import Refusal
from auditor.model.states import OF_REPLICAS, BookieRead, IndexState, TailRead, TimeBasis
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.collections.copied_rows import CopiedRows, copied_bytes, shares
from auditor.sources.bookies.mark_times import DatedIndex
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.reusable_parts import read_reusable_part
from auditor.sources.clock import now_ms
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable, ReadCost
from auditor.spark.table_queries import aggregate_many
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables.accounts import combine_index_pieces
from auditor.tables.index_counts import (
    IndexCount,
    IndexShapes,
    index_counts,
    index_shapes,
    replicas_in_pieces,
    union_by_state,
)

MAX_AUDIT_MS = 24 * 3_600_000
"""Longest duration that an audit is assumed to take, in ms."""
NOTHING_REUSED = ReuseCount(reused=0, read=0)


@dataclass(frozen=True)
class Indexes:
    """The entries that the bookies hold, as read from their indexes and journals.

    ``bookies`` are the bookies that were read, without damaged collections. ``rows`` is the table
    ``availability``. ``counts`` has the number of its rows by kind, and ``shapes`` has page sizes and other
    properties of all indexes. ``by_state`` has the same rows, with the state ``cut`` for truncated index
    files. Only queries for a few rows use ``by_state``.

    ``overlapping`` are the bookies where a ledger may have more than one row. ``pieces`` has one row for each
    replica on these bookies. It is None if there is no such bookie. ``tails`` has the entries in the journals
    after the marks.

    ``gaps`` are the bookies with data that could not be listed, and the reasons. ``old`` are the bookies
    whose data is older than the metadata (`auditor.audit.source_age`). ``reused`` counts the indexes taken
    from an earlier run. ``earlier_notes`` say why other indexes were not reused. ``index_option`` is the time
    that ``--index-time`` gives to all indexes, in ms. ``read_at`` is when reading ended, in ms.
    """

    bookies: ClusterBookies
    rows: DataFrame
    counts: Sequence[IndexCount]
    shapes: IndexShapes
    by_state: DataFrame
    overlapping: Sequence[str]
    pieces: DataFrame | None
    tails: Tails
    gaps: Mapping[str, str]
    reused: ReuseCount
    earlier_notes: tuple[str, ...]
    live: bool
    scan_time: int
    index_option: int | None
    read_at: int
    old: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Return whether a replica's row in the table availability always has all its known entries.

        False if index files are truncated, indexes overlap, or journals have entries after the marks.
        """
        return not self.shapes.cut and not self.overlapping and self.tails.rows is None

    @property
    def in_databases(self) -> list[str]:
        """Return the bookies with an index in RocksDB (DbLedgerStorage)."""
        return sorted({count.bookie_id for count in self.counts if count.storage == index_parts.ROCKSDB})

    def of_rows(self, rows: DataFrame) -> Indexes:
        """Return a copy of these indexes with ``rows`` as the table ``availability``."""
        return replace(self, rows=rows)

    def tail(self, bookie_id: str) -> tuple[str | None, str | None]:
        """Return how much of the journal after the mark was read, and why not all of it.

        Both are None if they do not apply.
        """
        bookie = self.bookies.attribution.bookies.get(bookie_id)
        if bookie is None:
            return None, None
        return journal_scan.tail_state(
            bookie, self.tails.by_bookie.get(bookie_id), self._is_running(bookie_id)
        )

    def date_bookie(self, bookie_id: str) -> DatedIndex | None:
        """Return the lower bound of the bookie's index time, and its basis. None if it is unknown."""
        if self.index_option is not None:
            return DatedIndex(self.index_option, TimeBasis.OPTION)
        bookie = self.bookies.attribution.bookies.get(bookie_id)
        if bookie is None:
            return None
        tail, is_running = self.tails.by_bookie.get(bookie_id), self._is_running(bookie_id)
        return journal_scan.date_bookie(bookie, tail, is_running, self._latest_time)

    def index_time(self, bookie_id: str) -> int | None:
        """Return the lower bound of the bookie's index time, in ms. None if it is unknown."""
        date = self.date_bookie(bookie_id)
        return None if date is None else date.time_ms

    @property
    def _latest_time(self) -> int:
        """Upper bound of all times in a bookie's data, in ms.

        Bookies are read after the first scan of the metadata, whose time is by the store's own clock if the
        store is running. No audit takes longer than `MAX_AUDIT_MS`. Saved data may have files that are newer
        than the metadata, but none that is newer than the time at which it was read. If the clock of this
        machine is behind that of the cluster, the time of the metadata scan gives the bound.
        """
        after_scan = self.scan_time + MAX_AUDIT_MS
        return min(self.read_at, after_scan) if self.live else max(self.read_at, after_scan)

    def newest(self, bookie_id: str) -> int | None:
        """Return the upper bound of the times of the bookie's index files, in ms. None if it is unknown."""
        if self.index_option is not None:
            return self.index_option
        bookie, tail = self.bookies.attribution.bookies.get(bookie_id), self.tails.by_bookie.get(bookie_id)
        if bookie is None or bookie.journals.mark_ms is None:
            return None
        return max(bookie.journals.mark_ms, (tail.modified if tail else None) or 0)

    def dated_replicas(self) -> DataFrame:
        """Return one row for each replica, with file times only on rows that can show the age of an orphan.

        Rows of collections keep their times. If the store is saved and an index may be newer than its
        scan, all rows keep their times.
        """
        replicas = self.rows.where(F.col("state").isin(*OF_REPLICAS))
        if self.pieces is not None:
            not_overlapping = replicas.where(~F.col("bookie_id").isin(list(self.overlapping)))
            replicas = not_overlapping.unionByName(self.pieces)
        times = [self.newest(bookie_id) for bookie_id in self.bookies.attribution.bookies]
        if not self.live and any(time is None or time > self.scan_time for time in times):
            return replicas
        collected = sorted({owner.bookie_id for owner in self.bookies.settled.owner_of_piece.values()})
        return replicas.withColumn("mtime", F.when(F.col("bookie_id").isin(collected), F.col("mtime")))

    def refused_replays(self) -> dict[str, Refusal]:
        """Return the bookies that would not start because they cannot replay their journals."""
        running_bookies = {name for name in self.tails.by_bookie if self._is_running(name)}
        return journal_scan.refused_replays(self.tails.by_bookie, running_bookies)

    def remarks(self) -> list[Remark]:
        """Return remarks for the report about the bookie sources."""
        collected = self.bookies.collected
        unmarked = [
            f"{name} ({path})"
            for name, bookie in self.bookies.attribution.bookies.items()
            for path in bookie.journals.directories_without_mark
        ]
        return [
            *(
                remark(RemarkKind.COLLECTION_UNUSED, f"collection {path} was not used", reason)
                for path, reason in collected.unreadable_collections
            ),
            *(remark(RemarkKind.COLLECTION_CHOICE, note) for note in collected.notes),
            *journal_scan.unread_remark(self._unread_tails()),
            *journal_scan.unmarked_remark(unmarked),
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
        return self.live and bookie_id in self.bookies.registered


def read_indexes(
    cache: TableCache, first: FirstScan, bookies: ClusterBookies, earlier: EarlierRun, options: AuditOptions
) -> Indexes:
    """Read all indexes, then the journals from their marks on. Write the tables of both.

    Indexes that have not changed since the run ``earlier`` are taken from that run.
    """
    bookies, rows, notes = _availability(cache, bookies, earlier, options)
    tails = journal_scan.write_tails(
        cache, bookies.tail_parts, bookies.attribution.bookies, bookies.collected, bookies.settled
    )
    counts = index_counts(cache.execution, cache.files("availability"))
    shapes, overlapping = _shapes(counts), _overlapping(bookies, counts)
    pieces = combine_index_pieces(replicas_in_pieces(rows, shapes, overlapping)) if overlapping else None
    index_time = options.index_time
    return Indexes(
        bookies,
        rows,
        counts,
        shapes,
        journal_scan.without_served(union_by_state(rows, shapes, pieces, overlapping), tails),
        overlapping,
        pieces,
        tails,
        gap_reasons(rows) if shapes.states & {IndexState.GAP, IndexState.DAMAGED} else {},
        _reuse_of(rows) if earlier.path is not None else NOTHING_REUSED,
        notes,
        first.source.live,
        first.source.scan_time,
        None if index_time is None else parse_moment(index_time),
        now_ms(),
    )


def gap_reasons(availability: DataFrame) -> dict[str, str]:
    """Return the bookies with an index part that could not be listed or is damaged, each with one reason."""
    gaps = availability.where("state in ('gap', 'damaged')").groupBy("bookie_id")
    rows = gaps.agg(F.min(F.concat_ws(": ", "path", "reason")).alias("reason")).collect()
    return {row["bookie_id"]: row["reason"] for row in rows}


def _availability(
    cache: TableCache, bookies: ClusterBookies, earlier: EarlierRun, options: AuditOptions
) -> tuple[ClusterBookies, DataFrame, tuple[str, ...]]:
    """Write the table ``availability``: the entries on each bookie with a readable directory.

    Return the bookies that were read, the table, and notes on indexes that were not reused.
    """
    indexed_bookies = [bookie for bookie in bookies.attribution.bookies.values() if bookie.index_directories]
    part_count = cache.spark.sparkContext.defaultParallelism * options.parts_per_core
    parts = index_parts.plan_parts(
        [(bookie.bookie_id, bookie.index_directories) for bookie in indexed_bookies],
        part_count,
        threads=options.threads,
    )
    note_indexes(cache.run_store, bookies.attribution.bookies)
    plan = earlier.plan(parts, bookies.attribution.bookies)
    try:
        bookies, rows = _write_indexes(cache, bookies, part_count, plan)
    except RunError as error:
        if not plan.reusable:
            raise
        # An earlier run's table turned out to be damaged while it was read: this one does without it.
        notes = plan.notes
        plan = earlier.plan_without(parts, str(error))
        plan = plan._replace(notes=(*notes, *plan.notes))
        bookies, rows = _write_indexes(cache, bookies, part_count, plan)
    note_files(cache.run_store)
    return bookies, rows, plan.notes


def _write_indexes(
    cache: TableCache, bookies: ClusterBookies, part_count: int, plan: IndexPlan
) -> tuple[ClusterBookies, DataFrame]:
    """Write the table ``availability`` from the planned parts and all collections.

    Damaged collections are left out of the table and of the returned bookies.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return bookies, cache.write_table("availability", partial(_read, cache, bookies, part_count, plan))
    except (Py4JError, PySparkException, OSError, pa.ArrowException):
        damaged = _damaged_collections(cache.spark, bookies)
        if not damaged:
            raise
        undamaged_bookies = bookies.without(damaged)
        return undamaged_bookies, cache.write_table(
            "availability", partial(_read, cache, undamaged_bookies, part_count, plan)
        )


DAMAGED = "its table availability is damaged and cannot be read completely"
UNSEEN = (
    "tasks found no file of its table availability; executors must see the collection at "
    "the same path as the driver"
)


def _damaged_collections(spark: SparkSession, bookies: ClusterBookies) -> dict[str, str]:
    """Return the paths of damaged collections, each with the reason. Runs a job for each collection."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    owners, reasons = bookies.settled.owner_of_piece, {}
    for collection, manifest in bookies.collected.readable_collections:
        parts = shares([(collection, manifest)], owners, 1)
        try:
            rows = PartTable.of(spark, SCHEMA, CopiedRows(owners).read, parts).frame()
            rows.write.format("noop").mode("overwrite").save()
        except (Py4JError, PySparkException) as error:
            reasons[collection.path] = UNSEEN if "FileNotFoundError" in str(error) else DAMAGED
    return reasons


def _read(cache: TableCache, bookies: ClusterBookies, part_count: int, plan: IndexPlan) -> PartTable:
    all_parts = [*plan.parts, *(reusable.part for reusable in plan.reusable)]
    cost = index_cost(all_parts, bookies.replicas)
    table = PartTable.of(cache.spark, SCHEMA, read_part, plan.parts, cost)
    table = table.with_parts(((read_reusable_part, part) for part in plan.reusable), ReadCost())
    whole, owners = bookies.collected.readable_collections, bookies.settled.owner_of_piece
    copied_rows = CopiedRows(owners)
    copied_parts = ((copied_rows.read, share) for share in shares(whole, owners, part_count))
    return table.with_parts(copied_parts, ReadCost(copied_bytes(whole) * _COPIED_BYTE_SECONDS))


_INDEX_FILE_SECONDS = 20e-6
"""Approximate time to read an index file from the cache, in seconds."""
_COPIED_BYTE_SECONDS = 22e-9
"""Approximate time to copy a byte of a collected table, in seconds."""


def index_cost(parts: Iterable[index_parts.IndexPart], replicas: int) -> ReadCost:
    """Return the estimated time in which one process reads the indexes of all parts.

    ``replicas`` is the number of replicas that the metadata puts on these bookies. It approximates the number
    of index files: counting the files takes half as long as reading them.
    """
    directories = {(directory.path, part.storage) for part in parts for directory in part.directories}
    has_files = any(storage != index_parts.ROCKSDB for _, storage in directories)
    databases = [path for path, storage in sorted(directories) if storage == index_parts.ROCKSDB]
    return ReadCost(
        _INDEX_FILE_SECONDS * replicas if has_files else 0,
        tuple(str(Path(path, "current", name)) for path in databases for name in ("ledgers", "locations")),
    )


def _overlapping(bookies: ClusterBookies, counts: Sequence[IndexCount]) -> list[str]:
    """Return the bookies where a ledger may have more than one row.

    The index of such a bookie came in several pieces, or one of its databases has a ledger that belongs to
    another of its databases.
    """
    has_several_shapes = any(
        directory.storage == index_parts.ROCKSDB and directory.directory_count > 1
        for bookie in bookies.attribution.bookies.values()
        for directory in bookie.index_directories
    )
    if not has_several_shapes and not bookies.collected.readable_collections:
        return sorted(bookies.settled.overlapping_bookies)
    misplaced_counts = {
        count.bookie_id
        for count in counts
        if count.state in (IndexState.UNREADABLE, IndexState.WRONG_DIRECTORY)
        and count.storage == index_parts.ROCKSDB
    }
    return sorted(misplaced_counts.union(bookies.settled.overlapping_bookies))


def _shapes(counts: Sequence[IndexCount]) -> IndexShapes:
    """Return the page sizes of the bookies' indexes, and other properties that queries need."""
    numbers: Counter[tuple[str, str, int]] = Counter()
    for count in counts:
        numbers[count.bookie_id, count.state, count.length] += count.number
    return index_shapes((*kind, number) for kind, number in numbers.items())


REUSED_AND_READ = ("count_if(coalesce(reused, false))", "count_if(not coalesce(reused, false))")
"""SQL aggregates: the number of rows taken from an earlier run, and the number of rows read."""


def _reuse_of(availability: DataFrame) -> ReuseCount:
    """Return the number of indexes taken from an earlier run, and the number read."""
    counts = aggregate_many({"indexes": (availability.where("path is not null"), REUSED_AND_READ)})
    reused, read = counts["indexes"]
    return ReuseCount(reused=reused, read=read)
