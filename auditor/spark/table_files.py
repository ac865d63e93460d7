"""The files of a landed table, as tasks read them that need no rows of Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet as pq

from auditor.spark.part_tables import PartTable, Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_LOTS_PER_CORE = 4


def table_files(table: Path) -> list[str]:
    """The files of a table below a local path, by name."""
    return [str(each) for each in sorted(table.glob("*.parquet"))]


def lots_of_files(spark: SparkSession, table: Path) -> list[list[str]]:
    """The files of a table, below a local path, in lots of about as many bytes: one lot is one task's."""
    files = sorted((Path(each).stat().st_size, each) for each in table_files(table))
    wanted = min(spark.sparkContext.defaultParallelism * _LOTS_PER_CORE, len(files))
    lots: list[list[str]] = [[] for _ in range(wanted)]
    sizes = [0] * len(lots)
    for size, file in reversed(files):
        least = sizes.index(min(sizes))
        lots[least].append(file)
        sizes[least] += size
    return lots


def from_files(spark: SparkSession, schema: StructType, table: Path, read: Reader) -> PartTable:
    """What ``read`` makes of the files of a table, below a local path: rows of ``schema``, one task a lot."""
    return PartTable(spark, schema, tuple((read, lot) for lot in lots_of_files(spark, table)))


def row_groups(
    files: Iterable[str], columns: Sequence[str], coded: Sequence[str], enough: int
) -> Iterator[pa.Table]:
    """Some columns, whole row groups at a time, about ``enough`` rows; ``coded`` columns come as codes."""
    for path in files:
        with pq.ParquetFile(path, read_dictionary=list(coded), pre_buffer=False) as file:
            groups: list[int] = []
            rows = 0
            for group in range(file.num_row_groups):
                groups.append(group)
                rows += file.metadata.row_group(group).num_rows
                if rows >= enough or group == file.num_row_groups - 1:
                    yield file.read_row_groups(groups, list(columns), use_threads=False)
                    groups, rows = [], 0
