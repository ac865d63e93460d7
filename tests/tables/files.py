"""Tables stored as in a run: Parquet files of several row groups each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.sources.bookies.availability import SCHEMA as AVAILABILITY
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.spark.execution import Execution
from auditor.spark.table_files import TableFiles
from auditor.tables.accounts import expected_replicas, index_replicas
from auditor.tables.index_counts import COUNT_SCHEMA, count_index_rows
from auditor.tables.replica_blocks import Evidence
from auditor.tables.unequal import UNEQUAL, BookieTrust, SourceFiles, find_unequal
from tests.tables.rows import Row

IN_DRIVER = Execution(cast("SparkSession", None))
"""Execution that needs no session, because the tables are small."""


def write_table_files(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, place: Path, files: int = 2, group: int = 3
) -> TableFiles:
    """Write rows as a table, distributed over its files in turn."""
    place.mkdir()
    for number in range(files):
        table = pa.Table.from_pylist([dict(row) for row in rows[number::files]], schema.remove_metadata())
        pq.write_table(table, place / f"part-{number}.parquet", row_group_size=group)
    return TableFiles.from_directory(fs.LocalFileSystem(), str(place))


def pairs_of(
    spark: SparkSession,
    metadata: Sequence[Row],
    indexes: Sequence[Row],
    answers: Sequence[Row] = (),
    words: BookieTrust | None = None,
) -> DataFrame:
    """Return the pairs that differ between rows of ledgers, availability and answers."""
    with TemporaryDirectory() as folder:
        tables = (
            (Evidence.EXPECTED, LEDGERS, metadata, expected_replicas),
            (Evidence.INDEX, AVAILABILITY, indexes, index_replicas),
            (Evidence.ANSWER, AVAILABILITY, answers, index_replicas),
        )
        accounts = [
            SourceFiles(account, write_table_files(rows, schema, Path(folder, account.name)), read)
            for account, schema, rows, read in tables
        ]
        rows = find_unequal(IN_DRIVER, accounts, words or BookieTrust())
    return spark.createDataFrame(rows, from_arrow_schema(UNEQUAL))


def counts_of(spark: SparkSession, indexes: Sequence[Row]) -> DataFrame:
    """Return how many rows of availability are of each kind."""
    with TemporaryDirectory() as folder:
        counts = count_index_rows(
            IN_DRIVER, write_table_files(indexes, AVAILABILITY, Path(folder, "availability"))
        )
    table = pa.Table.from_pylist([count._asdict() for count in counts], COUNT_SCHEMA)
    return spark.createDataFrame(table, from_arrow_schema(COUNT_SCHEMA))
