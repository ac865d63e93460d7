"""The tables of a collection, read by Spark's tasks or without Spark; and what a collection is made of.

Tasks read the large ones, for many bookies whose disks all of them can see. With ``--entry-logs`` there is
all that an audit needs to say whose each byte of a disk is:

    locations    where the indexes point, read before the logs, one entry of each looked up in its log
    entry_logs   every log, and the ledgers in it, by its map or by a scan of its entries' headers
    disks        what lies beside the logs, and how full the file systems are

The logs of a collection have no bookie yet: whose a directory is, an audit says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from auditor.model.progress import Progress
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.collections.collection import CollectedFile, Collection
from auditor.sources.bookies.collections.tables import (
    AVAILABILITY,
    COMPRESSION,
    DISKS,
    LOCATIONS,
    LOGS,
    TAILS,
    Piece,
    batches_of,
    with_piece,
)
from auditor.sources.bookies.entry_logs import locations as located
from auditor.sources.bookies.entry_logs import rows as entry_logs
from auditor.sources.bookies.entry_logs.locations import read_locations
from auditor.sources.bookies.entry_logs.parts import ENTRY_LOGS, LogPart, read_logs_of, slice_parts
from auditor.sources.bookies.entry_logs.rows import SIZES, read_sizes, sizes_of
from auditor.sources.bookies.journal import tails as journal_tails
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart
from auditor.sources.bookies.places import PlaceFound
from auditor.sources.file_systems import run_files
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable
from auditor.spark.tasks import file_system_errors, report_tasks, require_shared
from auditor.spark.types import DataFrame, SparkSession


@dataclass(frozen=True)
class CollectionInput:
    """Pieces of indexes, cut into ``parts``, and the directories that may have entry logs, with their
    VERSION's digest.

    ``whole_logs``: the ledgers in each log are wanted too, where the indexes point, and what lies beside.
    """

    collection_id: str
    pieces: Sequence[Piece]
    parts: Sequence[IndexPart]
    directories: Sequence[tuple[str, str | None]]
    whole_logs: bool

    @property
    def by_id(self) -> Mapping[str, Piece]:
        """The pieces by their ids, which parts have as their bookie's."""
        return {piece.id: piece for piece in self.pieces}

    @property
    def paths(self) -> list[str]:
        """The directories alone."""
        return [path for path, _ in self.directories]


def directories_of(places: Sequence[PlaceFound]) -> list[tuple[str, str | None]]:
    """Every directory with ``current``, by path, and the digest of its VERSION."""
    found = {each.path: each.version for place in places for each in place.directories if each.has_current}
    return [(path, IndexDirectory.seen(path, found[path]).version_sha256) for path in sorted(found)]


def location_rows(part: IndexPart, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Where one part of a piece's index points, in the columns of `LOCATIONS`."""
    for batch in read_locations({part.bookie_id: piece.ledger_directories}, part):
        yield with_piece(batch, piece, LOCATIONS)


def log_rows(part: LogPart, collection_id: str) -> Iterator[pa.RecordBatch]:
    """The entry logs of a part, with their ledgers, in the columns of `LOGS`."""
    for batch in read_logs_of(part):
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["collection"] = pa.repeat(pa.scalar(collection_id, pa.string()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([columns[name] for name in LOGS.names], schema=LOGS)


def disk_rows(directories: Iterable[str], collection_id: str) -> Iterator[pa.RecordBatch]:
    """What lies beside the entry logs, in the columns of `DISKS`."""
    return batches_of(({**sizes_of(each), "collection": collection_id} for each in directories), DISKS)


def log_parts(to_read: CollectionInput) -> list[LogPart]:
    """One part a directory."""
    # Without DbLedgerStorage a bookie has one collector, whose cache is in its first directory.
    first = {
        home: next(iter(piece.ledger_directories), "")
        for piece in to_read.pieces
        if any(each.storage != ROCKSDB for each in piece.directories)
        for home in piece.ledger_directories
    }
    return [
        LogPart(None, None, path, version, cache=first.get(path) or None)
        for path, version in to_read.directories
    ]


def read_in_spark(
    spark: SparkSession, target: Collection, to_read: CollectionInput, wanted: int, progress: Progress
) -> Mapping[str, tuple[CollectedFile, ...]]:
    """Write ``availability``, ``journal_tails`` and ``entry_logs``, in about ``wanted`` tasks each.

    Where whole logs are wanted, ``locations`` are read before them, and ``disks`` last.

    Raises:
        UsageError: ``target`` is a directory that Spark's executors do not see.
    """
    require_shared(spark, *run_files(target.path))
    tables = {
        "availability": _availability(spark, to_read),
        "journal_tails": _journal_tails(spark, to_read.pieces),
    }
    if to_read.whole_logs:
        tables |= {
            "locations": _locations(spark, to_read),
            "entry_logs": _whole_logs(spark, to_read, wanted),
            "disks": _disks(spark, to_read),
        }
    else:
        tables["entry_logs"] = _entry_logs(spark, to_read.paths)
    for name, table in tables.items():
        progress.stage(name)
        with report_tasks(spark, progress), file_system_errors(target.path):
            table.write.option("compression", COMPRESSION).parquet(f"{target.path}/{name}")
    return {name: target.manifest_files(name) for name in tables}


def _availability(spark: SparkSession, to_read: CollectionInput) -> DataFrame:
    rows = PartTable.of(spark, SCHEMA, read_part, to_read.parts).frame()
    return _with_piece_names(spark, rows, to_read.pieces).select(*AVAILABILITY.names)


def _locations(spark: SparkSession, to_read: CollectionInput) -> DataFrame:
    homes = {piece.id: piece.ledger_directories for piece in to_read.pieces}
    rows = PartTable.of(
        spark, located.LOCATIONS, partial(located.read_locations, homes), to_read.parts
    ).frame()
    return _with_piece_names(spark, rows, to_read.pieces).select(*LOCATIONS.names)


def _whole_logs(spark: SparkSession, to_read: CollectionInput, wanted: int) -> DataFrame:
    parts = slice_parts(log_parts(to_read), wanted)
    rows = PartTable.of(spark, ENTRY_LOGS, read_logs_of, parts).frame()
    return _of_collection(rows, to_read, LOGS)


def _disks(spark: SparkSession, to_read: CollectionInput) -> DataFrame:
    return _of_collection(PartTable.of(spark, SIZES, read_sizes, to_read.paths).frame(), to_read, DISKS)


def _of_collection(rows: DataFrame, to_read: CollectionInput, schema: pa.Schema) -> DataFrame:
    return rows.withColumn("collection", F.lit(to_read.collection_id)).select(*schema.names)


def _journal_tails(spark: SparkSession, pieces: Sequence[Piece]) -> DataFrame:
    parts = [piece.tail for piece in pieces]
    rows = PartTable.of(spark, journal_tails.SCHEMA, journal_tails.read_tail, parts).frame()
    return _with_piece_names(spark, rows, pieces).select(*TAILS.names)


def _with_piece_names(spark: SparkSession, rows: DataFrame, pieces: Sequence[Piece]) -> DataFrame:
    """Rows that were read under the ids of pieces, with these in a column of their own."""
    ids = spark.createDataFrame(
        [(piece.id, piece.bookie_id) for piece in pieces], "piece string, named string"
    )
    whose = rows.withColumnRenamed("bookie_id", "piece").join(F.broadcast(ids), "piece")
    return whose.withColumnRenamed("named", "bookie_id")


def _entry_logs(spark: SparkSession, logs: Sequence[str]) -> DataFrame:
    def read(directory: str) -> Iterator[pa.RecordBatch]:
        yield from batches_of(entry_logs.read_logs(directory), entry_logs.SCHEMA)

    return PartTable.of(spark, entry_logs.SCHEMA, read, logs).frame()
