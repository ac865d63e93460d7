"""Writer of a collection: tables made from bookies' directories, read on the bookies and audited elsewhere.

    places          the directories of each bookie (a place), and their VERSION and lastMark files
    availability    the indexes, piece by piece (a piece: the index directories of one bookie id in a place)
    journal tails   journal records after the last marks
    entry logs      the header and ledgers map of each log. With --entry-logs: also the ledgers in each log,
                    from its map or from a scan of the headers of its entries
    locations       with --entry-logs: the positions in entry logs that the indexes point to, read before the
                    logs. At each position, one entry is looked up
    disks           with --entry-logs: files beside the logs, and the free space of the file systems
    manifest        the tables and their sizes, written last

The last mark (lastMark) is read before the indexes. So if the bookie has an entry that is not in the
collection, this entry is newer than the mark. A collection does not assign entry logs to bookies. The audit
finds out which bookie a directory belongs to. Without Spark, the directories are read one after the other, in
bounded memory. With Spark, tasks read the parts of a table, and all tasks must be able to read the disks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import dataset, fs

from auditor.errors import UsageError
from auditor.model.columns import column
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, SilentProgress
from auditor.model.run_facts import program_version
from auditor.model.states import WRONG_PATH, BookieRead, EntryLogState, IndexState, LogFileKind, TailState
from auditor.sources.bookies.collections.collection import (
    DIRECTORIES_SCHEMA,
    PLACES_SCHEMA,
    CollectedFile,
    Collection,
    CollectionManifest,
    directory_rows,
    place_rows,
)
from auditor.sources.bookies.collections.tables import (
    COLLECTION_COLUMN,
    COMPRESSION,
    DISK_SCHEMA,
    INDEX_SCHEMA,
    LOCATION_SCHEMA,
    LOG_SCHEMA,
    TAIL_SCHEMA,
    IndexPiece,
    add_piece_columns,
    make_batches,
    split_into_index_pieces,
    write_table,
)
from auditor.sources.bookies.entry_logs import rows as entry_logs
from auditor.sources.bookies.entry_logs.locations import read_locations
from auditor.sources.bookies.entry_logs.parts import LogPart, read_logs_of, slice_parts
from auditor.sources.bookies.entry_logs.rows import sizes_of
from auditor.sources.bookies.journal.tails import read_tail
from auditor.sources.bookies.owners import attribute_directories
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart, plan_parts
from auditor.sources.bookies.places import FoundDirectory, FoundPlace, find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import run_files
from auditor.spark.part_tables import PartTable
from auditor.spark.session import require_classic
from auditor.spark.tasks import report_tasks, require_shared, translate_file_system_errors
from auditor.spark.types import SparkSession
from auditor.tables.registry import COOKIES, StoreCookie


@dataclass(frozen=True)
class CollectionInput:
    """The directories to read for a collection.

    Attributes:
        collection_id: id of the collection.
        pieces: pieces of indexes. A piece consists of the index directories that one bookie has in one place
            (a directory or inventory entry for one bookie).
        parts: the pieces, divided into parts for tasks. The ``bookie_id`` of a part is the id of its piece.
        directories: directories that may contain entry logs, each with its VERSION's digest (None: no file).
        reads_logs: True to also read the ledgers in each log, the locations of entries, and the disks.
    """

    collection_id: str
    pieces: Sequence[IndexPiece]
    parts: Sequence[IndexPart]
    directories: Sequence[tuple[str, str | None]]
    reads_logs: bool


class CollectedTable(NamedTuple):
    """A table of a collection, and its parts. ``part_reader`` reads the rows of one part without Spark."""

    name: str
    columns: pa.Schema
    part_reader: Callable[[Any], Iterator[pa.RecordBatch]]
    parts: Sequence[Any]


def find_log_directories(places: Sequence[FoundPlace]) -> list[tuple[str, str | None]]:
    """Return (path, digest of VERSION or None) of all directories with ``current``, in sorted order."""
    version_by_path = {
        directory.path: directory.version
        for place in places
        for directory in place.directories
        if directory.has_current
    }
    return [
        (path, IndexDirectory.from_version(path, version_by_path[path]).version_sha256)
        for path in sorted(version_by_path)
    ]


def _log_parts(collection: CollectionInput) -> list[LogPart]:
    """Return one part per directory, for reading its entry logs."""
    # Without DbLedgerStorage, a bookie has one garbage collector. Its cache is in the first ledger directory.
    first_directory_by_path = {
        first_directory: next(iter(piece.ledger_directories), "")
        for piece in collection.pieces
        if any(directory.storage != ROCKSDB for directory in piece.directories)
        for first_directory in piece.ledger_directories
    }
    return [
        LogPart(None, None, path, directory_version, cache=first_directory_by_path.get(path) or None)
        for path, directory_version in collection.directories
    ]


def collected_tables(collection: CollectionInput, part_count: int) -> list[CollectedTable]:
    """Return the tables to write, in order.

    If ``collection.reads_logs`` is True, the table ``locations`` comes before the entry logs, and ``disks``
    comes last. In this case, the entry logs are read in about ``part_count`` parts.
    """
    pieces_by_id = {piece.id: piece for piece in collection.pieces}
    paths = [path for path, _ in collection.directories]
    tables = [
        CollectedTable("availability", INDEX_SCHEMA, partial(_index_rows, pieces_by_id), collection.parts),
        CollectedTable("journal_tails", TAIL_SCHEMA, _journal_rows, collection.pieces),
    ]
    if not collection.reads_logs:
        return [*tables, CollectedTable("entry_logs", entry_logs.SCHEMA, _header_rows, paths)]
    log_parts = slice_parts(_log_parts(collection), part_count)
    collection_id = collection.collection_id
    return [
        *tables,
        CollectedTable("locations", LOCATION_SCHEMA, partial(_location_rows, pieces_by_id), collection.parts),
        CollectedTable("entry_logs", LOG_SCHEMA, partial(_log_rows, collection_id), log_parts),
        CollectedTable("disks", DISK_SCHEMA, partial(_disk_rows, collection_id), paths),
    ]


def write_in_spark(
    spark: SparkSession, target: Collection, table: CollectedTable, progress: Progress
) -> tuple[CollectedFile, ...]:
    """Write a table with Spark, with one task for each part, and return its files."""
    rows = PartTable.from_parts(spark, table.columns, table.part_reader, table.parts).frame()
    progress.table(table.name)
    with report_tasks(spark, progress), translate_file_system_errors(target.path):
        rows.write.option("compression", COMPRESSION).parquet(f"{target.path}/{table.name}")
    return target.manifest_files(table.name)


def _index_rows(pieces_by_id: Mapping[str, IndexPiece], part: IndexPart) -> Iterator[pa.RecordBatch]:
    return (add_piece_columns(batch, pieces_by_id[part.bookie_id], INDEX_SCHEMA) for batch in read_part(part))


def _journal_rows(piece: IndexPiece) -> Iterator[pa.RecordBatch]:
    return (add_piece_columns(batch, piece, TAIL_SCHEMA) for batch in read_tail(piece.journal_tail))


def _header_rows(directory: str) -> Iterator[pa.RecordBatch]:
    return make_batches(entry_logs.read_logs(directory), entry_logs.SCHEMA)


def _location_rows(pieces_by_id: Mapping[str, IndexPiece], part: IndexPart) -> Iterator[pa.RecordBatch]:
    piece = pieces_by_id[part.bookie_id]
    rows = read_locations({part.bookie_id: piece.ledger_directories}, part)
    return (add_piece_columns(batch, piece, LOCATION_SCHEMA) for batch in rows)


def _log_rows(collection_id: str, part: LogPart) -> Iterator[pa.RecordBatch]:
    for batch in read_logs_of(part):
        id_column = pa.repeat(pa.scalar(collection_id, pa.string()), batch.num_rows)
        yield batch.append_column(COLLECTION_COLUMN, id_column).select(LOG_SCHEMA.names).cast(LOG_SCHEMA)


def _disk_rows(collection_id: str, directory: str) -> Iterator[pa.RecordBatch]:
    return make_batches([{**sizes_of(directory), "collection": collection_id}], DISK_SCHEMA)


DRIVER_PARTS = 64
"""Number of parts into which the indexes are divided without Spark. The progress counts finished parts."""

MAX_UNREAD_SHOWN = 20
"""Largest number of unreadable paths to name. All of them are counted, and all are in the tables."""

UNREAD_STATES = {
    "availability": (IndexState.CUT, IndexState.UNREADABLE, *WRONG_PATH, IndexState.GAP, IndexState.DAMAGED),
    "entry_logs": (EntryLogState.UNREADABLE,),
}
"""States that mark a row as unreadable, for each table."""

VERSIONS_SCHEMA = pa.schema([*COOKIES, column("path", pa.string(), "the directory")])
"""Columns of the table ``cookies`` of a collection: the content of each directory's VERSION file.

``bookie_id`` is the id in the file.
"""

CollectedFiles = tuple[CollectedFile, ...]


@dataclass(frozen=True)
class FinishedCollection:
    """A finished collection: its path, its manifest, and the paths that could not be read.

    ``unread_count`` is the number of these paths. ``unread_lines`` are texts for the first
    `MAX_UNREAD_SHOWN` of them, each with the path and the reason.
    """

    path: str
    manifest: CollectionManifest
    unread_count: int
    unread_lines: tuple[str, ...]


def collect(
    bookies: Sequence[str],
    out: str,
    options: AuditOptions | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> FinishedCollection:
    """Collect the content of bookies' directories into the new directory ``out``.

    Damaged files become rows of the tables, as in an audit. An interrupted collection has no collection.json,
    and is therefore not mistaken for a complete one.

    Args:
        bookies: directories of bookies, and inventories.
        out: local path, or a URI that pyarrow can write, and with ``spark`` also Spark.
        options: audit options. Only the options for reading have an effect.
        spark: session to read with. None to read in this process.
        progress: receiver of progress.

    Raises:
        UsageError: a source is not a bookie's directory, ``out`` exists already or cannot be written, or
            ``spark`` is a session of Spark Connect.
    """
    creation_time = now_ms()
    options, progress = options or AuditOptions(), progress or SilentProgress()
    if spark is not None:
        require_classic(spark)
    target, directories = check_target(bookies, out)
    progress.stage("listing directories")
    places = find_places(directories)
    if not any(directory.has_current for place in places for directory in place.directories):
        raise UsageError(
            f"--bookies {', '.join(bookies)}: no directory with a subdirectory current/ was found"
        )
    collection_id = uuid.uuid4().hex
    pieces = split_into_index_pieces(collection_id, places)
    tables: dict[str, CollectedFiles] = dict(_directory_tables(target, places, pieces))
    part_count = (
        DRIVER_PARTS if spark is None else spark.sparkContext.defaultParallelism * options.parts_per_core
    )
    all_parts = plan_parts([(piece.id, piece.directories) for piece in pieces], part_count, options.threads)
    log_directories = find_log_directories(places)
    collection = CollectionInput(collection_id, pieces, all_parts, log_directories, options.entry_logs)
    if spark is not None:
        require_shared(spark, *run_files(target.path))
    for table in collected_tables(collection, 1 if spark is None else part_count):
        tables[table.name] = (
            _write_in_driver(target, table, progress)
            if spark is None
            else write_in_spark(spark, target, table, progress)
        )
    unread_texts = chain(
        _unread_bookies(places), _unread_files(target, tables), _unread_journals(target, tables, pieces)
    )
    unread_lines = tuple(islice(unread_texts, MAX_UNREAD_SHOWN))
    unread_count = len(unread_lines) + sum(1 for _ in unread_texts)
    manifest = CollectionManifest(
        collection_id, program_version(), creation_time, now_ms(), tuple(bookies), tables
    )
    target.write_manifest(manifest)
    return FinishedCollection(target.path, manifest, unread_count, unread_lines)


def check_target(bookies: Sequence[str], out: str) -> tuple[Collection, tuple[str, ...]]:
    """Return the target of a collection and the directories to read. Raise `UsageError` if they are invalid.

    The function writes nothing. A caller can call it before the start of a Spark session.
    """
    target = Collection(out if "://" in out else str(Path(out).absolute()))
    sources = split_sources(bookies)
    if sources.rpc or sources.collections:
        refused_source = "rpc:" if sources.rpc else sources.collections[0]
        raise UsageError(f"--bookies {refused_source}: collect reads only bookies' own directories")
    if target.files.get_file_info(target.base_path).type != fs.FileType.NotFound:
        raise UsageError(f"--out {target.path}: already exists; choose a new directory")
    return target, sources.directories


def _directory_tables(
    target: Collection, places: Sequence[FoundPlace], pieces: Sequence[IndexPiece]
) -> Iterator[tuple[str, CollectedFiles]]:
    """Write the small tables ``places``, ``directories`` and ``cookies``. Yield each name and its files."""
    piece_ids = {
        (piece.place, directory.path): piece.id for piece in pieces for directory in piece.directories
    }
    directories = [
        row for number, place in enumerate(places) for row in directory_rows(number, place, piece_ids)
    ]
    version_rows = [
        _version_row(directory)
        for place in places
        for directory in place.directories
        if directory.has_current
    ]
    for name, schema, rows in (
        ("places", PLACES_SCHEMA, place_rows(places)),
        ("directories", DIRECTORIES_SCHEMA, directories),
        ("cookies", VERSIONS_SCHEMA, version_rows),
    ):
        yield name, write_table(target, name, schema, make_batches(rows, schema))


def _version_row(directory: FoundDirectory) -> dict[str, Any]:
    cookie, cookie_damage = directory.cookie
    row = StoreCookie(cookie.bookie_id if cookie else "", cookie, cookie_damage).make_row()
    return {**row, "bookie_id": row["bookie_host"], "path": directory.path}


def _write_in_driver(target: Collection, table: CollectedTable, progress: Progress) -> CollectedFiles:
    progress.table(table.name, len(table.parts))

    def batches() -> Iterator[pa.RecordBatch]:
        for part in table.parts:
            yield from table.part_reader(part)
            progress.advance(1)

    return write_table(target, table.name, table.columns, batches())


def _unread_bookies(places: Sequence[FoundPlace]) -> Iterator[str]:
    """Yield a text with the reason for each bookie not completely found, and for each unlisted path."""
    attribution = attribute_directories(places, frozenset(), {}, None)
    cookie_ids = {row.cookie_bookie_id for row in attribution.directories if row.cookie_bookie_id is not None}
    for bookie_id, bookie in attribute_directories(places, cookie_ids, {}, None).bookies.items():
        if bookie.read != BookieRead.READ:
            yield f"{bookie_id}: {bookie.reason}"
    for place in places:
        yield from (f"{path}: {reason}" for path, reason in place.gaps)


def _unread_files(target: Collection, tables: Mapping[str, CollectedFiles]) -> Iterator[str]:
    """Yield a text for each row about an unreadable file, with the path and the reason.

    The statistics in the Parquet files let the function skip most row groups that contain no such row.
    """
    for name, unread_states in UNREAD_STATES.items():
        row_filter = dataset.field("state").isin(unread_states)
        if name == "entry_logs":
            # The file of an unfinished compaction may not be an entry log yet.
            row_filter &= dataset.field("kind").is_null() | (dataset.field("kind") == LogFileKind.LOG)
        for row in _filtered_rows(target, tables[name], ["path", "reason"], row_filter):
            yield f"{row['path']}: {row['reason']}"


def _unread_journals(
    target: Collection, tables: Mapping[str, CollectedFiles], pieces: Sequence[IndexPiece]
) -> Iterator[str]:
    """Yield a text for each journal that could not be read completely.

    Journals of cleanly stopped bookies are left out, because all their entries are in the index.
    """
    piece_ids = pa.array([piece.id for piece in pieces if piece.journals.clean_stop_ms is None], pa.string())
    row_filter = (dataset.field("state") != TailState.OK) & dataset.field("piece").isin(piece_ids)
    for row in _filtered_rows(target, tables["journal_tails"], ["bookie_id", "path", "reason"], row_filter):
        yield f"journal of {row['path'] or row['bookie_id']}: {row['reason']}"


def _filtered_rows(
    target: Collection, files: CollectedFiles, columns: list[str], row_filter: dataset.Expression
) -> Iterator[dict[str, Any]]:
    paths = [f"{target.base_path}/{file.path}" for file in files]
    table = dataset.dataset(paths, filesystem=target.files, format="parquet")
    for batch in table.to_batches(columns=columns, filter=row_filter):
        yield from batch.to_pylist()
