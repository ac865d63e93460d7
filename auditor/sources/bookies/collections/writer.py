"""Writes a table of a collection as one Parquet file, batch by batch: memory does not grow with the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from auditor.errors import UsageError
from auditor.model.columns import column
from auditor.sources.bookies.collections.collection import CollectedFile, Collection
from auditor.sources.bookies.collections.pieces import Piece
from auditor.sources.bookies.entry_logs.locations import LOCATIONS as LOCATION_ROWS
from auditor.sources.bookies.journal.tails import SCHEMA as JOURNAL_TAILS
from auditor.sources.bookies.part_rows import SCHEMA as INDEX_ROWS

COMPRESSION = "zstd"
PIECE = column("piece", pa.string(), "the piece of its collection: one place, one id in VERSION")
AVAILABILITY = pa.schema([*INDEX_ROWS, PIECE])
"""The table ``availability`` of a collection; ``bookie_id`` is the id in VERSION, null without one."""

TAILS = pa.schema([*JOURNAL_TAILS, PIECE])
"""The table ``journal_tails`` of a collection, likewise."""

LOCATIONS = pa.schema([*LOCATION_ROWS, PIECE])
"""The table ``locations`` of a collection, likewise."""

_ROWS = 65_536


def write_table(
    collection: Collection, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[CollectedFile, ...]:
    """Write the batches as they come; returns the files for the manifest. Raises `UsageError`."""
    path = f"{table}/part-00000.parquet"
    rows = 0
    try:
        collection.files.create_dir(f"{collection.base}/{table}", recursive=True)
        with (
            collection.files.open_output_stream(f"{collection.base}/{path}") as stream,
            # Checksums of pages are Parquet's own: whoever reads the data notices a byte that changed.
            pq.ParquetWriter(stream, schema, compression=COMPRESSION, write_page_checksum=True) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        info = collection.files.get_file_info(f"{collection.base}/{path}")
    except OSError as error:
        raise UsageError(f"--out {collection.path}: cannot be written: {error}") from error
    return (CollectedFile(path, rows, info.size),)


def batches_of(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as record batches.

    >>> [batch.num_rows for batch in batches_of([{"n": 1}, {"n": 2}], pa.schema([("n", pa.int64())]))]
    [2]
    """
    rest = iter(rows)
    while taken := list(islice(rest, _ROWS)):
        yield pa.RecordBatch.from_pylist(taken, schema=schema)


def with_piece(batch: pa.RecordBatch, piece: Piece, schema: pa.Schema = AVAILABILITY) -> pa.RecordBatch:
    """Rows of ``schema``, which ends with `PIECE`, from those that reading a part of the piece gave."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["bookie_id"] = pa.repeat(pa.scalar(piece.bookie_id, pa.string()), batch.num_rows)
    columns[PIECE.name] = pa.repeat(pa.scalar(piece.id, pa.string()), batch.num_rows)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
