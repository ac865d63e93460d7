"""A whole audit of a generated cluster in its own process, with its costs and a check of its findings."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from auditor import Audit, AuditOptions, open_run
from auditor.audit import audit, audit_stages
from auditor.audit.comparison import BookieAnswers
from auditor.audit.table_cache import TableCache
from auditor.model.audit_stage import AuditStage
from benchmarks.cluster import Cluster
from benchmarks.cluster_disks import write_databases, write_index_files
from benchmarks.cluster_store import write_snapshot
from benchmarks.cluster_tables import write_answers, write_collection
from benchmarks.join_again import JoinCost, JoinVariant, join_again
from benchmarks.memory import PeakMemory
from benchmarks.spark_figures import Stage, Stopwatch, start_logged_session

FORM_COLLECTED, FORM_FILES, FORM_DATABASES = "collected tables", "index files", "RocksDB"
FORM_UNFLUSHED = "collected tables, an entry of each bookie in its journal"
FORM_ASKED_BOOKIES = "collected tables, one bookie in ten asked"
"""A form in which the audit asks one bookie in ten for listings.

The answers are prepared beforehand. `benchmarks.rpc` measures the requests themselves.
"""


@dataclass(frozen=True)
class AuditCosts:
    """The costs of one audit: its stages, peak memory in MiB, and numbers of replicas.

    ``replicas`` counts all expected replicas. ``unequal_count`` counts the replicas that differ from the
    metadata. ``join_costs`` has the costs of each repetition of the join after the audit.
    """

    ledgers: int
    stages: dict[str, Stage]
    java_mib: float
    python_mib: float
    replicas: int
    unequal_count: int
    join_costs: Mapping[JoinVariant, JoinCost]

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages.values())

    @property
    def shuffle_bytes(self) -> int:
        return sum(stage.shuffle_bytes for stage in self.stages.values())

    @property
    def spill_bytes(self) -> int:
        return sum(stage.spill_bytes for stage in self.stages.values())


def audit_in_process(
    cluster: Cluster,
    index_form: str = FORM_COLLECTED,
    memory: str = "2g",
    join_variants: Sequence[JoinVariant] = (),
    location_prefix: str = "",
) -> AuditCosts:
    """Audit a cluster in a separate process, so that memory used by other audits does not count.

    Args:
        cluster: The cluster to write to disk and audit. Its metadata become a ZooKeeper snapshot.
        index_form: The form of the bookies' indexes, such as `FORM_COLLECTED` or `FORM_FILES`.
        memory: The memory of the Spark driver, such as ``2g``.
        join_variants: The ways in which to repeat the join of the run's tables after the audit.
        location_prefix: A prefix of the location, such as ``file://``. Without it the location is a path.

    Returns:
        The costs of the audit. The process ends with an error if the findings are not the planted ones.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(
            _measure_audit, cluster, index_form, memory, join_variants, location_prefix
        ).result()


def _measure_audit(
    cluster: Cluster, index_form: str, memory: str, join_variants: Sequence[JoinVariant], location_prefix: str
) -> AuditCosts:
    work_directory = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"))
    asked_bookies = cluster.bookies // 10 if index_form == FORM_ASKED_BOOKIES else 0
    run_location = f"{location_prefix}{work_directory}/run"
    try:
        uri, bookies = (
            write_snapshot(cluster, work_directory),
            str(_write_bookies(cluster, index_form, work_directory, asked_bookies)),
        )
        if asked_bookies:
            _prepare_answers(
                write_answers(cluster, work_directory, asked_bookies), cluster.ids[:asked_bookies]
            )
        os.sync()  # otherwise these writes would still run during the audit
        stopwatch = Stopwatch()
        with PeakMemory() as peak_memory:
            stopwatch.stage("spark")
            start_logged_session(work_directory / "events", memory)
            Audit(uri, [bookies], run_location, AuditOptions(samples=0)).run(progress=stopwatch)
        stages = {stage.name: stage for stage in stopwatch.stages(work_directory / "events")}
        run = open_run(run_location)
        findings = {(finding.id, finding.ledger_id, finding.bookie_id) for finding in run.findings}
        planted_findings = cluster.findings(asked_bookies)
        if findings != planted_findings:
            sys.exit(
                f"wrong answers: {len(planted_findings - findings)} not found, "
                f"{len(findings - planted_findings)} not planted"
            )
        unequal_pairs = sum(batch.num_rows for batch in run.batches("tables/unequal", ["ledger_id"]))
        return AuditCosts(
            cluster.ledgers,
            stages,
            java_mib=peak_memory.peaks["java"],
            python_mib=max(
                peak_memory_of_process
                for name, peak_memory_of_process in peak_memory.peaks.items()
                if name.startswith("python")
            ),
            replicas=run.report.coverage.replicas.expected,
            unequal_count=unequal_pairs,
            join_costs=join_again(work_directory / "run", join_variants),
        )
    finally:
        shutil.rmtree(work_directory)


def _prepare_answers(table: Path, bookies: Sequence[str]) -> None:
    """Make audits in this process read the rows in ``table`` instead of sending requests to bookies."""

    def query(cache: TableCache, **_: object) -> BookieAnswers:
        rows = cache.write_table("answers", lambda: cache.spark.read.parquet(str(table)))
        return BookieAnswers(rows, dict.fromkeys(bookies))

    stages = (
        replace(stage, function=query) if stage.name is AuditStage.LIST_BOOKIE_ENTRIES else stage
        for stage in audit_stages.STAGES
    )
    setattr(audit, "STAGES", tuple(stages))  # noqa: B010  # the module imported it by name


def _write_bookies(cluster: Cluster, index_form: str, work_directory: Path, asked_bookies: int) -> Path:
    if index_form in (FORM_COLLECTED, FORM_UNFLUSHED, FORM_ASKED_BOOKIES):
        return write_collection(cluster, work_directory, index_form == FORM_UNFLUSHED, asked_bookies)
    write_indexes = write_index_files if index_form == FORM_FILES else write_databases
    write_indexes(cluster, work_directory / "bookies")
    return work_directory / "bookies"
