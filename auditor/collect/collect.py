"""One collection: bookies' directories, read beside them, to be audited elsewhere.

    places          where directories lie, what their VERSION and lastMark say
    availability    every index, piece by piece
    journal tails   what the journals have after the marks that were seen
    entry logs      every log's header and ledgers map
    manifest        last: what was written, and how much of it

lastMark is looked at before the indexes: what was written later, and is not in the collection, is then known
to be newer than it. Without Spark the directories are read one after the other, in bounded memory; with Spark
the same parts are its tasks.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import dataset, fs

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.errors import DecodeError, UsageError
from auditor.model.columns import column
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, Silent
from auditor.model.states import BookieRead, EntryLogState, IndexState, TailState
from auditor.model.version import program_version
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.collections import place_rows
from auditor.sources.bookies.collections.collection import CollectedFile, Collection, CollectionManifest
from auditor.sources.bookies.collections.pieces import Piece, pieces_of
from auditor.sources.bookies.collections.writer import (
    AVAILABILITY,
    TAILS,
    batches_of,
    with_piece,
    write_table,
)
from auditor.sources.bookies.entry_logs import rows as entry_logs
from auditor.sources.bookies.journal.tails import read_tail
from auditor.sources.bookies.owners import attribute
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import IndexPart
from auditor.sources.bookies.places import DirectoryFound, PlaceFound, find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.tables.registry import COOKIES, StoreCookie

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = 64
"""Parts that a collection without Spark is read in: the steps of its progress."""

TOLD = 20
"""So many things that could not be read are told by name; all are counted, and all are in the tables."""

NOT_READ = {
    "availability": (IndexState.CUT, IndexState.UNREADABLE, IndexState.GAP, IndexState.DAMAGED),
    "entry_logs": (EntryLogState.UNREADABLE,),
}
"""The states that say so."""

VERSIONS = pa.schema([*COOKIES, column("path", pa.string(), "the directory")])
"""The table ``cookies`` of a collection: VERSIONs, ``bookie_id`` being the id that is in them."""

Files = tuple[CollectedFile, ...]


@dataclass(frozen=True)
class FinishedCollection:
    """A finished collection: where it is, what is in it, and what could not be read for it.

    ``unread`` counts; ``told`` are the first `TOLD` of them, each with its reason.
    """

    path: str
    manifest: CollectionManifest
    unread: int
    told: tuple[str, ...]


def collect(
    bookies: Sequence[str],
    out: str,
    options: AuditOptions | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> FinishedCollection:
    """Collect what stands in bookies' directories into the new directory ``out``.

    ``bookies`` are directories of bookies and inventories; ``out`` is a local path, or a URI that pyarrow
    knows, and Spark too where ``spark`` is given. Damage becomes rows, as in an audit. A collection that
    breaks off has no collection.json, and nobody takes it for a whole one.

    Raises:
        UsageError: a source that is no bookies' directory; an ``out`` that is there already, or that cannot
            be written.
    """
    made = _now()
    options, progress = options or AuditOptions(), progress or Silent()
    target, directories = check_target(bookies, out)
    progress.stage("directories")
    places = find_places(directories)
    if not any(found.has_current for place in places for found in place.directories):
        raise UsageError(f"--bookies {', '.join(bookies)}: no directory with current/ lies there")
    collection_id = uuid.uuid4().hex
    pieces = pieces_of(collection_id, places)
    tables: dict[str, Files] = dict(_place_tables(target, places, pieces))
    logs = sorted({found.path for place in places for found in place.directories if found.has_current})
    if spark is None:
        tables |= _read_here(target, pieces, _parts(pieces, PARTS, options), logs, progress)
    else:
        from auditor.collect.with_spark import read_in_spark

        wanted = spark.sparkContext.defaultParallelism * options.parts_per_core
        tables |= read_in_spark(spark, target, pieces, _parts(pieces, wanted, options), logs, progress)
    unread = chain(
        _unread_bookies(places), _unread_rows(target, tables), _unread_tails(target, tables, pieces)
    )
    told = tuple(islice(unread, TOLD))
    count = len(told) + sum(1 for _ in unread)
    manifest = CollectionManifest(collection_id, program_version(), made, _now(), tuple(bookies), tables)
    target.write_manifest(manifest)
    return FinishedCollection(target.path, manifest, count, told)


def check_target(bookies: Sequence[str], out: str) -> tuple[Collection, tuple[str, ...]]:
    """Where the collection goes, and what it is of; `UsageError` if that cannot be meant. Writes nothing.

    `collect` asks this first; ask it yourself before you start a session, which takes seconds.
    """
    target = Collection(out if "://" in out else str(Path(out).absolute()))
    sources = split_sources(bookies)
    if sources.rpc or sources.collections:
        other = "rpc:" if sources.rpc else sources.collections[0]
        raise UsageError(f"--bookies {other}: collect reads bookies' own directories")
    if target.files.get_file_info(target.base).type != fs.FileType.NotFound:
        raise UsageError(f"--out {target.path}: is there already; name a new directory")
    return target, sources.directories


def _place_tables(
    target: Collection, places: Sequence[PlaceFound], pieces: Sequence[Piece]
) -> Iterator[tuple[str, Files]]:
    """Where data lies: bounded by the number of directories, and written first."""
    of_directory = {(piece.place, each.path): piece.id for piece in pieces for each in piece.directories}
    directories = [
        row
        for number, place in enumerate(places)
        for row in place_rows.directory_rows(number, place, of_directory)
    ]
    versions = [_version_row(found) for place in places for found in place.directories if found.has_current]
    for name, schema, rows in (
        ("places", place_rows.PLACES, place_rows.place_rows(places)),
        ("directories", place_rows.DIRECTORIES, directories),
        ("cookies", VERSIONS, versions),
    ):
        yield name, write_table(target, name, schema, batches_of(rows, schema))


def _version_row(found: DirectoryFound) -> dict[str, Any]:
    cookie, damage = None, found.version_error
    if found.version is not None:
        try:
            cookie = cookie_codec.decode(found.version)
        except DecodeError as error:
            damage = str(error)
    row = StoreCookie(cookie.bookie_id if cookie else "", cookie, damage).row()
    return {**row, "bookie_id": row["bookie_host"], "path": found.path}


def _read_here(
    target: Collection,
    pieces: Sequence[Piece],
    parts: Sequence[IndexPart],
    logs: Sequence[str],
    progress: Progress,
) -> Mapping[str, Files]:
    by_id = {piece.id: piece for piece in pieces}

    def index() -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in read_part(part):
                yield with_piece(batch, by_id[part.bookie_id])
            progress.advance(1)

    def entry_log_rows() -> Iterator[dict[str, Any]]:
        for directory in logs:
            yield from entry_logs.read_logs(directory)
            progress.advance(1)

    progress.stage("availability", len(parts))
    availability = write_table(target, "availability", AVAILABILITY, index())
    progress.stage("journal_tails", len(pieces))
    tails = write_table(target, "journal_tails", TAILS, _tails(pieces, progress))
    progress.stage("entry_logs", len(logs))
    rows = batches_of(entry_log_rows(), entry_logs.SCHEMA)
    return {
        "availability": availability,
        "journal_tails": tails,
        "entry_logs": write_table(target, "entry_logs", entry_logs.SCHEMA, rows),
    }


def _tails(pieces: Sequence[Piece], progress: Progress) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        for batch in read_tail(piece.tail):
            yield with_piece(batch, piece, TAILS)
        progress.advance(1)


def _parts(pieces: Sequence[Piece], wanted: int, options: AuditOptions) -> list[IndexPart]:
    """What is to be read, in about ``wanted`` parts; a part's ``bookie_id`` is the id of its piece."""
    return index_parts.plan_parts(
        [(piece.id, piece.directories) for piece in pieces], wanted, threads=options.threads
    )


def _unread_bookies(places: Sequence[PlaceFound]) -> Iterator[str]:
    """Bookies that are not all here, as far as their own VERSIONs say, and what could not be listed."""
    alone = attribute(places, frozenset(), {}, None)
    ids = {row.cookie_bookie_id for row in alone.directories if row.cookie_bookie_id is not None}
    for bookie_id, bookie in attribute(places, ids, {}, None).bookies.items():
        if bookie.read != BookieRead.READ:
            yield f"{bookie_id}: {bookie.reason}"
    for place in places:
        yield from (f"{path}: {reason}" for path, reason in place.gaps)


def _unread_rows(target: Collection, tables: Mapping[str, Files]) -> Iterator[str]:
    """What the tables themselves say was not read; nearly all of them are skipped by their statistics."""
    for name, states in NOT_READ.items():
        paths = [f"{target.base}/{file.path}" for file in tables[name]]
        found = dataset.dataset(paths, filesystem=target.files, format="parquet")
        wanted = dataset.field("state").isin(states)
        for batch in found.to_batches(columns=["path", "reason"], filter=wanted):
            yield from (f"{row['path']}: {row['reason']}" for row in batch.to_pylist())


def _unread_tails(target: Collection, tables: Mapping[str, Files], pieces: Sequence[Piece]) -> Iterator[str]:
    """Journals that were not read whole; one that went down cleanly has nothing there but what is indexed."""
    unclean = pa.array([piece.id for piece in pieces if piece.journals.stopped is None], pa.string())
    paths = [f"{target.base}/{file.path}" for file in tables["journal_tails"]]
    found = dataset.dataset(paths, filesystem=target.files, format="parquet")
    wanted = (dataset.field("state") == TailState.GAP) & dataset.field("piece").isin(unclean)
    for batch in found.to_batches(columns=["bookie_id", "path", "reason"], filter=wanted):
        yield from (
            f"journal of {row['path'] or row['bookie_id']}: {row['reason']}" for row in batch.to_pylist()
        )


def _now() -> int:
    return int(time.time() * 1000)
