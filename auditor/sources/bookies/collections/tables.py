"""The tables of a collection: written piece by piece, and read back for the bookies that own the pieces.

The owner of an index is not known yet at collection time. A directory belongs to the bookie that its
VERSION file names, if the cluster knows the id of that bookie. Otherwise, it belongs to the bookie after
which its place is named. A place is a bookie's sub-directory or inventory entry.

So all directories of a place whose VERSION files name the same id have the same owner. They form a piece.
The directories of a place whose VERSION files cannot be read form another piece. One task reads all index
directories of a piece together, in configured order. An audit reads a bookie's disks in the same way.

In a collection, a row contains the path of its directory on the host, and the id of the collection. In an
audit, the path of the row and of the directory is ``<collection>#<path>``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet as pq

from auditor.errors import path_error
from auditor.model.columns import column, make_batch
from auditor.sources.bookies.collections.collection import CollectedFile, Collection, CollectionManifest
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.bookies.entry_logs.locations import LOCATIONS as LOCATION_ROWS
from auditor.sources.bookies.entry_logs.rows import SCHEMA as ENTRY_LOGS
from auditor.sources.bookies.entry_logs.rows import SIZES
from auditor.sources.bookies.journal.files import NO_JOURNALS, Journals
from auditor.sources.bookies.journal.tails import SCHEMA as JOURNAL_TAILS
from auditor.sources.bookies.journal.tails import JournalTailPart
from auditor.sources.bookies.owners import attribute_directories
from auditor.sources.bookies.part_rows import SCHEMA as INDEX_ROWS
from auditor.sources.bookies.parts import IndexDirectory
from auditor.sources.bookies.places import FoundPlace
from auditor.spark import functions as F
from auditor.spark.part_tables import spark_types
from auditor.spark.tasks import translate_file_system_errors
from auditor.spark.types import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class IndexPiece:
    """The index directories of one place whose VERSION files name the same bookie id, in configured order.

    Attributes:
        id: An id that is unique among all collections.
        place: The number of the place, a directory or inventory entry with one bookie's directories.
        bookie_id: The bookie id in the VERSION files of the directories. None if these files cannot be
            read.
        journals: The journals of this bookie id in the same place.
        ledger_directories: The ledger directories of this bookie id in the same place, in configured order.
            An empty string stands for a directory that was not found.
    """

    id: str
    place: int
    bookie_id: str | None
    directories: tuple[IndexDirectory, ...]
    journals: Journals = NO_JOURNALS
    ledger_directories: tuple[str, ...] = ()

    @property
    def journal_tail(self) -> JournalTailPart:
        """The journals to read from lastMark on. ``bookie_id`` has the id of the piece, not of a bookie."""
        return JournalTailPart(self.id, self.journals.directories, self.journals.gap_reason)


def split_into_index_pieces(collection_id: str, places: Sequence[FoundPlace]) -> list[IndexPiece]:
    """Divide the index directories of ``places`` into pieces. Each directory is in at most one piece.

    A place holds one bookie's directories. A piece has those whose VERSION files name the same bookie.
    A directory with an unreadable VERSION file is matched with the paths in the other VERSION files of its
    place. If no VERSION file of a place can be read, the place has no pieces.
    """
    pieces: list[IndexPiece] = []
    assigned_paths: set[str] = set()
    for place_number, place in enumerate(places):
        for directory_set in _group_by_bookie_id(place):
            unassigned_directories = tuple(
                directory
                for directory in directory_set.index_directories
                if directory.path not in assigned_paths
            )
            assigned_paths.update(directory.path for directory in unassigned_directories)
            if unassigned_directories:
                piece_id = f"{collection_id}:{len(pieces)}"
                pieces.append(
                    IndexPiece(
                        piece_id,
                        place_number,
                        directory_set.bookie_id,
                        unassigned_directories,
                        directory_set.journals,
                        directory_set.ledger_directories,
                    )
                )
    return pieces


class _BookieDirectories(NamedTuple):
    """The index directories, journals and ledger directories that a place contains for one bookie id."""

    bookie_id: str | None
    index_directories: list[IndexDirectory]
    journals: Journals = NO_JOURNALS
    ledger_directories: tuple[str, ...] = ()


def _group_by_bookie_id(place: FoundPlace) -> list[_BookieDirectories]:
    attribution = attribute_directories([place], frozenset(), {}, None)
    cookie_ids = {row.path: row.cookie_bookie_id for row in attribution.directories}
    id_counts = Counter(sorted(bookie_id for bookie_id in cookie_ids.values() if bookie_id is not None))
    bookie_ids = [bookie_id for bookie_id, _ in id_counts.most_common()]
    matching_ids = [
        matching_id
        for matching_id in bookie_ids
        if place.name in (matching_id, matching_id.replace(":", "_"))
    ]
    directory_sets: list[_BookieDirectories] = []
    for bookie_id in bookie_ids:
        place_attribution = attribute_directories(
            [replace(place, name=bookie_id, names_bookie=True)], frozenset(bookie_ids), {}, None
        )
        directories, journals = (
            place_attribution.bookies[bookie_id].index_directories,
            place_attribution.bookies[bookie_id].journals,
        )
        directories_of_bookie = [
            directory for directory in directories if cookie_ids.get(directory.path) == bookie_id
        ]
        ledger_directories = tuple(place_attribution.ledger_directories(bookie_id))
        directory_sets.append(
            _BookieDirectories(bookie_id, directories_of_bookie, journals, ledger_directories)
        )
        if bookie_id == (matching_ids or bookie_ids)[0]:
            directory_sets.append(
                _BookieDirectories(
                    None, [directory for directory in directories if cookie_ids.get(directory.path) is None]
                )
            )
    return directory_sets


COMPRESSION = "zstd"
PIECE_COLUMN = column(
    "piece",
    pa.string(),
    "id of the piece, which has all directories of one place whose VERSION files have the same bookie id",
)
INDEX_SCHEMA = pa.schema([*INDEX_ROWS, PIECE_COLUMN])
"""The table ``availability`` of a collection; ``bookie_id`` is the id in VERSION, null if there is none."""

TAIL_SCHEMA = pa.schema([*JOURNAL_TAILS, PIECE_COLUMN])
"""The table ``journal_tails`` of a collection; ``bookie_id`` is the id in VERSION, null if there is none."""

LOCATION_SCHEMA = pa.schema([*LOCATION_ROWS, PIECE_COLUMN])
"""The table ``locations`` of a collection; ``bookie_id`` is the id in VERSION, null if there is none."""

_BATCH_ROWS = 65_536


def write_table(
    collection: Collection, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[CollectedFile, ...]:
    """Write batches to a table as they arrive. Return its files, for the manifest. Raises `UsageError`."""
    path = f"{table}/part-00000.parquet"
    rows = 0
    try:
        collection.files.create_dir(f"{collection.base_path}/{table}", recursive=True)
        with (
            collection.files.open_output_stream(f"{collection.base_path}/{path}") as stream,
            # With Parquet's page checksums a reader notices a changed byte.
            pq.ParquetWriter(stream, schema, compression=COMPRESSION, write_page_checksum=True) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        file_info = collection.files.get_file_info(f"{collection.base_path}/{path}")
    except OSError as error:
        raise path_error(error, f"--out {collection.path}: cannot be written: {error}") from error
    return (CollectedFile(path, rows, file_info.size),)


def make_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows as record batches.

    >>> [batch.num_rows for batch in make_batches([{"n": 1}, {"n": 2}], pa.schema([("n", pa.int64())]))]
    [2]
    """
    row_iterator = iter(rows)
    while batch_rows := list(islice(row_iterator, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(batch_rows, schema=schema)


def add_piece_columns(batch: pa.RecordBatch, piece: IndexPiece, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of ``schema``, including the id and the bookie id of ``piece``."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    owner_columns = {"bookie_id": piece.bookie_id, PIECE_COLUMN.name: piece.id}
    return make_batch(schema, batch.num_rows, columns | owner_columns)


DIRECTORIES_COLUMN = "roots"
"""Name of the column with the directories of a piece that belong to the bookie of the piece."""


def read_collected_rows(
    spark: SparkSession,
    table: str,
    schema: pa.Schema,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_by_piece_id: Mapping[str, PieceOwner],
) -> DataFrame | None:
    """Return a table's rows from collections, and add the columns ``bookie_id`` and `DIRECTORIES_COLUMN`.

    Only files that a manifest lists are read. If a page changed since it was written, its checksum differs
    and the Spark job fails.

    Args:
        spark: The session.
        table: The name of the table.
        schema: The columns of the table.
        collections: The collections to read.
        owner_by_piece_id: The bookie that owns each piece (index directories of one bookie in a place). Rows
            of
            other pieces are left out.

    Returns:
        The rows. None if no collection with an owned piece has a file of the table.
    """
    owned_collection_ids = {piece_id.rpartition(":")[0] for piece_id in owner_by_piece_id}
    paths = [
        escape_glob(f"{collection.path}/{file.path}")
        for collection, manifest in collections
        if manifest.id in owned_collection_ids
        for file in manifest.tables[table]
    ]
    if not paths:
        return None
    rows = _read_parquet(spark, schema, paths)
    owner_rows = spark.createDataFrame(
        [(piece, owner.bookie_id, list(owner.owned_paths)) for piece, owner in owner_by_piece_id.items()],
        f"piece string, owner string, {DIRECTORIES_COLUMN} array<string>",
    )
    return rows.join(F.broadcast(owner_rows), "piece").withColumn("bookie_id", F.col("owner"))


def _read_parquet(spark: SparkSession, schema: pa.Schema, files: Sequence[str]) -> DataFrame:
    reader = spark.read.schema(spark_types(schema))
    with translate_file_system_errors(files[0]):
        return reader.option("parquet.page.verify-checksum.enabled", "true").parquet(*files)


def escape_glob(path: str) -> str:
    r"""Return a path with its special characters escaped, because Spark treats a path as a glob pattern.

    >>> print(escape_glob("/data/[a]"))
    /data/\[a\]
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def read_collected_tails(
    spark: SparkSession,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owner_by_piece_id: Mapping[str, PieceOwner],
) -> DataFrame:
    """Return journal entries after lastMark (``journal_tails``), each with the bookie that it belongs to."""
    rows = read_collected_rows(spark, "journal_tails", TAIL_SCHEMA, collections, owner_by_piece_id)
    if rows is None:
        return spark.createDataFrame([], spark_types(JOURNAL_TAILS))
    return rows.select(*JOURNAL_TAILS.names)


COLLECTION_COLUMN = column("collection", pa.string(), "the id of the collection")
LOG_SCHEMA = pa.schema([*ENTRY_LOGS, COLLECTION_COLUMN])
"""The table ``entry_logs`` of a collection."""

DISK_SCHEMA = pa.schema([*SIZES, COLLECTION_COLUMN])
"""The table ``disks`` of a collection."""

SPACE_TABLES = ("locations", "disks")
"""Tables of a collection that was made with --entry-logs."""


class DirectoryOwner(NamedTuple):
    """A directory of a collection, and the bookie that it belongs to.

    Attributes:
        collection: The id of the collection.
        path: The path of the directory on its host.
        name: The path of the directory in the audit.
        bookie_id: The bookie that the directory belongs to. None if it belongs to no bookie.
        logger: The number of the entry logger that wrote the directory's logs. None if it is unknown.
    """

    collection: str
    path: str
    name: str
    bookie_id: str | None
    logger: int | None


def rows_of_directories(
    spark: SparkSession,
    table: str,
    schema: pa.Schema,
    collections: Sequence[tuple[Collection, CollectionManifest]],
    owners: Iterable[DirectoryOwner],
) -> DataFrame:
    """Return a table's rows for the directories in ``owners``, and add ``bookie_id`` and ``logger``.

    The paths in the rows are replaced by those that the audit uses. Rows of other directories are left out.
    """
    files = [
        escape_glob(f"{collection.path}/{file.path}")
        for collection, manifest in collections
        for file in manifest.tables[table]
    ]
    rows = _read_parquet(spark, schema, files)
    owner_rows = spark.createDataFrame(
        list(owners), "collection string, directory string, named string, bookie_id string, logger int"
    )
    owned_rows = rows.join(F.broadcast(owner_rows), ["collection", "directory"])
    if "path" in schema.names:
        relative_path = F.substring("path", F.length("directory") + 1, F.length("path"))
        owned_rows = owned_rows.withColumn("path", F.concat("named", relative_path))
    return owned_rows.withColumn("directory", F.col("named"))
