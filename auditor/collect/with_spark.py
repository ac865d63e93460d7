"""The large tables of a collection, read by Spark's tasks: for many bookies whose disks all tasks can see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.model.progress import Progress
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.collections.collection import CollectedFile, Collection
from auditor.sources.bookies.collections.pieces import Piece
from auditor.sources.bookies.collections.writer import AVAILABILITY, COMPRESSION, TAILS, batches_of
from auditor.sources.bookies.entry_logs import rows as entry_logs
from auditor.sources.bookies.journal import tails as journal_tails
from auditor.sources.bookies.journal.spark_source import JournalSource
from auditor.sources.bookies.parts import IndexPart
from auditor.sources.bookies.spark_source import IndexSource
from auditor.spark.source_rows import source_rows
from auditor.spark.task_progress import tasks_told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_in_spark(
    spark: SparkSession,
    target: Collection,
    pieces: Sequence[Piece],
    parts: Sequence[IndexPart],
    logs: Sequence[str],
    progress: Progress,
) -> Mapping[str, tuple[CollectedFile, ...]]:
    """Write ``availability`` of pieces, cut into ``parts``, their ``journal_tails``, and ``entry_logs``."""
    tables = {
        "availability": _availability(spark, pieces, parts),
        "journal_tails": _journal_tails(spark, pieces),
        "entry_logs": _entry_logs(spark, logs),
    }
    for name, table in tables.items():
        progress.stage(name)
        with tasks_told(spark, progress):
            table.write.option("compression", COMPRESSION).parquet(f"{target.path}/{name}")
    return {name: target.manifest_files(name) for name in tables}


def _availability(spark: SparkSession, pieces: Sequence[Piece], parts: Sequence[IndexPart]) -> DataFrame:
    rows = source_rows(spark, IndexSource({"parts": index_parts.to_json(parts)}))
    return _with_piece_names(spark, rows, pieces).select(*AVAILABILITY.names)


def _journal_tails(spark: SparkSession, pieces: Sequence[Piece]) -> DataFrame:
    tails = journal_tails.to_json([piece.tail for piece in pieces])
    return _with_piece_names(spark, source_rows(spark, JournalSource({"parts": tails})), pieces).select(
        *TAILS.names
    )


def _with_piece_names(spark: SparkSession, rows: DataFrame, pieces: Sequence[Piece]) -> DataFrame:
    """Rows that were read under the ids of pieces, with these in a column of their own."""
    from pyspark.sql import functions as F

    ids = spark.createDataFrame(
        [(piece.id, piece.bookie_id) for piece in pieces], "piece string, named string"
    )
    whose = rows.withColumnRenamed("bookie_id", "piece").join(F.broadcast(ids), "piece")
    return whose.withColumnRenamed("named", "bookie_id")


def _entry_logs(spark: SparkSession, logs: Sequence[str]) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for directory in batch.column("directory").to_pylist():
                yield from batches_of(entry_logs.read_logs(directory), entry_logs.SCHEMA)

    directories = spark.createDataFrame([(each,) for each in logs], "directory string")
    tasks = min(len(logs), spark.sparkContext.defaultParallelism * 4)
    return directories.repartition(tasks).mapInArrow(read, from_arrow_schema(entry_logs.SCHEMA))
