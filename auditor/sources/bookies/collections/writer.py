"""How a collection is written: availability cut into pieces, each table as one Parquet file, batch by batch.

Nobody knows yet whose an index is. A directory belongs to the bookie that its VERSION names, if the cluster
knows that id, else to the one in whose place it lies. So all directories that lie in one place and name one
id have one owner, whoever that will be: they are a piece. Those of a place whose VERSION cannot be read are
a piece of their own. The index directories of a piece are read together, in configured order, as they are
when a bookie's disks are audited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet as pq

from auditor.errors import UsageError
from auditor.model.columns import column
from auditor.sources.bookies.collections.collection import CollectedFile, Collection
from auditor.sources.bookies.entry_logs.locations import LOCATIONS as LOCATION_ROWS
from auditor.sources.bookies.journal.files import NONE, Journals
from auditor.sources.bookies.journal.tails import SCHEMA as JOURNAL_TAILS
from auditor.sources.bookies.journal.tails import TailPart
from auditor.sources.bookies.owners import attribute
from auditor.sources.bookies.part_rows import SCHEMA as INDEX_ROWS
from auditor.sources.bookies.parts import IndexDirectory
from auditor.sources.bookies.places import PlaceFound


@dataclass(frozen=True, slots=True)
class Piece:
    """The index directories of the place numbered ``place`` that name ``bookie_id``, in configured order.

    ``id`` is unique among all collections; ``bookie_id`` is None where no VERSION says. ``journals`` are
    those of that id in the same place, and so are ``ledger_directories``, in configured order, "" for one
    that was not found.
    """

    id: str
    place: int
    bookie_id: str | None
    directories: tuple[IndexDirectory, ...]
    journals: Journals = NONE
    ledger_directories: tuple[str, ...] = ()

    @property
    def tail(self) -> TailPart:
        """What is to be read of its journals, under its own id."""
        return TailPart(self.id, self.journals.directories, self.journals.trouble)


def pieces_of(collection_id: str, places: Sequence[PlaceFound]) -> list[Piece]:
    """Cut the index directories of ``places`` into pieces; each directory is in one at most.

    A directory whose VERSION cannot be read is matched with the paths that its neighbours' VERSIONs name;
    where no VERSION of a place can be read, nothing says which directories are an index.
    """
    pieces: list[Piece] = []
    taken: set[str] = set()
    for number, place in enumerate(places):
        for each in _by_id(place):
            own = tuple(directory for directory in each.directories if directory.path not in taken)
            taken.update(directory.path for directory in own)
            if own:
                name = f"{collection_id}:{len(pieces)}"
                pieces.append(Piece(name, number, each.bookie_id, own, each.journals, each.homes))
    return pieces


class _OfId(NamedTuple):
    """What names one id in a place; ``homes`` are its ledger directories."""

    bookie_id: str | None
    directories: list[IndexDirectory]
    journals: Journals = NONE
    homes: tuple[str, ...] = ()


def _by_id(place: PlaceFound) -> list[_OfId]:
    known = attribute([place], frozenset(), {}, None)
    named = {row.path: row.cookie_bookie_id for row in known.directories}
    counted = Counter(sorted(bookie_id for bookie_id in named.values() if bookie_id is not None))
    ids = [bookie_id for bookie_id, _ in counted.most_common()]
    written = [each for each in ids if place.name in (each, each.replace(":", "_"))]
    found: list[_OfId] = []
    for bookie_id in ids:
        whole = attribute([replace(place, name=bookie_id, names_bookie=True)], frozenset(ids), {}, None)
        directories, journals = whole.bookies[bookie_id].index_directories, whole.bookies[bookie_id].journals
        own = [each for each in directories if named.get(each.path) == bookie_id]
        homes = tuple(whole.ledger_directories(bookie_id))
        found.append(_OfId(bookie_id, own, journals, homes))
        if bookie_id == (written or ids)[0]:
            found.append(_OfId(None, [each for each in directories if named.get(each.path) is None]))
    return found


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
