"""The large tables of a collection, read by Spark's tasks: for many bookies whose disks all tasks can see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from auditor.collect.input import CollectionInput
from auditor.collect.space_tables import log_parts
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
)
from auditor.sources.bookies.entry_logs import locations as located
from auditor.sources.bookies.entry_logs import rows as entry_logs
from auditor.sources.bookies.entry_logs.parts import ENTRY_LOGS, read_logs_of, slice_parts
from auditor.sources.bookies.entry_logs.rows import SIZES, read_sizes
from auditor.sources.bookies.journal import tails as journal_tails
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.file_systems import run_files
from auditor.spark import functions as F
from auditor.spark.part_tables import PartTable
from auditor.spark.tasks import file_system_errors, report_tasks, require_shared
from auditor.spark.types import DataFrame, SparkSession


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
