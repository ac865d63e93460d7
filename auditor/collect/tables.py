"""The tables of a collection, read by Spark's tasks or without Spark; and what a collection is made of.

Tasks read the large ones, for many bookies whose disks all of them can see. With ``--entry-logs`` there is
all that an audit needs to say whose each byte of a disk is:

    locations    where the indexes point, read before the logs, one entry of each looked up in its log
    entry_logs   every log, and the ledgers in it, by its map or by a scan of its entries' headers
    disks        what lies beside the logs, and how full the file systems are

The logs of a collection have no bookie yet: whose a directory is, an audit says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.model.progress import Progress
from auditor.sources.bookies.collections.collection import CollectedFile, Collection
from auditor.sources.bookies.collections.tables import (
    AVAILABILITY,
    COLLECTION,
    COMPRESSION,
    DISKS,
    LOCATIONS,
    LOGS,
    TAILS,
    Piece,
    batches_of,
    with_piece,
)
from auditor.sources.bookies.entry_logs import rows as entry_logs
from auditor.sources.bookies.entry_logs.locations import read_locations
from auditor.sources.bookies.entry_logs.parts import LogPart, read_logs_of, slice_parts
from auditor.sources.bookies.entry_logs.rows import sizes_of
from auditor.sources.bookies.journal.tails import read_tail
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart
from auditor.sources.bookies.places import PlaceFound
from auditor.spark.part_tables import PartTable
from auditor.spark.tasks import file_system_errors, report_tasks
from auditor.spark.types import SparkSession


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


class CollectedTable(NamedTuple):
    """A table of a collection, and how its rows are read, part by part; needs no Spark."""

    name: str
    columns: pa.Schema
    read: Callable[[Any], Iterator[pa.RecordBatch]]
    parts: Sequence[Any]


def directories_of(places: Sequence[PlaceFound]) -> list[tuple[str, str | None]]:
    """Every directory with ``current``, by path, and the digest of its VERSION."""
    found = {each.path: each.version for place in places for each in place.directories if each.has_current}
    return [(path, IndexDirectory.seen(path, found[path]).version_sha256) for path in sorted(found)]


def _log_parts(to_read: CollectionInput) -> list[LogPart]:
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


def collected_tables(to_read: CollectionInput, wanted: int) -> list[CollectedTable]:
    """What is written of the directories, in its order; entry logs in about ``wanted`` parts.

    Where whole logs are wanted, ``locations`` are read before them, and ``disks`` last.
    """
    by_id = {piece.id: piece for piece in to_read.pieces}
    paths = [path for path, _ in to_read.directories]
    tables = [
        CollectedTable("availability", AVAILABILITY, partial(_index_rows, by_id), to_read.parts),
        CollectedTable("journal_tails", TAILS, _tail_rows, to_read.pieces),
    ]
    if not to_read.whole_logs:
        return [*tables, CollectedTable("entry_logs", entry_logs.SCHEMA, _header_rows, paths)]
    logs = slice_parts(_log_parts(to_read), wanted)
    collection_id = to_read.collection_id
    return [
        *tables,
        CollectedTable("locations", LOCATIONS, partial(_location_rows, by_id), to_read.parts),
        CollectedTable("entry_logs", LOGS, partial(_log_rows, collection_id), logs),
        CollectedTable("disks", DISKS, partial(_disk_rows, collection_id), paths),
    ]


def write_in_spark(
    spark: SparkSession, target: Collection, table: CollectedTable, progress: Progress
) -> tuple[CollectedFile, ...]:
    """Write a table, one task a part."""
    rows = PartTable.of(spark, table.columns, table.read, table.parts).frame()
    progress.stage(table.name)
    with report_tasks(spark, progress), file_system_errors(target.path):
        rows.write.option("compression", COMPRESSION).parquet(f"{target.path}/{table.name}")
    return target.manifest_files(table.name)


def _index_rows(by_id: Mapping[str, Piece], part: IndexPart) -> Iterator[pa.RecordBatch]:
    return (with_piece(batch, by_id[part.bookie_id], AVAILABILITY) for batch in read_part(part))


def _tail_rows(piece: Piece) -> Iterator[pa.RecordBatch]:
    return (with_piece(batch, piece, TAILS) for batch in read_tail(piece.tail))


def _header_rows(directory: str) -> Iterator[pa.RecordBatch]:
    return batches_of(entry_logs.read_logs(directory), entry_logs.SCHEMA)


def _location_rows(by_id: Mapping[str, Piece], part: IndexPart) -> Iterator[pa.RecordBatch]:
    piece = by_id[part.bookie_id]
    rows = read_locations({part.bookie_id: piece.ledger_directories}, part)
    return (with_piece(batch, piece, LOCATIONS) for batch in rows)


def _log_rows(collection_id: str, part: LogPart) -> Iterator[pa.RecordBatch]:
    for batch in read_logs_of(part):
        whose = pa.repeat(pa.scalar(collection_id, pa.string()), batch.num_rows)
        yield batch.append_column(COLLECTION, whose).select(LOGS.names).cast(LOGS)


def _disk_rows(collection_id: str, directory: str) -> Iterator[pa.RecordBatch]:
    return batches_of([{**sizes_of(directory), "collection": collection_id}], DISKS)
