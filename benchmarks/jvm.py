"""A cluster of real bookies, checked in turns by the server's own replicas check and by this program.

The check repeats in one Java process and the audit in one Spark session. The first round of each does not
count, so that both are warm. Both check the same healthy ledgers and must report them as healthy. Then the
benchmark removes a copy from a stopped bookie, and the audit must report exactly that ledger.

The server's check only looks for missing copies, while the audit runs some forty more checks. Other lines
therefore measure only the search for missing copies in this program. They read metadata and indexes and
join them, once with Spark and once in one process without Spark.

A bookie on DbLedgerStorage answers no listing. The server's check waits for the answer, 5 seconds for 100
ledgers. On this storage, the server's check covers only the first ledgers, and the benchmark compares
rates.

The last lines compare cold starts with the warm check. They measure the join alone, including the session,
and the whole command. They cover the real bookies, and generated clusters with one, five and ten times as
many ledgers. Real bookies would take too long to write so many ledgers. The benchmark assumes that the
server's check keeps its rate. The environment variable ``BENCHMARK_LEDGERS`` sets the number of real
ledgers (20,000).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from auditor import Audit, AuditOptions, open_run, register
from auditor.model.states import Verdict
from auditor.spark.session import build_session
from benchmarks.checked_bookies import ENSEMBLE, ENTRIES, WRITE_QUORUM, CheckedBookies, checked_bookies
from benchmarks.cluster import Cluster
from benchmarks.cluster_disks import write_index_files
from benchmarks.cluster_store import write_snapshot
from benchmarks.measure import Line, alternate
from benchmarks.one_process import differing_pairs
from benchmarks.spark_join import differing_pairs as joined_by_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS, FIRST_RUN_ROUNDS = 3, 2
GENERATED_SIZES = (1, 5, 10)
"""Generated ledgers per real ledger.

The metadata of generated ledgers are a snapshot. Those of real ledgers are in a running server.
"""

DIFFERING_PAIRS = {"orphan-ledger": 1, "below-ack-quorum": 1, "entry-lost": 2}
"""Number of pairs of ledger and bookie that differ, by check id, for each fault in a generated cluster."""

DB_CHECKED_LEDGERS = 200
"""Number of ledgers for the server's check on DbLedgerStorage, where it waits five seconds per hundred."""

DB_STORAGE = "DbLedgerStorage"
FIRST_JOIN_STAGE, FIRST_COMMAND_STAGE = "reading and join, cold, session and all", "whole command, cold"
AUDIT_OPTIONS = AuditOptions(master="local[2]", rate_limit=0, grace=0)


@dataclass
class ComparisonCase:
    """A cluster of healthy ledgers, and the ways to check it."""

    cluster: CheckedBookies
    uri: str
    storage: str
    ledgers: int
    spark: SparkSession
    root: Path
    _run_numbers: Iterator[int] = field(default_factory=count)

    @property
    def checked_ledgers(self) -> int:
        """The number of ledgers that the server's check covers."""
        return min(DB_CHECKED_LEDGERS, self.ledgers) if self.storage == DB_STORAGE else self.ledgers

    def check(self) -> float:
        """Run the server's own check; return its seconds."""
        seconds, incomplete_ledgers = self.cluster.check(self.checked_ledgers)
        if incomplete_ledgers:
            sys.exit(f"{self.storage}: the server's check finds {incomplete_ledgers} healthy ledgers lacking")
        return seconds

    def audit(self) -> float:
        """Run a whole audit in the existing session; return its seconds."""
        audit = Audit(self.uri, [str(self.cluster.directory)], self.new_run_path(), AUDIT_OPTIONS)
        start_time = time.perf_counter()
        report = audit.run(self.spark)
        if report.verdict != Verdict.HEALTHY:
            sys.exit(f"{self.storage}: the audit says {report.verdict}, {report.counts}")
        return time.perf_counter() - start_time

    def join(self) -> float:
        """Read metadata and indexes as Spark tables and join them; return the seconds. No pair may differ."""
        start_time = time.perf_counter()
        self._require_no_difference(joined_by_spark(self.spark, self.uri, str(self.cluster.directory)))
        return time.perf_counter() - start_time

    def join_in_one_process(self) -> float:
        """Read metadata and indexes and join them in this process, and return the time in seconds.

        Only the join uses several threads.
        """
        start_time = time.perf_counter()
        directories = {bookie: self.cluster.place(bookie) / "ledgers0" for bookie in self.cluster.ids}
        self._require_no_difference(differing_pairs(self.uri, directories))
        return time.perf_counter() - start_time

    def write_ledger_to_remove(self) -> None:
        """Write one more ledger on known bookies.

        Call this method before the server's check, which uses up the file descriptors of the process.
        """
        self.cluster.write(self.ledgers, self.cluster.ids[:ENSEMBLE], WRITE_QUORUM, WRITE_QUORUM, ENTRIES)
        self.cluster.flush()

    def audit_removed_ledger(self) -> None:
        """Remove the ledger from `write_ledger_to_remove` from a stopped bookie, and audit the cluster.

        The audit must report only this ledger.
        """
        ledger, bookie = self.ledgers, self.cluster.ids[0]
        self.cluster.stop(bookie)
        if self.storage == DB_STORAGE:
            striped_entries = [entry_id for entry_id in range(ENTRIES) if -entry_id % ENSEMBLE < WRITE_QUORUM]
            self.cluster.forget_entries(bookie, ledger, striped_entries)
            self.cluster.forget_ledger(bookie, ledger)
        else:
            [index] = self.cluster.place(bookie).glob(f"*/current/*/*/{ledger:x}.idx")
            index.unlink()
        run_path = self.new_run_path()
        Audit(self.uri, [str(self.cluster.directory)], run_path, AUDIT_OPTIONS).run(self.spark)
        lossy_ledgers = [
            finding.ledger_id for finding in open_run(run_path).findings if finding.id == "below-ack-quorum"
        ]
        if lossy_ledgers != [ledger]:
            sys.exit(f"{self.storage}: ledger {ledger} lost a copy, and the audit finds {lossy_ledgers}")

    def new_run_path(self) -> str:
        """Return the path of a new run directory, which does not exist."""
        return str(self.root / f"run-{next(self._run_numbers)}")

    def _require_no_difference(self, differing_count: int) -> None:
        if differing_count:
            sys.exit(f"{self.storage}: {differing_count} pairs differ, and all ledgers are healthy")


def lines() -> Iterator[Line]:
    """Yield lines for each variant of this program on both storages, then the lines of the cold starts."""
    ledgers = int(os.environ.get("BENCHMARK_LEDGERS", "20000"))
    # On SIGTERM, raise an exception: it leaves every block below, which ends the child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        root = Path(folder)
        spark = build_session(AUDIT_OPTIONS.master, log_path=root / "spark.log")
        register(spark)
        try:
            for storage in ("InterleavedLedgerStorage", DB_STORAGE):
                print(f"{storage}: writing {ledgers:,} ledgers", file=sys.stderr)
                with checked_bookies(root / storage, storage, ledgers) as (cluster, uri):
                    case = ComparisonCase(cluster, uri, storage, ledgers, spark, root / storage)
                    case.write_ledger_to_remove()
                    yield from _measure_variants(case)
                    case.audit_removed_ledger()
        finally:
            spark.stop()


def _measure_variants(case: ComparisonCase) -> Iterator[Line]:
    variants_and_goals: dict[str, tuple[Callable[[], float], float | None, float | None]] = {
        "reading and join, one process": (case.join_in_one_process, 4, None),
        "reading and join, Spark": (
            case.join,
            2,
            100 if case.storage == DB_STORAGE else 6,
        ),
        "whole audit, Spark": (
            case.audit,
            None,
            100 if case.storage == DB_STORAGE else 6,
        ),
    }
    variants = [case.check, *(variant for variant, _, _ in variants_and_goals.values())]
    seconds_by_round = [[variant() for variant in variants] for _ in range(1 + ROUNDS)][1:]
    check_seconds, *own_seconds = (
        min(variant_seconds) for variant_seconds in zip(*seconds_by_round, strict=True)
    )
    note = (
        f"the server's check: {case.checked_ledgers:,} ledgers in {check_seconds:.2f} s; "
        f"this program: {case.ledgers:,}"
    )
    server_check = ("server's check, warm", case.checked_ledgers, check_seconds)
    for (name, (_, required_ratio, desired_ratio)), seconds in zip(
        variants_and_goals.items(), own_seconds, strict=True
    ):
        stage = f"{case.storage}, {name}"
        yield Line(
            stage,
            case.ledgers,
            "ledgers",
            seconds,
            *server_check,
            goal=required_ratio,
            target=desired_ratio,
            note=note,
        )
    if case.storage != DB_STORAGE:
        bookies = str(case.cluster.directory)
        cold_variants = (
            lambda: _run_join(case.uri, bookies, 0),
            lambda: _command(case.uri, bookies, case.new_run_path()),
        )
        join_seconds, command_seconds = alternate(*cold_variants, rounds=FIRST_RUN_ROUNDS)
        yield Line(
            FIRST_JOIN_STAGE, case.ledgers, "ledgers", join_seconds, *server_check, note="real bookies"
        )
        yield Line(
            FIRST_COMMAND_STAGE,
            case.ledgers,
            "ledgers",
            command_seconds,
            *server_check,
            note="real bookies",
        )
        for times in GENERATED_SIZES:
            yield from _measure_generated(case, case.ledgers * times, server_check)


def _measure_generated(case: ComparisonCase, ledgers: int, rival: tuple[str, int, float]) -> Iterator[Line]:
    cluster, root = Cluster(ledgers), case.root / f"made-up-{ledgers}"
    root.mkdir()
    uri, bookies = write_snapshot(cluster, root / "zookeeper"), str(root / "bookies")
    write_index_files(cluster, root / "bookies")
    planted_findings = cluster.findings()
    differing_count = sum(DIFFERING_PAIRS[check_id] for check_id, _, _ in planted_findings)
    runs = (str(root / f"run-{number}") for number in count())

    def run_warm_join() -> None:
        if joined_by_spark(case.spark, uri, bookies) != differing_count:
            sys.exit(f"of {ledgers:,} made-up ledgers other pairs differ than were planted")

    def command() -> None:
        run_path = next(runs)
        _command(uri, bookies, run_path, exit_code=int(bool(planted_findings)))
        findings = {
            (finding.id, finding.ledger_id, finding.bookie_id) for finding in open_run(run_path).findings
        }
        if findings != planted_findings:
            sys.exit(f"{len(findings ^ planted_findings)} findings are missing or were not planted")

    variants = (run_warm_join, lambda: _run_join(uri, bookies, differing_count), command)
    seconds = alternate(*variants, rounds=FIRST_RUN_ROUNDS)
    note = f"{ledgers:,} made-up ledgers; the check at its rate of before"
    for name, own_seconds, required_ratio, desired_ratio in zip(
        ("reading and join, Spark", FIRST_JOIN_STAGE, FIRST_COMMAND_STAGE),
        seconds,
        (2, 1, None),
        (6, 1, 1),
        strict=True,
    ):
        yield Line(
            name,
            ledgers,
            "ledgers",
            own_seconds,
            *rival,
            goal=required_ratio,
            target=desired_ratio,
            note=note,
        )


def _run_join(uri: str, bookies: str, differing_count: int) -> None:
    """Join metadata and indexes in a new process with its own Spark session.

    End the benchmark if the join does not find exactly ``differing_count`` differing pairs.
    """
    command = [sys.executable, "-m", "benchmarks.spark_join", uri, bookies]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.stdout.strip() != str(differing_count):
        sys.exit(f"{differing_count} pairs should differ: {completed.stdout}\n{completed.stderr}")


def _command(uri: str, bookies: str, run_path: str, exit_code: int = 0) -> None:
    """Run ``bkaudit audit`` in a new process. End the benchmark if its exit code is not ``exit_code``."""
    command = [sys.executable, "-c", "from auditor.cli import main; main()", "audit", "--metadata", uri]
    command += [
        "--bookies",
        bookies,
        "--out",
        run_path,
        "--master",
        AUDIT_OPTIONS.master,
        "--rate-limit",
        "0",
    ]
    completed = subprocess.run([*command, "--grace", "0"], capture_output=True, text=True, check=False)
    if completed.returncode != exit_code:
        sys.exit(f"bkaudit audit ended with {completed.returncode}:\n{completed.stdout}\n{completed.stderr}")
