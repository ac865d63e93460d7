"""One collection: bookies' directories, read beside them, to be audited elsewhere.

    places          where directories lie, what their VERSION and lastMark say
    availability    every index, piece by piece
    journal tails   what the journals have after the marks that were seen
    entry logs      every log's header and ledgers map; with --entry-logs whose each byte is, and
                    where the indexes point (auditor.collect.tables)
    manifest        last: what was written, and how much of it

lastMark is looked at before the indexes: what was written later, and is not in the collection, is then known
to be newer than it. Without Spark the directories are read one after the other, in bounded memory; with Spark
the same parts are its tasks.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, fs

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.collect.tables import (
    CollectedTable,
    CollectionInput,
    collected_tables,
    directories_of,
    write_in_spark,
)
from auditor.errors import DecodeError, UsageError
from auditor.model.columns import column
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, Silent
from auditor.model.run_facts import program_version
from auditor.model.states import ELSEWHERE, BookieRead, EntryLogState, IndexState, LogFileKind, TailState
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.collections.collection import (
    DIRECTORIES,
    PLACES,
    CollectedFile,
    Collection,
    CollectionManifest,
    directory_rows,
    place_rows,
)
from auditor.sources.bookies.collections.tables import Piece, batches_of, pieces_of, write_table
from auditor.sources.bookies.owners import attribute
from auditor.sources.bookies.parts import IndexPart
from auditor.sources.bookies.places import DirectoryFound, PlaceFound, find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.clock import now_ms
from auditor.sources.file_systems import run_files
from auditor.spark.session import require_classic
from auditor.spark.tasks import require_shared
from auditor.spark.types import SparkSession
from auditor.tables.registry import COOKIES, StoreCookie

PARTS = 64
"""Parts that a collection without Spark is read in: the steps of its progress."""

TOLD = 20
"""So many things that could not be read are named; all are counted, and all are in the tables."""

NOT_READ = {
    "availability": (
        IndexState.CUT,
        IndexState.UNREADABLE,
        *ELSEWHERE,
        IndexState.GAP,
        IndexState.DAMAGED,
    ),
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
            be written; a session of Spark Connect.
    """
    made = now_ms()
    options, progress = options or AuditOptions(), progress or Silent()
    if spark is not None:
        require_classic(spark)
    target, directories = check_target(bookies, out)
    progress.stage("directories")
    places = find_places(directories)
    if not any(found.has_current for place in places for found in place.directories):
        raise UsageError(f"--bookies {', '.join(bookies)}: no directory with current/ lies there")
    collection_id = uuid.uuid4().hex
    pieces = pieces_of(collection_id, places)
    tables: dict[str, Files] = dict(_place_tables(target, places, pieces))
    wanted = PARTS if spark is None else spark.sparkContext.defaultParallelism * options.parts_per_core
    to_read = CollectionInput(
        collection_id, pieces, _parts(pieces, wanted, options), directories_of(places), options.entry_logs
    )
    if spark is not None:
        require_shared(spark, *run_files(target.path))
    for table in collected_tables(to_read, 1 if spark is None else wanted):
        tables[table.name] = (
            _write_here(target, table, progress)
            if spark is None
            else write_in_spark(spark, target, table, progress)
        )
    unread = chain(
        _unread_bookies(places), _unread_rows(target, tables), _unread_tails(target, tables, pieces)
    )
    told = tuple(islice(unread, TOLD))
    count = len(told) + sum(1 for _ in unread)
    manifest = CollectionManifest(collection_id, program_version(), made, now_ms(), tuple(bookies), tables)
    target.write_manifest(manifest)
    return FinishedCollection(target.path, manifest, count, told)


def check_target(bookies: Sequence[str], out: str) -> tuple[Collection, tuple[str, ...]]:
    """Where the collection goes, and what it is of; `UsageError` if that is invalid. Writes nothing.

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
        row for number, place in enumerate(places) for row in directory_rows(number, place, of_directory)
    ]
    versions = [_version_row(found) for place in places for found in place.directories if found.has_current]
    for name, schema, rows in (
        ("places", PLACES, place_rows(places)),
        ("directories", DIRECTORIES, directories),
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


def _write_here(target: Collection, table: CollectedTable, progress: Progress) -> Files:
    progress.stage(table.name, len(table.parts))

    def batches() -> Iterator[pa.RecordBatch]:
        for part in table.parts:
            yield from table.read(part)
            progress.advance(1)

    return write_table(target, table.name, table.columns, batches())


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
        if name == "entry_logs":
            # What a compaction did not finish need not be an entry log yet.
            wanted &= dataset.field("kind").is_null() | (dataset.field("kind") == LogFileKind.LOG)
        for batch in found.to_batches(columns=["path", "reason"], filter=wanted):
            yield from (f"{row['path']}: {row['reason']}" for row in batch.to_pylist())


def _unread_tails(target: Collection, tables: Mapping[str, Files], pieces: Sequence[Piece]) -> Iterator[str]:
    """Journals that are incomplete; one that went down cleanly has nothing there but what is indexed."""
    unclean = pa.array([piece.id for piece in pieces if piece.journals.stopped is None], pa.string())
    paths = [f"{target.base}/{file.path}" for file in tables["journal_tails"]]
    found = dataset.dataset(paths, filesystem=target.files, format="parquet")
    wanted = (dataset.field("state") != TailState.OK) & dataset.field("piece").isin(unclean)
    for batch in found.to_batches(columns=["bookie_id", "path", "reason"], filter=wanted):
        yield from (
            f"journal of {row['path'] or row['bookie_id']}: {row['reason']}" for row in batch.to_pylist()
        )
