"""What a collection has with ``--entry-logs``: all that an audit needs to say whose each byte of a disk is.

    locations    where the indexes point, read before the logs, one entry of each looked up in its log
    entry_logs   every log, and the ledgers in it, by its map or by a scan of its entries' headers
    disks        what lies beside the logs, and how full the file systems are

The logs of a collection have no bookie yet: whose a directory is, an audit says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from auditor.collect.input import CollectionInput
from auditor.sources.bookies.collections.tables import DISKS, LOCATIONS, LOGS, Piece, batches_of, with_piece
from auditor.sources.bookies.entry_logs.locations import read_locations
from auditor.sources.bookies.entry_logs.parts import LogPart, read_logs_of
from auditor.sources.bookies.entry_logs.rows import sizes_of
from auditor.sources.bookies.parts import ROCKSDB, IndexPart


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
