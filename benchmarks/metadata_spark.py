"""Cost of passing rows to Spark, and the best place to compute the expected entries of ledgers.

A data source of this program passes record batches to Spark. The usual data source passes tuples. This
program computes expected entries as arrays in Python. The rival computes them with a formula per ledger in
SQL. It must write numbers as hexadecimal text, because SQL has no other way to make bytes from numbers. It
does not fold entries into groups with a period, which these ledgers do not have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from auditor.codecs.availability.striping import EnsemblePositions, fold_positions
from auditor.codecs.byte_column import binary_array
from auditor.spark.session import build_session
from benchmarks.measure import Line, alternate

ROWS = 4_000_000
TASKS = 2
BATCH_ROWS = 65_536
LEDGERS = 300_000
ENSEMBLE, WRITE_QUORUM = 3, 2
MIN_LENGTH, LENGTHS = 10, 50
"""The last entry of ledger i is 10 + i mod 50."""

_SCHEMA = "ledger_id long, bookie int, groups binary"


def _group_expression(first: str, last: str, size: str, period: str) -> str:
    """Return SQL for the bytes of one group: two longs and two ints, big-endian."""
    long_format, int_format = (f"lpad(hex({{}}), {digits}, '0')" for digits in (16, 8))
    parts = (
        long_format.format(first),
        long_format.format(last),
        int_format.format(size),
        int_format.format(period),
    )
    return f"unhex(concat({', '.join(parts)}))"


# Bookie b of the ensemble has entry e if (e - o) mod E < Qw, where o = (b - Qw + 1) mod E. Its entries
# are the rest of a run at the start, then full runs, then a part of a run at the end.
_PHASE_SQL = f"pmod(b - {WRITE_QUORUM - 1}, {ENSEMBLE})"
_RUN_START = f"({WRITE_QUORUM} - pmod(-{_PHASE_SQL}, {ENSEMBLE}))"
_FULL_STRIPES = f"((last - {_PHASE_SQL} - {WRITE_QUORUM - 1}) div {ENSEMBLE})"
_TAIL_SQL = f"({_PHASE_SQL} + {_FULL_STRIPES} * {ENSEMBLE} + {ENSEMBLE})"
_BODY = _group_expression(
    _PHASE_SQL,
    f"{_PHASE_SQL} + {_FULL_STRIPES} * {ENSEMBLE}",
    f"{WRITE_QUORUM}",
    f"if({_FULL_STRIPES} > 0, {ENSEMBLE}, 0)",
)
_CLOSED_FORM = f"""concat(
    if({_PHASE_SQL} > 0 AND {_RUN_START} > 0, {_group_expression("0", "0", _RUN_START, "0")}, X''),
    {_BODY},
    if({_TAIL_SQL} <= last, {_group_expression(_TAIL_SQL, _TAIL_SQL, f"last - {_TAIL_SQL} + 1", "0")}, X'')
)"""


def lines() -> Iterator[Line]:
    """Yield lines for passing rows to Spark and for computing expected entries."""
    spark = build_session(f"local[{TASKS}]")
    try:
        yield _measure_handover(spark)
        yield _measure_expected(spark)
    finally:
        spark.stop()


def _measure_handover(spark: SparkSession) -> Line:
    for source in _sources():
        spark.dataSource.register(source)
    batches, tuples = (spark.read.format(name).load() for name in ("batches", "tuples"))
    if _digest(batches) != _digest(tuples):
        sys.exit("the two sources give other rows")
    own_seconds, rival = alternate(lambda: _run(batches), lambda: _run(tuples))
    return Line(
        "rows into Spark, batches",
        ROWS,
        "rows",
        own_seconds,
        "tuples",
        ROWS,
        rival,
        goal=3,
        note=f"{BATCH_ROWS:,} rows a batch, two tasks, nothing else done with them",
    )


def _measure_expected(spark: SparkSession) -> Line:
    ledgers = spark.range(LEDGERS, numPartitions=TASKS)
    expected_by_arrays = ledgers.mapInArrow(_expected, _SCHEMA)
    expected_by_sql = ledgers.selectExpr(
        "id AS ledger_id",
        f"{MIN_LENGTH} + id % {LENGTHS} AS last",
        f"explode(sequence(0, {ENSEMBLE - 1})) AS b",
    ).selectExpr("ledger_id", "CAST(b AS int) AS bookie", f"{_CLOSED_FORM} AS groups")
    if _digest(expected_by_arrays) != _digest(expected_by_sql):
        sys.exit("SQL expects other entries")
    own_seconds, rival = alternate(lambda: _run(expected_by_arrays), lambda: _run(expected_by_sql))
    rows = LEDGERS * ENSEMBLE
    return Line(
        "expected entries by arrays",
        rows,
        "replicas",
        own_seconds,
        "closed form in SQL",
        rows,
        rival,
        goal=1,
        most=True,
        note="ours folds them, and goes from Java to Python and back for it; an audit makes them where the "
        "metadata is decoded, and does not",
    )


def _digest(frame: DataFrame) -> Row | None:
    return frame.selectExpr("count(*)", "bit_xor(xxhash64(ledger_id, bookie, groups))").first()


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _expected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        ids = np.asarray(batch.column(0))
        count = len(ids)
        ledger = np.repeat(np.arange(count), ENSEMBLE)
        member_index = np.tile(np.arange(ENSEMBLE), count)
        zeros = np.zeros_like(ledger)
        replicas = fold_positions(
            EnsemblePositions(
                ledger=ledger,
                member=member_index,
                first=zeros,
                last=(MIN_LENGTH + ids % LENGTHS)[ledger],
                index=member_index,
                ensemble_size=zeros + ENSEMBLE,
                write_quorum=zeros + WRITE_QUORUM,
            )
        )
        yield pa.record_batch(
            [
                pa.array(ids[replicas.ledger]),
                pa.array(replicas.member.astype(np.int32)),
                binary_array(replicas.groups.tobytes(), replicas.groups.offsets * 24),
            ],
            names=["ledger_id", "bookie", "groups"],
        )


def _sources() -> list[type[DataSource]]:
    """Return the two data sources.

    They are defined in a function, so that Spark pickles the whole classes. Its workers cannot import this
    package.
    """
    rows_per_task, batch_rows, tasks, columns = ROWS // TASKS, BATCH_ROWS, TASKS, _SCHEMA

    def arrays(first: int, count: int) -> tuple[Any, Any, bytes]:
        ids = np.arange(first, first + count)
        return ids, (ids % 500).astype(np.int32), np.repeat(ids, 3).tobytes()

    class Tasks(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(task * rows_per_task) for task in range(tasks)]

        def pieces(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
            end = partition.value + rows_per_task
            for first in range(partition.value, end, batch_rows):
                yield first, min(batch_rows, end - first)

    class BatchTasks(Tasks):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            for first, count in self.pieces(partition):
                ids, bookies, groups = arrays(first, count)
                values = binary_array(groups, np.arange(count + 1) * 24)
                yield pa.record_batch(
                    [pa.array(ids), pa.array(bookies), values], names=["ledger_id", "bookie", "groups"]
                )

    class TupleTasks(Tasks):
        def read(self, partition: InputPartition) -> Iterator[tuple[int, int, bytes]]:
            for first, count in self.pieces(partition):
                ids, bookies, groups = arrays(first, count)
                group_bytes = [groups[start : start + 24] for start in range(0, len(groups), 24)]
                yield from zip(ids.tolist(), bookies.tolist(), group_bytes, strict=True)

    def source(title: str, reader_type: type[DataSourceReader]) -> type[DataSource]:
        class Source(DataSource):
            @classmethod
            def name(cls) -> str:
                return title

            def schema(self) -> str:
                return columns

            def reader(self, schema: StructType) -> DataSourceReader:
                return reader_type()

        return Source

    return [source("batches", BatchTasks), source("tuples", TupleTasks)]
