"""Cost of passing rows to Spark, and the best place to compute the expected entries of ledgers.

A data source of this program passes record batches to Spark. The usual data source passes tuples. This
program computes expected entries as arrays in Python. The rival computes the same entries in SQL, with a
formula per ledger. The SQL writes numbers as hexadecimal text, because it has no other way to make bytes
from numbers. It cannot make groups with a period, but the ledgers of this benchmark have none.
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

from auditor.codecs.availability.striping import EnsemblePositions, fold_ensemble_positions
from auditor.codecs.byte_column import binary_array
from auditor.spark.session import build_session
from benchmarks.measure import Line, alternate

ROW_COUNT = 4_000_000
TASK_COUNT = 2
BATCH_ROWS = 65_536
LEDGERS = 300_000
ENSEMBLE, WRITE_QUORUM = 3, 2
MIN_LEDGER_LENGTH, LENGTH_COUNT = 10, 50
"""The last entry of ledger i is 10 + i mod 50."""

_ROW_SCHEMA = "ledger_id long, bookie int, groups binary"


def _group_expression(first_entry: str, last_entry: str, group_size: str, group_period: str) -> str:
    """Return SQL for the bytes of one BP-34 group of entries: two longs and two ints, big-endian."""
    long_format, int_format = (f"lpad(hex({{}}), {hex_digits}, '0')" for hex_digits in (16, 8))
    parts = (
        long_format.format(first_entry),
        long_format.format(last_entry),
        int_format.format(group_size),
        int_format.format(group_period),
    )
    return f"unhex(concat({', '.join(parts)}))"


# Bookie b of the ensemble has entry e if (e - o) mod E < Qw, where o = (b - Qw + 1) mod E. Its entries
# are the rest of a run at the start, then full runs, then a part of a run at the end.
_STRIPE_OFFSET_SQL = f"pmod(b - {WRITE_QUORUM - 1}, {ENSEMBLE})"
_RUN_START_SQL = f"({WRITE_QUORUM} - pmod(-{_STRIPE_OFFSET_SQL}, {ENSEMBLE}))"
_FULL_STRIPE_COUNT_SQL = f"((last - {_STRIPE_OFFSET_SQL} - {WRITE_QUORUM - 1}) div {ENSEMBLE})"
_TAIL_START_SQL = f"({_STRIPE_OFFSET_SQL} + {_FULL_STRIPE_COUNT_SQL} * {ENSEMBLE} + {ENSEMBLE})"
_GROUPS_SQL = _group_expression(
    _STRIPE_OFFSET_SQL,
    f"{_STRIPE_OFFSET_SQL} + {_FULL_STRIPE_COUNT_SQL} * {ENSEMBLE}",
    f"{WRITE_QUORUM}",
    f"if({_FULL_STRIPE_COUNT_SQL} > 0, {ENSEMBLE}, 0)",
)
_FIRST_GROUP_SQL = _group_expression("0", "0", _RUN_START_SQL, "0")
_LAST_GROUP_SQL = _group_expression(_TAIL_START_SQL, _TAIL_START_SQL, f"last - {_TAIL_START_SQL} + 1", "0")
_EXPECTED_ENTRIES_SQL = f"""concat(
    if({_STRIPE_OFFSET_SQL} > 0 AND {_RUN_START_SQL} > 0, {_FIRST_GROUP_SQL}, X''),
    {_GROUPS_SQL},
    if({_TAIL_START_SQL} <= last, {_LAST_GROUP_SQL}, X'')
)"""


def lines() -> Iterator[Line]:
    """Yield lines for passing rows to Spark and for computing expected entries."""
    spark = build_session(f"local[{TASK_COUNT}]")
    try:
        yield _measure_batch_transfer(spark)
        yield _measure_expected(spark)
    finally:
        spark.stop()


def _measure_batch_transfer(spark: SparkSession) -> Line:
    for source in _make_sources():
        spark.dataSource.register(source)
    batches, tuples = (spark.read.format(name).load() for name in ("batches", "tuples"))
    if _digest_rows(batches) != _digest_rows(tuples):
        sys.exit("the two sources give other rows")
    own_seconds, rival = alternate(lambda: _run_query(batches), lambda: _run_query(tuples))
    return Line(
        "rows into Spark, batches",
        ROW_COUNT,
        "rows",
        own_seconds,
        "tuples",
        ROW_COUNT,
        rival,
        goal=3,
        note=f"{BATCH_ROWS:,} rows a batch, two tasks, nothing else done with them",
    )


def _measure_expected(spark: SparkSession) -> Line:
    ledgers = spark.range(LEDGERS, numPartitions=TASK_COUNT)
    expected_by_arrays = ledgers.mapInArrow(_make_expected_rows, _ROW_SCHEMA)
    expected_by_sql = ledgers.selectExpr(
        "id AS ledger_id",
        f"{MIN_LEDGER_LENGTH} + id % {LENGTH_COUNT} AS last",
        f"explode(sequence(0, {ENSEMBLE - 1})) AS b",
    ).selectExpr("ledger_id", "CAST(b AS int) AS bookie", f"{_EXPECTED_ENTRIES_SQL} AS groups")
    if _digest_rows(expected_by_arrays) != _digest_rows(expected_by_sql):
        sys.exit("SQL expects other entries")
    own_seconds, rival = alternate(
        lambda: _run_query(expected_by_arrays), lambda: _run_query(expected_by_sql)
    )
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


def _digest_rows(frame: DataFrame) -> Row | None:
    return frame.selectExpr("count(*)", "bit_xor(xxhash64(ledger_id, bookie, groups))").first()


def _run_query(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _make_expected_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        ledger_ids = np.asarray(batch.column(0))
        ledger_count = len(ledger_ids)
        ledger_rows = np.repeat(np.arange(ledger_count), ENSEMBLE)
        member_index = np.tile(np.arange(ENSEMBLE), ledger_count)
        zero_column = np.zeros_like(ledger_rows)
        replicas = fold_ensemble_positions(
            EnsemblePositions(
                ledger=ledger_rows,
                member=member_index,
                first=zero_column,
                last=(MIN_LEDGER_LENGTH + ledger_ids % LENGTH_COUNT)[ledger_rows],
                index=member_index,
                ensemble_size=zero_column + ENSEMBLE,
                write_quorum=zero_column + WRITE_QUORUM,
            )
        )
        yield pa.record_batch(
            [
                pa.array(ledger_ids[replicas.ledger]),
                pa.array(replicas.member.astype(np.int32)),
                binary_array(replicas.groups.tobytes(), replicas.groups.offsets * 24),
            ],
            names=["ledger_id", "bookie", "groups"],
        )


def _make_sources() -> list[type[DataSource]]:
    """Return the two data sources.

    They are defined in a function, so that Spark pickles the whole classes. Its workers cannot import this
    package.
    """
    rows_per_task, batch_rows, tasks, columns = ROW_COUNT // TASK_COUNT, BATCH_ROWS, TASK_COUNT, _ROW_SCHEMA

    def make_arrays(first_entry: int, count: int) -> tuple[Any, Any, bytes]:
        ids = np.arange(first_entry, first_entry + count)
        return ids, (ids % 500).astype(np.int32), np.repeat(ids, 3).tobytes()

    class TaskReader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(task * rows_per_task) for task in range(tasks)]

        def batch_ranges(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
            end = partition.value + rows_per_task
            for first_entry in range(partition.value, end, batch_rows):
                yield first_entry, min(batch_rows, end - first_entry)

    class BatchTaskReader(TaskReader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            for first_entry, count in self.batch_ranges(partition):
                ids, bookies, groups = make_arrays(first_entry, count)
                values = binary_array(groups, np.arange(count + 1) * 24)
                yield pa.record_batch(
                    [pa.array(ids), pa.array(bookies), values], names=["ledger_id", "bookie", "groups"]
                )

    class TupleTaskReader(TaskReader):
        def read(self, partition: InputPartition) -> Iterator[tuple[int, int, bytes]]:
            for first_entry, count in self.batch_ranges(partition):
                ids, bookies, groups = make_arrays(first_entry, count)
                group_bytes = [groups[start : start + 24] for start in range(0, len(groups), 24)]
                yield from zip(ids.tolist(), bookies.tolist(), group_bytes, strict=True)

    def source(source_name: str, reader_type: type[DataSourceReader]) -> type[DataSource]:
        class Source(DataSource):
            @classmethod
            def name(cls) -> str:
                return source_name

            def schema(self) -> str:
                return columns

            def reader(self, schema: StructType) -> DataSourceReader:
                return reader_type()

        return Source

    return [source("batches", BatchTaskReader), source("tuples", TupleTaskReader)]
