"""The audit of one million ledgers and of ten, three copies each, in a driver of 2 GB.

Metadata come from a ZooKeeper snapshot, indexes from collected tables; the findings must be the planted ones.
Every audit has its own Java process. Time is of the whole command, and of the stages that grow by themselves.
BKAUDIT_LEDGERS sets the larger size.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.cluster import Cluster
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import write_collection
from benchmarks.measure import Line
from benchmarks.memory import PeakMemory
from benchmarks.spark_figures import Stage, Stopwatch, logged_session

LARGE = int(os.environ.get("BKAUDIT_LEDGERS", "10_000_000"))
BOOKIES = 500
MEMORY = "2g"
SHOWN = 5
"""So many stages are shown, those that took longest at the larger size."""


@dataclass(frozen=True)
class Measured:
    """One audit: its stages, peak memory in MiB, and the pairs of ledger and bookie that differed."""

    ledgers: int
    stages: dict[str, Stage]
    java_mib: float
    python_mib: float
    replicas: int
    unequal: int

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages.values())


def lines() -> Iterator[Line]:
    """The whole audit and its longest stages, a ledger of the large cluster against one of the small."""
    small, large = (apart(size, MEMORY) for size in (LARGE // 10, LARGE))
    exponent = math.log(large.seconds / small.seconds) / math.log(large.ledgers / small.ledgers)
    join = large.stages["unequal"]
    spilled = sum(stage.spill_bytes for stage in large.stages.values())
    yield Line(
        f"audit, {large.ledgers:,} ledgers, {MEMORY} driver",
        large.ledgers,
        "ledgers",
        large.seconds,
        f"{small.ledgers:,}",
        small.ledgers,
        small.seconds,
        goal=1.2,
        target=1,
        most=True,
        java_mib=large.java_mib,
        python_mib=large.python_mib,
        shuffle_bytes=sum(stage.shuffle_bytes for stage in large.stages.values()),
        spill_bytes=spilled,
        note=f"time grows as ledgers to the power of {exponent:.2f}; "
        f"{large.unequal / large.replicas:.3%} of {large.replicas:,} replicas take the slow path; "
        f"the join shuffles {join.shuffle_bytes / join.shuffle_rows:.1f} bytes a row (asked: <= 30)",
    )
    for stage in sorted(large.stages.values(), key=lambda each: -each.seconds)[:SHOWN]:
        yield Line(
            f"  of it {stage.name}",
            large.ledgers,
            "ledgers",
            stage.seconds,
            f"{small.ledgers:,}",
            small.ledgers,
            small.stages[stage.name].seconds,
            goal=1.2 if stage is join else None,
            most=True,
            shuffle_bytes=stage.shuffle_bytes,
            spill_bytes=stage.spill_bytes,
        )


def apart(ledgers: int, memory: str, hot: int = 0, bookies: int = BOOKIES) -> Measured:
    """Audit a cluster of this size in a process of its own, so that no audit inherits another's memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(audited, ledgers, memory, hot, bookies).result()


def audited(ledgers: int, memory: str, hot: int, bookies: int) -> Measured:
    """Make the cluster, audit it, compare the findings with the planted ones, and take it away again."""
    from auditor import Audit, AuditOptions, open_run

    cluster = Cluster(ledgers, bookies, hot)
    work = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"))
    try:
        uri = write_snapshot(cluster, work)
        collected = write_collection(cluster, work)
        watch = Stopwatch()
        with PeakMemory() as memory_used:
            watch.stage("spark")
            logged_session(work / "events", memory)
            Audit(uri, [str(collected)], str(work / "run"), AuditOptions(samples=0)).run(progress=watch)
        stages = {stage.name: stage for stage in watch.stages(work / "events")}
        run = open_run(work / "run")
        found = {(finding.id, finding.ledger_id, finding.bookie_id) for finding in run.findings}
        planted = cluster.findings()
        if found != planted:
            sys.exit(f"wrong answers: {len(planted - found)} not found, {len(found - planted)} not planted")
        peaks = memory_used.peaks
        python = max(peak for name, peak in peaks.items() if name.startswith("python"))
        replicas = run.report.coverage.replicas.expected
        differing = sum(batch.num_rows for batch in run.batches("tables/unequal", ["ledger_id"]))
        return Measured(ledgers, stages, peaks["java"], python, replicas, differing)
    finally:
        shutil.rmtree(work)
