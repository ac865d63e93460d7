"""The join of a finished run, repeated with drivers of different sizes, and with rows instead of blocks."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from auditor import open_run
from auditor.spark.execution import Execution
from auditor.spark.query_plans import QueryPlans
from auditor.spark.table_files import TableFiles
from auditor.tables.accounts import expected_replicas, index_replicas
from auditor.tables.replica_blocks import Evidence
from auditor.tables.unequal import BookieTrust, SourceFiles, find_unequal
from benchmarks.memory import PeakMemory
from benchmarks.spark_figures import Stopwatch, start_logged_session
from benchmarks.spark_join import unequal_rows

ROUNDS = 2


class JoinVariant(NamedTuple):
    """A way to join: the driver's memory, and whether replicas are joined in blocks or as Spark rows."""

    memory: str
    joins_blocks: bool = True


@dataclass(frozen=True)
class JoinCost:
    """The cost of one join in a running session, from a run's tables to the pairs that differ."""

    seconds: float
    spill_bytes: int
    java_mib: float


def join_again(run: Path, variants: Iterable[JoinVariant]) -> dict[JoinVariant, JoinCost]:
    """Join a run's tables in each variant, always in a new process; return each variant's fastest join.

    The variants run in turns.
    """
    fastest_costs: dict[JoinVariant, JoinCost] = {}
    for variant in list(variants) * ROUNDS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            join_cost = process.submit(_measure_join, run, variant).result()
        if variant not in fastest_costs or join_cost.seconds < fastest_costs[variant].seconds:
            fastest_costs[variant] = join_cost
    return fastest_costs


def find_unequal_in_blocks(spark: SparkSession, tables: Path, replica_count: int) -> DataFrame:
    """Return the (ledger, bookie) pairs that differ between ledgers and availability in ``tables``."""
    local_file_system = fs.LocalFileSystem()
    ledgers, indexes = (
        TableFiles.from_directory(local_file_system, str(tables / name))
        for name in ("ledgers", "availability")
    )
    run_files = [
        SourceFiles(Evidence.EXPECTED, ledgers, expected_replicas),
        SourceFiles(Evidence.INDEX, indexes, index_replicas),
    ]
    execution = Execution(spark)
    return execution.frame(find_unequal(execution, run_files, BookieTrust(), replica_count))


def _measure_join(run: Path, variant: JoinVariant) -> JoinCost:
    finished_run = open_run(run)
    event_log_directory = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"), "events")
    stopwatch = Stopwatch()
    try:
        with PeakMemory() as peak_memory:
            stopwatch.stage("spark")
            start_logged_session(event_log_directory, variant.memory)
            spark = SparkSession.active()
            tables = run / "tables"
            spark.range(1).count()  # the join must not be the session's first job
            files = [
                file for name in ("ledgers", "availability") for file in (tables / name).glob("*.parquet")
            ]
            table_bytes = sum(file.stat().st_size for file in files)
            replica_count = finished_run.report.coverage.replicas.expected
            QueryPlans(spark).fit_to_tables(table_bytes, replica_count)
            join_sides = (spark.read.parquet(str(tables / name)) for name in ("ledgers", "availability"))
            stopwatch.stage("join")
            if variant.joins_blocks:
                differing_count = find_unequal_in_blocks(spark, tables, replica_count).count()
            else:
                differing_count = unequal_rows(*join_sides).count()
        pairs_of_audit = sum(
            batch.num_rows for batch in finished_run.batches("tables/unequal", ["ledger_id"])
        )
        if differing_count != pairs_of_audit:
            sys.exit(
                f"the join finds {differing_count} pairs that differ; in the audit it found {pairs_of_audit}"
            )
        [join] = [stage for stage in stopwatch.stages(event_log_directory) if stage.name == "join"]
        return JoinCost(join.seconds, join.spill_bytes, peak_memory.peaks["java"])
    finally:
        shutil.rmtree(event_log_directory.parent)
