"""An experiment that was rejected: reuse the join of an earlier run, against a join of all rows.

Whether a pair of ledger and bookie is unequal follows from the rows that were read for its ledger. The rows
of both runs are therefore summed up as one digest per block of 64 neighbouring ids. Only blocks with
different digests are joined. The earlier run's unequal pairs are reused for the other blocks. The newest
hundredth of the ledgers has changed, all in a few blocks, which is the best case. Both ways must find the
same pairs.

``BKAUDIT_INCREMENTAL_LEDGERS`` sets the number of ledgers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.metadata.spark_source import LedgerSource
from auditor.spark.batches import source_rows
from auditor.spark.query_plans import QueryPlans
from auditor.spark.session import build_session
from benchmarks.cluster import Cluster
from benchmarks.cluster_disks import holdings
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import batches
from benchmarks.measure import Line, alternate
from benchmarks.spark_join import unequal_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LEDGERS = int(os.environ.get("BKAUDIT_INCREMENTAL_LEDGERS", "200000"))
TARGET = 10
BLOCK_BITS = 6
_HALF = 32
_SUMS = ("rows", "high", "low")

Sides = tuple["DataFrame", "DataFrame"]
"""The tables ledgers and availability of one run."""


def lines() -> Iterator[Line]:
    """Yield one line: find the changed blocks and join them, against a join of all rows."""
    spark = build_session("local[2]")
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        previous_sides, current_sides = _tables(spark, folder)
        QueryPlans(spark).fit(1 << 40, 3 * LEDGERS)
        parts: dict[str, float] = {}

        def timed(name: str, rows: DataFrame) -> DataFrame:
            begun = time.perf_counter()
            rows.write.mode("overwrite").parquet(f"{folder}/{name}")
            took = time.perf_counter() - begun
            parts[name] = min(took, parts.get(name, took))
            return spark.read.parquet(f"{folder}/{name}")

        earlier = timed("earlier", _joined(previous_sides))

        def taken_over() -> DataFrame:
            blocks = timed("blocks", changed_blocks(current_sides, previous_sides))
            changed_sides = (
                picked(current_sides[0], blocks, "left_semi"),
                picked(current_sides[1], blocks, "left_semi"),
            )
            return timed("taken", _joined(changed_sides).unionByName(picked(earlier, blocks, "left_anti")))

        if not _same(taken_over(), timed("whole", _joined(current_sides))):
            sys.exit("incremental_join: not the pairs of the join of all")
        ours, full_seconds = alternate(taken_over, lambda: timed("whole", _joined(current_sides)))
        note = (
            f"{parts['blocks']:.1f} s to find blocks, {parts['taken']:.1f} s to join them; "
            f"all {full_seconds:.1f} s"
        )
        stage = "the join of an earlier run, 1 % changed"
        yield Line(
            stage, LEDGERS, "ledgers", ours, "all joined", LEDGERS, full_seconds, target=TARGET, note=note
        )
    spark.stop()


def changed_blocks(current_sides: Sides, previous_sides: Sides) -> DataFrame:
    """Return the blocks for which two runs read different rows, each block once."""
    from pyspark.sql import functions as F

    rows = [
        digests
        for sides, sign in ((current_sides, 1), (previous_sides, -1))
        for digests in _digests(sides, sign)
    ]
    sums = reduce(lambda union, digests: union.unionByName(digests), rows).groupBy("block")
    added = sums.agg(*(F.try_sum(name).alias(name) for name in _SUMS))
    same = reduce(lambda sums_equal, is_zero: sums_equal & is_zero, (F.col(name) == 0 for name in _SUMS))
    return added.where(~F.coalesce(same, F.lit(False))).select("block")


def picked(rows: DataFrame, blocks: DataFrame, how: str) -> DataFrame:
    """Return the rows of the ledgers in the given blocks (``left_semi``) or in all others (``left_anti``)."""
    from pyspark.sql import functions as F

    return rows.withColumn("block", _block()).join(F.broadcast(blocks), "block", how).drop("block")


def _block() -> Column:
    from pyspark.sql import functions as F

    return F.xxhash64("scope_id", F.shiftright("ledger_id", BLOCK_BITS)).alias("block")


def _digests(sides: Sides, sign: int) -> list[DataFrame]:
    """Return a signed digest of each row, in two halves of 32 bits that can be summed.

    The digests of equal rows with opposite signs add up to zero.
    """
    from pyspark.sql import functions as F

    ledgers, availability = sides
    rows = [
        ledgers.where("undecidable = false").select(
            _block(), F.xxhash64("ledger_id", "replicas").alias("digest")
        ),
        availability.select(
            _block(), F.xxhash64("ledger_id", "bookie_id", "state", "groups", "answered").alias("digest")
        ),
    ]
    high = F.shiftright("digest", _HALF) * sign
    low = F.col("digest").bitwiseAND((1 << _HALF) - 1) * sign
    count = F.lit(sign).cast("long").alias("rows")
    return [digests.select("block", count, high.alias("high"), low.alias("low")) for digests in rows]


def _joined(sides: Sides) -> DataFrame:
    return unequal_rows(*sides)


def _same(actual: DataFrame, expected: DataFrame) -> bool:
    return actual.exceptAll(expected).isEmpty() and expected.exceptAll(actual).isEmpty()


def _tables(spark: SparkSession, folder: str) -> tuple[Sides, Sides]:
    """Write the tables of two runs.

    In the second run, some replicas of the newest hundredth of the ledgers have lost their entries.
    """
    from pyspark.sql import functions as F

    cluster = Cluster(LEDGERS)
    uri = write_snapshot(cluster, Path(folder))
    source_rows(spark, LedgerSource({"metadata": uri})).write.parquet(f"{folder}/ledgers")
    Path(folder, "then").mkdir()
    for number, bookie_holdings in enumerate(holdings(cluster)):
        table = pa.Table.from_batches(
            batches(bookie_holdings, cluster.ids[number], f"/disks/{number}", "piece")
        )
        rows = table.select(SCHEMA.names)
        pq.write_table(rows, Path(folder, "then", f"part-{number:05}.parquet"))
    ledgers, then = spark.read.parquet(f"{folder}/ledgers"), spark.read.parquet(f"{folder}/then")
    lost = (F.col("ledger_id") >= LEDGERS - LEDGERS // 100) & (F.col("ledger_id") % 10 == 0)
    changed = then.withColumn("groups", F.when(lost, F.expr("x''")).otherwise(F.col("groups")))
    changed.write.parquet(f"{folder}/now")
    return (ledgers, then), (ledgers, spark.read.parquet(f"{folder}/now"))
