"""Metadata scan, index scan and join of thirty million ledgers, as parts of a much larger audit.

A whole audit of a hundred million ledgers does not fit this machine.

The benchmark writes the tables ledgers and availability as an audit does, and joins them. Their sources are
a ZooKeeper snapshot and collected tables. The join must find as many differing pairs as were planted. The
other parts of an audit work on these pairs, or read a few columns of a table. A second measurement uses a
third of the ledgers. Each size has its own Java process with a driver of 2 GB. The time should grow no
faster than the number of ledgers. A note extrapolates it to a hundred million ledgers. ``BKAUDIT_SAMPLE``
sets the larger size (30,000,000 ledgers, which need about 15 GB of disk).
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs
from pyspark.sql import SparkSession

from auditor.model.ledger_id import LayoutKind
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.collections.collection import Collection
from auditor.sources.bookies.collections.copied_rows import CopiedRowsReader, make_shares
from auditor.sources.bookies.collections.places import PieceOwner
from auditor.sources.metadata.spark_source import LedgerSource
from auditor.spark.part_tables import PartTable, part_table
from auditor.spark.query_plans import QueryPlans
from benchmarks.cluster import Cluster
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import write_collection
from benchmarks.join_again import find_unequal_in_blocks
from benchmarks.measure import Line
from benchmarks.memory import PeakMemory
from benchmarks.spark_figures import Stage, Stopwatch, start_logged_session

LARGE_LEDGER_COUNT = int(os.environ.get("BKAUDIT_SAMPLE", "30_000_000"))
BOOKIES = 500
DRIVER_MEMORY = "2g"
_TASK_COUNT = 8
LOCAL_FILE_SYSTEM = fs.LocalFileSystem()
_TARGET_LEDGERS = 100_000_000


class SampledCosts(NamedTuple):
    """The costs of one size: its stages by name, and the peak memory of Java in MiB."""

    ledgers: int
    stages: dict[str, Stage]
    java_mib: float


def lines() -> Iterator[Line]:
    """Yield a line per stage that compares the time per ledger of the large size and of a third of it."""
    small_sample, large_sample = (
        _measure_in_process(Cluster(sample_size, BOOKIES))
        for sample_size in (LARGE_LEDGER_COUNT // 3, LARGE_LEDGER_COUNT)
    )
    for name, stage in large_sample.stages.items():
        small_seconds = small_sample.stages[name].seconds
        growth_exponent = math.log(stage.seconds / small_seconds) / math.log(
            large_sample.ledgers / small_sample.ledgers
        )
        projected_seconds = stage.seconds * _TARGET_LEDGERS / large_sample.ledgers
        yield Line(
            f"{name} of {LARGE_LEDGER_COUNT:,} ledgers, {DRIVER_MEMORY} driver",
            large_sample.ledgers,
            "ledgers",
            stage.seconds,
            f"{small_sample.ledgers:,}",
            small_sample.ledgers,
            small_seconds,
            most=True,
            goal=1.0,
            java_mib=large_sample.java_mib,
            shuffle_bytes=stage.shuffle_bytes,
            spill_bytes=stage.spill_bytes,
            note=f"{small_seconds:.1f} and {stage.seconds:.1f} s; time grows as ledgers to the power of "
            f"{growth_exponent:.2f}; of {_TARGET_LEDGERS:,} ledgers {projected_seconds:,.0f} s",
        )


def _measure_in_process(cluster: Cluster) -> SampledCosts:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measure_stages, cluster).result()


def _measure_stages(cluster: Cluster) -> SampledCosts:
    work_directory = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"))
    try:
        uri, collection_path = (
            write_snapshot(cluster, work_directory),
            write_collection(cluster, work_directory),
        )
        os.sync()  # otherwise these writes would still run during the measurement
        stopwatch = Stopwatch()
        with PeakMemory() as peak_memory:
            stopwatch.stage("spark")
            start_logged_session(work_directory / "events", DRIVER_MEMORY)
            spark = SparkSession.active()
            spark.range(1).count()
            stopwatch.stage("metadata")
            options = {
                "metadata": uri,
                "layout": LayoutKind.LONG_HIERARCHICAL.value,
                "parts": str(_TASK_COUNT),
            }
            part_table(spark, LedgerSource(options)).write(LOCAL_FILE_SYSTEM, str(work_directory / "ledgers"))
            stopwatch.stage("indexes")
            copied_files(spark, Collection(str(collection_path)), _TASK_COUNT).write(
                LOCAL_FILE_SYSTEM, str(work_directory / "availability")
            )
            stopwatch.stage("join")
            replicas = sum(
                len(ledger_group.ids) * len(ledger_group.members)
                for ledger_group in cluster.groups_of_ledgers()
            )
            sample_size = sum(file.stat().st_size for file in work_directory.glob("*/*.parquet"))
            QueryPlans(spark).fit_to_tables(sample_size, replicas)
            unequal_pairs = find_unequal_in_blocks(spark, work_directory, replicas).count()
            stopwatch.stage("end")
        if unequal_pairs != _planted_pairs(cluster):
            sys.exit(
                f"the join finds {unequal_pairs} pairs that differ; {_planted_pairs(cluster)} were planted"
            )
        stages = {stage.name: stage for stage in stopwatch.stages(work_directory / "events")}
        stage_names = ("metadata", "indexes", "join")
        return SampledCosts(
            cluster.ledgers, {name: stages[name] for name in stage_names}, peak_memory.peaks["java"]
        )
    finally:
        shutil.rmtree(work_directory)


def copied_files(spark: SparkSession, collection: Collection, tasks: int) -> PartTable:
    """Return the availability table of a collection, which is the output of ``bkaudit collect``.

    The name of each collected directory is its bookie's id (see `write_bookies`).
    """
    manifest = collection.manifest()
    bookie_by_directory = {
        row["piece"]: PieceOwner(row["inside"][0].replace("_", ":"), (row["path"],))
        for row in collection.read_rows("directories", manifest)
        if row["piece"] is not None
    }
    copied_rows = CopiedRowsReader(bookie_by_directory)
    parts = make_shares([(collection, manifest)], bookie_by_directory, tasks)
    return PartTable.from_parts(spark, SCHEMA, copied_rows.read, parts)


def _planted_pairs(cluster: Cluster) -> int:
    """Count the replicas that lack entries and the replicas of deleted ledgers."""
    missing_pairs = sum(
        len(ledger_group.ids) * len({bookie_offset for bookie_offset, _ in ledger_group.shape.lost_copies})
        for ledger_group in cluster.groups_of_ledgers()
    )
    return missing_pairs + sum(len(cluster.orphan_ledgers(bookie)) for bookie in range(cluster.bookies))
