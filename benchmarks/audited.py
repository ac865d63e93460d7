"""A whole audit of a made-up cluster in a process of its own: its findings compared, its cost told."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from auditor import Audit, AuditOptions, open_run
from auditor.audit import audit
from auditor.audit.comparison import BookieAnswers
from auditor.audit.landing import Landing
from benchmarks.cluster import Cluster
from benchmarks.cluster_disks import write_databases, write_index_files
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import write_answers, write_collection
from benchmarks.join_again import Joined, Way, join_again
from benchmarks.memory import PeakMemory
from benchmarks.spark_figures import Stage, Stopwatch, logged_session

COLLECTED, FILES, DATABASES = "collected tables", "index files", "RocksDB"
UNFLUSHED = "collected tables, an entry of each bookie in its journal"
ASKED_BOOKIES = "collected tables, one bookie in ten asked"
"""Its answers were made before: what asking takes is another benchmark's (`benchmarks.rpc`)."""


@dataclass(frozen=True)
class Audited:
    """One audit: its stages, peak memory in MiB, and the replicas that differed among all.

    ``joins`` are its join again, by the way.
    """

    ledgers: int
    stages: dict[str, Stage]
    java_mib: float
    python_mib: float
    replicas: int
    unequal: int
    joins: Mapping[Way, Joined]

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages.values())

    @property
    def shuffle_bytes(self) -> int:
        return sum(stage.shuffle_bytes for stage in self.stages.values())

    @property
    def spill_bytes(self) -> int:
        return sum(stage.spill_bytes for stage in self.stages.values())


def apart(
    cluster: Cluster, form: str = COLLECTED, memory: str = "2g", joins: Sequence[Way] = (), out: str = ""
) -> Audited:
    """Audit a cluster in a process of its own, so that no audit inherits another's memory.

    Metadata are a ZooKeeper snapshot; ``form`` is how the bookies' indexes are kept. ``joins``: the ways
    in which the run's tables are joined again afterwards. ``out`` begins the run's URI; without it the run
    lies at a path.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_audited, cluster, form, memory, joins, out).result()


def _audited(cluster: Cluster, form: str, memory: str, joins: Sequence[Way], out: str) -> Audited:
    work = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"))
    asked_bookies = cluster.bookies // 10 if form == ASKED_BOOKIES else 0
    place = f"{out}{work}/run"
    try:
        uri, bookies = write_snapshot(cluster, work), str(_written(cluster, form, work, asked_bookies))
        if asked_bookies:
            _answer(write_answers(cluster, work, asked_bookies), cluster.ids[:asked_bookies])
        os.sync()  # what is still being written would be measured with the audit
        watch = Stopwatch()
        with PeakMemory() as used:
            watch.stage("spark")
            logged_session(work / "events", memory)
            Audit(uri, [bookies], place, AuditOptions(samples=0)).run(progress=watch)
        stages = {stage.name: stage for stage in watch.stages(work / "events")}
        run = open_run(place)
        findings = {(finding.id, finding.ledger_id, finding.bookie_id) for finding in run.findings}
        planted = cluster.findings(asked_bookies)
        if findings != planted:
            sys.exit(
                f"wrong answers: {len(planted - findings)} not found, {len(findings - planted)} not planted"
            )
        differing = sum(batch.num_rows for batch in run.batches("tables/unequal", ["ledger_id"]))
        return Audited(
            cluster.ledgers,
            stages,
            java_mib=used.peaks["java"],
            python_mib=max(peak for name, peak in used.peaks.items() if name.startswith("python")),
            replicas=run.report.coverage.replicas.expected,
            unequal=differing,
            joins=join_again(work / "run", joins),
        )
    finally:
        shutil.rmtree(work)


def _answer(table: Path, bookies: Sequence[str]) -> None:
    """Have the audit of this process take the table for what these bookies answered."""

    def query(landing: Landing, *_: object) -> BookieAnswers:
        rows = landing.land("answers", lambda: landing.spark.read.parquet(str(table)))
        return BookieAnswers(rows, dict.fromkeys(bookies))

    setattr(audit, "query_bookies", query)  # noqa: B010  # where it is imported by name


def _written(cluster: Cluster, form: str, work: Path, asked_bookies: int) -> Path:
    if form in (COLLECTED, UNFLUSHED, ASKED_BOOKIES):
        return write_collection(cluster, work, form == UNFLUSHED, asked_bookies)
    write = write_index_files if form == FILES else write_databases
    write(cluster, work / "bookies")
    return work / "bookies"
