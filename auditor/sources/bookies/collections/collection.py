"""A collection: the state of some bookies' directories at one time, as Parquet, for an audit elsewhere.

    DIR/places/          one row per place: a directory or inventory entry with one bookie's directories
    DIR/directories/     each directory, with its VERSION and lastMark
    DIR/cookies/         the decoded VERSION files
    DIR/availability/    the entries in the indexes (auditor.sources.bookies.part_rows), with pieces
    DIR/journal_tails/   journal entries after lastMark (auditor.sources.bookies.journal.tails), with pieces
    DIR/entry_logs/      one row per entry log (auditor.sources.bookies.entry_logs.rows), and with
                         --entry-logs one row per ledger in the log
    DIR/locations/       with --entry-logs: the entry logs that the indexes point to, with pieces
    DIR/disks/           with --entry-logs: the size of all files except entry logs, and free bytes
    DIR/collection.json  written last: id, times, and the number of rows and bytes of every file

A piece is the index directories of one place whose VERSIONs name the same bookie
(`auditor.sources.bookies.collections.tables`). "With pieces" means that each row has the id of its piece.

Only files that collection.json lists count. If a listed file is missing, or has another number of bytes or
rows, the collection is not read at all. A truncated table would look like lost entries.

`auditor.sources.bookies.owners` attributes a directory to a bookie once the cluster's ids are known. For this
attribution a collection keeps the path of each directory, the bytes of its VERSION, and its lastMark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from auditor.codecs.bookie.last_mark import LastMark
from auditor.errors import UnreadError
from auditor.model.columns import make_schema
from auditor.model.json_shape import parse_json
from auditor.sources.bookies.mark_times import JournalTime
from auditor.sources.bookies.places import LAST_MARK, DeclaredRole, FoundDirectory, FoundPlace
from auditor.sources.file_systems import require_file, run_files

MANIFEST = "collection.json"
MANIFEST_SCHEMA = "bookkeeper-auditor/collection/1"
REQUIRED_TABLES = ("places", "directories", "cookies", "availability", "entry_logs")
OPTIONAL_TABLES = ("journal_tails", "locations", "disks")
"""Tables that older collections lack, or that the user did not ask for."""


MAX_MANIFEST_BYTES = 64 << 20
"""Largest size of collection.json, in bytes."""

MAX_GROUP_ROWS, MAX_DIRECTORY_ROWS = 1 << 23, 500_000
"""Largest numbers of rows in a row group, and in a table that is kept in memory.

A few bytes of Parquet can stand for billions of rows.
"""

_BATCH_ROWS = 64
_FOOTER_READERS = 8
"""Number of Parquet footers that are read at once. On an object store each takes one or two requests."""


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """A Parquet file of a collection: its path in the collection, and its numbers of rows and bytes."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CollectionManifest:
    """The contents of collection.json, the list of a collection's files. Times are in ms since 1970.

    Attributes:
        version: The version of the program that made the collection.
        made: The time when the program inspected the first directory.
        finished: The time when the collection was complete.
        sources: The values of ``--bookies``, as the user passed them.
        tables: The Parquet files of each table, by table name.
    """

    id: str
    version: str
    made: int
    finished: int
    sources: tuple[str, ...]
    tables: Mapping[str, tuple[CollectedFile, ...]]

    def rows(self, table: str) -> int:
        """Return the number of rows of a table.

        >>> files = (CollectedFile("cookies/0.parquet", rows=3, bytes=900),)
        >>> CollectionManifest("c1", "0.1", 0, 0, ("/mnt/bookies",), {"cookies": files}).rows("cookies")
        3
        """
        return sum(file.rows for file in self.tables[table])


class Collection:
    """The location of a collection: a local path, or the URI of a file system that pyarrow supports."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or path
        self.files, self.base_path = run_files(path)

    def manifest(self) -> CollectionManifest:
        """Return the contents of collection.json. Raises `UnreadError` if it is missing or damaged."""
        try:
            require_file(self.files, f"{self.base_path}/{MANIFEST}")
            with self.files.open_input_stream(f"{self.base_path}/{MANIFEST}") as stream:
                json_text = stream.read(MAX_MANIFEST_BYTES)
        except FileNotFoundError as error:
            raise UnreadError(self.path, f"was not finished: it has no {MANIFEST}") from error
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise UnreadError(self.path, f"{MANIFEST}: {error}") from error
        try:
            return _parse_manifest(parse_json(json_text))
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadError(self.path, f"{MANIFEST} is damaged: {error or type(error).__name__}") from error

    def write_manifest(self, manifest: CollectionManifest) -> None:
        """Write ``manifest`` to collection.json. The write is atomic on a local file system."""
        tables = {
            name: {"rows": manifest.rows(name), "files": [asdict(file) for file in files]}
            for name, files in manifest.tables.items()
        }
        json_text = (
            json.dumps({"schema": MANIFEST_SCHEMA, **asdict(manifest), "tables": tables}, indent=2) + "\n"
        )
        with self.files.open_output_stream(f"{self.base_path}/{MANIFEST}.part") as stream:
            stream.write(json_text.encode())
        self.files.move(f"{self.base_path}/{MANIFEST}.part", f"{self.base_path}/{MANIFEST}")

    def verify(self, manifest: CollectionManifest) -> None:
        """Compare the size of every file, and the row count in its footer, with the manifest. Read no data.

        Raises:
            UnreadError: a file is missing or truncated. The error names the first such file.
        """
        listed_files = [file for files in manifest.tables.values() for file in files]
        file_infos = self.files.get_file_info([f"{self.base_path}/{file.path}" for file in listed_files])
        for file, file_info in zip(listed_files, file_infos, strict=True):
            if file_info.type != fs.FileType.File:
                raise UnreadError(self.path, f"{file.path} is missing")
            if file_info.size != file.bytes:
                reason = f"{file.path} has {file_info.size} bytes; {MANIFEST} lists {file.bytes}"
                raise UnreadError(self.path, reason)
        with ThreadPoolExecutor(_FOOTER_READERS) as pool:
            for file, row_count in zip(listed_files, pool.map(self.count_rows, listed_files), strict=True):
                if row_count != file.rows:
                    reason = f"{file.path} has {row_count} rows; {MANIFEST} lists {file.rows}"
                    raise UnreadError(self.path, reason)

    def count_rows(self, file: CollectedFile) -> int:
        """Return the row count in a file's footer. Raises `UnreadError` if the file cannot be read."""
        try:
            require_file(self.files, f"{self.base_path}/{file.path}")
            with self.files.open_input_file(f"{self.base_path}/{file.path}") as stream:
                footer = pq.read_metadata(stream)
                row_groups = range(footer.num_row_groups)
                max_rows = max((footer.row_group(row_group).num_rows for row_group in row_groups), default=0)
                if max_rows > MAX_GROUP_ROWS:
                    raise OSError(
                        f"a row group has {max_rows:,} rows; at most {MAX_GROUP_ROWS:,} can be read"
                    )
                return int(footer.num_rows)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise UnreadError(self.path, f"{file.path} cannot be read: {error}") from error

    def manifest_files(self, table: str) -> tuple[CollectedFile, ...]:
        """Return the existing Parquet files of a table, with their rows and bytes, for a new manifest."""
        parquet_files = [
            CollectedFile(f"{table}/{file_info.base_name}", 0, file_info.size)
            for file_info in self.files.get_file_info(fs.FileSelector(f"{self.base_path}/{table}"))
            if file_info.base_name.endswith(".parquet")
        ]
        return tuple(
            CollectedFile(file.path, self.count_rows(file), file.bytes)
            for file in sorted(parquet_files, key=lambda file: file.path)
        )

    def read_rows(self, table: str, manifest: CollectionManifest | None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a small table. Raises `UnreadError` if the table is too large or cannot be read.

        If ``manifest`` is given, read the files that it lists. If it is None, read all files of the table.
        """
        remaining_rows = MAX_DIRECTORY_ROWS
        try:
            for file in self.manifest_files(table) if manifest is None else manifest.tables[table]:
                remaining_rows -= self.count_rows(file)
                if remaining_rows < 0:
                    raise UnreadError(self.path, f"{table} has more than {MAX_DIRECTORY_ROWS:,} rows")
                require_file(self.files, f"{self.base_path}/{file.path}")
                with self.files.open_input_file(f"{self.base_path}/{file.path}") as stream:
                    for batch in pq.ParquetFile(stream).iter_batches(_BATCH_ROWS):
                        yield from batch.to_pylist()
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise UnreadError(self.path, f"{table} cannot be read: {error}") from error


def _parse_manifest(manifest_value: Any) -> CollectionManifest:
    """Convert the JSON value of collection.json. Raise ValueError, KeyError or TypeError for a wrong form."""
    schema = manifest_value["schema"]
    if schema != MANIFEST_SCHEMA:
        raise ValueError(f"schema {schema!r}; this version reads {MANIFEST_SCHEMA!r}")
    table_names = [*REQUIRED_TABLES, *(name for name in OPTIONAL_TABLES if name in manifest_value["tables"])]
    tables = {name: _parse_files(name, manifest_value["tables"][name]) for name in table_names}
    text_fields = (manifest_value["id"], manifest_value["version"], *manifest_value["sources"])
    if not all(isinstance(text_field, str) for text_field in text_fields) or not manifest_value["id"]:
        raise ValueError("id, version and sources must be text")
    return CollectionManifest(
        manifest_value["id"],
        manifest_value["version"],
        _parse_count(manifest_value["made"]),
        _parse_count(manifest_value["finished"]),
        tuple(manifest_value["sources"]),
        tables,
    )


def _parse_files(name: str, table: Any) -> tuple[CollectedFile, ...]:
    files = tuple(
        CollectedFile(file_entry["path"], _parse_count(file_entry["rows"]), _parse_count(file_entry["bytes"]))
        for file_entry in table["files"]
    )
    for file in files:
        table_name, _, file_name = file.path.partition("/")
        if table_name != name or "/" in file_name or not file_name.endswith(".parquet"):
            raise ValueError(f"{file.path!r} is not a file of the table {name}")
    if sum(file.rows for file in files) != table["rows"]:
        raise ValueError(
            f"table {name}: {table['rows']} rows listed, but its files have a different number of rows"
        )
    return files


def _parse_count(count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"{count!r} is not a valid count or time")
    return count


PLACES_SCHEMA = make_schema(
    (
        "place",
        pa.int32(),
        "number of the place in this collection; a place is one bookie's directory or inventory entry",
    ),
    ("name", pa.string(), "name of the bookie's directory (_ instead of :), or the id in an inventory"),
    ("path", pa.string(), "path of the bookie's directory, or of the inventory that lists the bookie"),
    ("names_bookie", pa.bool_(), "whether the name is a bookie's id in its original form"),
    (
        "gaps",
        pa.list_(pa.struct([("path", pa.string()), ("reason", pa.string())])),
        "paths below the bookie's directories that could not be listed, with reasons",
    ),
)
DIRECTORIES_SCHEMA = make_schema(
    ("place", pa.int32(), "number of the place (row in the table places) that contains the directory"),
    ("path", pa.string(), "path of the directory"),
    ("inside", pa.list_(pa.string()), "parts of the path, beginning with the name of the bookie's directory"),
    ("has_current", pa.bool_(), "whether the directory has a subdirectory current, as bookies make it"),
    ("version", pa.binary(), "content of the directory's VERSION file"),
    ("version_error", pa.string(), "reason why the directory's VERSION file could not be read"),
    ("marked_ms", pa.int64(), "time when the directory's newest lastMark was written, in ms"),
    ("mark_file_id", pa.int64(), "journal file id in the directory's greatest lastMark; null: no lastMark"),
    ("mark_offset", pa.int64(), "offset in the journal file of mark_file_id"),
    (
        "marks",
        pa.list_(pa.struct([("name", pa.string()), ("file_id", pa.int64()), ("offset", pa.int64())])),
        "all lastMark files of the directory",
    ),
    ("unclean", pa.bool_(), "whether the directory contains a DIRTY file; null: unknown"),
    ("has_rocksdb", pa.bool_(), "whether the directory has an index of DbLedgerStorage"),
    ("version_absent", pa.bool_(), "whether the directory certainly has no VERSION file"),
    ("empty", pa.bool_(), "whether VERSION is absent, and current is empty or absent; null: unknown"),
    (
        "old_data",
        pa.bool_(),
        "whether there is no subdirectory current, but a file of a layout version before 3",
    ),
    (
        "journal_times",
        pa.list_(pa.struct([("file_id", pa.int64()), ("modified", pa.int64())])),
        "journal files of the directory, with the time of the last write to each, in ms",
    ),
    ("index_alone", pa.bool_(), "whether VERSION exists, but no lastMark, journal, entry log or database"),
    (
        "index_written_ms",
        pa.int64(),
        "time of the last write to the database locations, in ms; null: unknown",
    ),
    (
        "declared",
        pa.struct(
            [("path", pa.string()), ("role", pa.string()), ("position", pa.int32()), ("of", pa.int32())]
        ),
        "role of the directory in the inventory; null: there is no inventory",
    ),
    ("piece", pa.string(), "id of the group of directories with this index (piece); null: no index was read"),
)
_REQUIRED_FIELDS = ("path", "has_current", "version", "version_error", "marked_ms", "has_rocksdb")
# Older collections lack these fields; the values here mean unknown.
_OPTIONAL_DEFAULTS: dict[str, Any] = {
    "version_absent": False,
    "empty": None,
    "old_data": False,
    "unclean": None,
    "index_alone": False,
    "index_written_ms": None,
}
_DIRECTORY_FIELDS = (*_REQUIRED_FIELDS, *_OPTIONAL_DEFAULTS)


def place_rows(places: Sequence[FoundPlace]) -> list[dict[str, Any]]:
    """Return a row of `PLACES_SCHEMA` per place (one bookie's directories), numbered as in ``places``."""
    return [
        {
            "place": place_number,
            "name": place.name,
            "path": place.path,
            "names_bookie": place.names_bookie,
            "gaps": [{"path": path, "reason": reason} for path, reason in place.gaps],
        }
        for place_number, place in enumerate(places)
    ]


def directory_rows(
    place_number: int, place: FoundPlace, piece_id_by_path: dict[tuple[int, str], str]
) -> list[dict[str, Any]]:
    """Return one row of `DIRECTORIES_SCHEMA` for each directory of a place.

    Args:
        place_number: The number of the place in the collection.
        place: The place: a directory or inventory entry with the directories of one bookie.
        piece_id_by_path: Piece ids by (place number, path). A piece has index directories of one bookie.
    """
    rows = []
    for directory in place.directories:
        greatest_mark = max((mark for _, mark in directory.marks), default=None)
        rows.append(
            {name: getattr(directory, name) for name in _DIRECTORY_FIELDS}
            | {
                "place": place_number,
                "inside": list(directory.parts_in_place),
                "mark_file_id": greatest_mark.file_id if greatest_mark else None,
                "mark_offset": greatest_mark.offset if greatest_mark else None,
                "journal_times": [file._asdict() for file in directory.journal_times],
                "marks": [{"name": name, **mark._asdict()} for name, mark in directory.marks],
                "declared": asdict(directory.declared_role) if directory.declared_role else None,
                "piece": piece_id_by_path.get((place_number, directory.path)),
            }
        )
    return rows


def parse_places(places: Iterable[dict[str, Any]], directories: Iterable[dict[str, Any]]) -> list[FoundPlace]:
    """Return the places (one bookie's directories each) that the rows describe, with their directories.

    Raises:
        KeyError, TypeError: the rows are not from `place_rows` and `directory_rows`.
    """
    directories_by_place: dict[int, list[FoundDirectory]] = {}
    for row in directories:
        directories_by_place.setdefault(row["place"], []).append(
            FoundDirectory(
                **{name: row[name] for name in _REQUIRED_FIELDS},
                **{name: row.get(name, default_value) for name, default_value in _OPTIONAL_DEFAULTS.items()},
                parts_in_place=tuple(row["inside"]),
                declared_role=DeclaredRole(**row["declared"]) if row["declared"] else None,
                marks=_parse_marks(row),
                journal_times=tuple(JournalTime(**file) for file in row.get("journal_times") or ()),
            )
        )
    return [
        FoundPlace(
            row["name"],
            row["path"],
            row["names_bookie"],
            tuple(directories_by_place.get(row["place"], ())),
            tuple((gap["path"], gap["reason"]) for gap in row["gaps"]),
        )
        for row in sorted(places, key=lambda row: row["place"])
    ]


def _parse_marks(row: dict[str, Any]) -> tuple[tuple[str, LastMark], ...]:
    """Return the lastMark positions in the row of a directory, each with the name of its lastMark file."""
    # Older collections have only the greatest mark. It gets the file name of a bookie with one journal.
    if (marks := row.get("marks")) is not None:
        return tuple((mark["name"], LastMark(mark["file_id"], mark["offset"])) for mark in marks)
    if row.get("mark_file_id") is None:
        return ()
    return ((LAST_MARK, LastMark(row["mark_file_id"], row["mark_offset"])),)
