"""The join of a finished run once more, in drivers of other sizes: does more memory make it faster?"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from pyspark.sql import SparkSession

from auditor import open_run
from auditor.spark.query_plans import QueryPlans
from auditor.tables.unequal import expected_groups, held_groups, unequal
from benchmarks.memory import PeakMemory
from benchmarks.spark_figures import Stopwatch, logged_session

ROUNDS = 2


@dataclass(frozen=True)
class Joined:
    """One join, from a run's tables to the pairs that differ, in a session that was already there."""

    seconds: float
    spill_bytes: int
    java_mib: float


def join_again(run: Path, memories: Iterable[str]) -> dict[str, Joined]:
    """The fastest of some joins of each driver memory, in turn, each in a process of its own."""
    fastest: dict[str, Joined] = {}
    for memory in list(memories) * ROUNDS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            joined = alone.submit(_joined, run, memory).result()
        if memory not in fastest or joined.seconds < fastest[memory].seconds:
            fastest[memory] = joined
    return fastest


def _joined(run: Path, memory: str) -> Joined:
    finished = open_run(run)
    events = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"), "events")
    watch = Stopwatch()
    try:
        with PeakMemory() as used:
            watch.stage("spark")
            logged_session(events, memory)
            spark = SparkSession.active()
            tables = run / "tables"
            spark.range(1).count()  # the session's first job is not the join's
            files = [
                each for name in ("ledgers", "availability") for each in (tables / name).glob("*.parquet")
            ]
            size = sum(each.stat().st_size for each in files)
            QueryPlans(spark).fit(size, finished.report.coverage.replicas.expected)
            ledgers, availability = (
                spark.read.parquet(str(tables / name)) for name in ("ledgers", "availability")
            )
            watch.stage("join")
            differing = unequal(expected_groups(ledgers), held_groups(availability, {}), []).count()
        known = sum(batch.num_rows for batch in finished.batches("tables/unequal", ["ledger_id"]))
        if differing != known:
            sys.exit(f"the join finds {differing} pairs that differ; in the audit it found {known}")
        [join] = [stage for stage in watch.stages(events) if stage.name == "join"]
        return Joined(join.seconds, join.spill_bytes, used.peaks["java"])
    finally:
        shutil.rmtree(events.parent)
