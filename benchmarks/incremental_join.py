"""A rejected experiment that reuses the join of an earlier run, compared with a join of all rows.

The rows that a run read for a ledger determine which (ledger, bookie) pairs of the ledger are unequal. The
rows of both runs are therefore summed up as one digest per block of 64 neighbouring ids. Only blocks with
different digests are joined. The earlier run's unequal pairs are reused for the other blocks. The newest
hundredth of the ledgers has changed. These ledgers are all in a few blocks, which is the best case. The
experiment and the join of all rows must find the same pairs.

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
from benchmarks.cluster_disks import find_held_ledgers
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import make_batches
from benchmarks.measure import Line, alternate
from benchmarks.spark_join import unequal_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LEDGERS = int(os.environ.get("BKAUDIT_INCREMENTAL_LEDGERS", "200000"))
TARGET_RATIO = 10
BLOCK_ID_BITS = 6
_BITS_OF_HALF_DIGEST = 32
_SUM_COLUMNS = ("rows", "high", "low")

JoinTables = tuple["DataFrame", "DataFrame"]
"""The tables ledgers and availability of one run."""


def lines() -> Iterator[Line]:
    """Yield one line: find and join the changed blocks, compared with a join of all rows."""
    spark = build_session("local[2]")
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        previous_tables, current_tables = _write_tables(spark, folder)
        QueryPlans(spark).fit_to_tables(1 << 40, 3 * LEDGERS)
        parts: dict[str, float] = {}

        def materialize(name: str, rows: DataFrame) -> DataFrame:
            start_time = time.perf_counter()
            rows.write.mode("overwrite").parquet(f"{folder}/{name}")
            elapsed_s = time.perf_counter() - start_time
            parts[name] = min(elapsed_s, parts.get(name, elapsed_s))
            return spark.read.parquet(f"{folder}/{name}")

        earlier_pairs = materialize("earlier", _find_unequal(previous_tables))

        def reuse_earlier() -> DataFrame:
            blocks = materialize("blocks", changed_blocks(current_tables, previous_tables))
            changed_tables = (
                filter_blocks(current_tables[0], blocks, "left_semi"),
                filter_blocks(current_tables[1], blocks, "left_semi"),
            )
            return materialize(
                "taken",
                _find_unequal(changed_tables).unionByName(filter_blocks(earlier_pairs, blocks, "left_anti")),
            )

        if not _has_same_rows(reuse_earlier(), materialize("whole", _find_unequal(current_tables))):
            sys.exit("incremental_join: not the pairs of the join of all")
        own_seconds, full_seconds = alternate(
            reuse_earlier, lambda: materialize("whole", _find_unequal(current_tables))
        )
        note = (
            f"{parts['blocks']:.1f} s to find blocks, {parts['taken']:.1f} s to join them; "
            f"all {full_seconds:.1f} s"
        )
        stage = "the join of an earlier run, 1 % changed"
        yield Line(
            stage,
            LEDGERS,
            "ledgers",
            own_seconds,
            "all joined",
            LEDGERS,
            full_seconds,
            target=TARGET_RATIO,
            note=note,
        )
    spark.stop()


def changed_blocks(current_tables: JoinTables, previous_tables: JoinTables) -> DataFrame:
    """Return, once each, the blocks of 64 ids for which the two runs read different rows."""
    from pyspark.sql import functions as F

    rows = [
        digests
        for join_tables, digest_sign in ((current_tables, 1), (previous_tables, -1))
        for digests in _digests(join_tables, digest_sign)
    ]
    digest_sums = reduce(lambda union_frame, digests: union_frame.unionByName(digests), rows).groupBy("block")
    block_sums = digest_sums.agg(*(F.try_sum(name).alias(name) for name in _SUM_COLUMNS))
    is_unchanged = reduce(
        lambda are_sums_equal, is_zero: are_sums_equal & is_zero, (F.col(name) == 0 for name in _SUM_COLUMNS)
    )
    return block_sums.where(~F.coalesce(is_unchanged, F.lit(False))).select("block")


def filter_blocks(rows: DataFrame, blocks: DataFrame, join_type: str) -> DataFrame:
    """Return the rows of ledgers in ``blocks`` (``left_semi``) or outside of them (``left_anti``)."""
    from pyspark.sql import functions as F

    return (
        rows.withColumn("block", _block_column()).join(F.broadcast(blocks), "block", join_type).drop("block")
    )


def _block_column() -> Column:
    from pyspark.sql import functions as F

    return F.xxhash64("scope_id", F.shiftright("ledger_id", BLOCK_ID_BITS)).alias("block")


def _digests(join_tables: JoinTables, digest_sign: int) -> list[DataFrame]:
    """Return a signed digest of each row, in two halves of 32 bits that can be summed.

    The digests of equal rows with opposite signs add up to zero.
    """
    from pyspark.sql import functions as F

    ledgers, availability = join_tables
    rows = [
        ledgers.where("undecidable = false").select(
            _block_column(), F.xxhash64("ledger_id", "replicas").alias("digest")
        ),
        availability.select(
            _block_column(),
            F.xxhash64("ledger_id", "bookie_id", "state", "groups", "answered").alias("digest"),
        ),
    ]
    high_half_column = F.shiftright("digest", _BITS_OF_HALF_DIGEST) * digest_sign
    low_half_column = F.col("digest").bitwiseAND((1 << _BITS_OF_HALF_DIGEST) - 1) * digest_sign
    row_count = F.lit(digest_sign).cast("long").alias("rows")
    return [
        digests.select("block", row_count, high_half_column.alias("high"), low_half_column.alias("low"))
        for digests in rows
    ]


def _find_unequal(join_tables: JoinTables) -> DataFrame:
    return unequal_rows(*join_tables)


def _has_same_rows(actual_rows: DataFrame, expected_rows: DataFrame) -> bool:
    return actual_rows.exceptAll(expected_rows).isEmpty() and expected_rows.exceptAll(actual_rows).isEmpty()


def _write_tables(spark: SparkSession, folder: str) -> tuple[JoinTables, JoinTables]:
    """Write the tables of two runs.

    In the second run, some replicas of the newest hundredth of the ledgers have lost their entries.
    """
    from pyspark.sql import functions as F

    cluster = Cluster(LEDGERS)
    uri = write_snapshot(cluster, Path(folder))
    source_rows(spark, LedgerSource({"metadata": uri})).write.parquet(f"{folder}/ledgers")
    Path(folder, "then").mkdir()
    for number, bookie_ledgers in enumerate(find_held_ledgers(cluster)):
        table = pa.Table.from_batches(
            make_batches(bookie_ledgers, cluster.ids[number], f"/disks/{number}", "piece")
        )
        rows = table.select(SCHEMA.names)
        pq.write_table(rows, Path(folder, "then", f"part-{number:05}.parquet"))
    ledgers, previous_availability = (
        spark.read.parquet(f"{folder}/ledgers"),
        spark.read.parquet(f"{folder}/then"),
    )
    has_lost_entries = (F.col("ledger_id") >= LEDGERS - LEDGERS // 100) & (F.col("ledger_id") % 10 == 0)
    current_availability = previous_availability.withColumn(
        "groups", F.when(has_lost_entries, F.expr("x''")).otherwise(F.col("groups"))
    )
    current_availability.write.parquet(f"{folder}/now")
    return (ledgers, previous_availability), (ledgers, spark.read.parquet(f"{folder}/now"))
