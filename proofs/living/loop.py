"""A loop of audits of one live cluster that checks each finding against the true state.

warm up    the load begins, and AutoRecovery and garbage collection run
audits     the loop reads the true state before and after each audit; audits use each way to read the
           indexes in turn, while `Chaos` disturbs bookies
faults     the cluster is quiet and gets faults (`faults.py`); two audits must confirm each of them, and
           the loop checks every copy reported as missing
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from auditor import Audit
from auditor.errors import AuditorError
from auditor.model.options import AuditOptions
from auditor.model.report import exit_code
from proofs.living.chaos import Chaos
from proofs.living.matrix import Matrix
from proofs.living.rules import AuditContext, Finding, Verdict, verdict
from proofs.living.truth import look
from proofs.living.ways import RPC, Way
from tests.clusters.living import LivingBookies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLICATION = ("entry-lost", "below-ack-quorum", "below-write-quorum")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A finished audit. ``failure`` is the error of an audit that ended without a report, otherwise empty."""

    name: str
    path: Path
    exit_code: int
    seconds: float
    findings: list[Finding] = field(default_factory=list)
    moved: frozenset[int] = frozenset()
    failure: str = ""

    def by_id(self, id: str) -> list[Finding]:
        return [finding for finding in self.findings if finding["id"] == id]

    def summary(self) -> str:
        counts = Counter(f"{row['id']} {row['confidence']}" for row in self.findings)
        text = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or self.failure
        return f"{self.name:<18} exit {self.exit_code} after {self.seconds:5.1f} s: {text or 'nothing'}"


def audit(cluster: LivingBookies, spark: SparkSession, way: Way, name: str, **options: Any) -> Run:
    """Audit the cluster into ``runs/NAME``.

    Args:
        cluster: The cluster to audit.
        spark: The session to use.
        way: The way to read the bookies' indexes.
        name: The name of the run directory.
        options: Options that replace those of the way.
    """
    path = cluster.root / "runs" / name
    began = time.monotonic()
    sources = way.sources(cluster, cluster.root / "sources" / name)
    audit_options = AuditOptions(**{"timeout": 5.0, **way.options, **options})
    try:
        report = Audit(cluster.store.uri, sources, str(path), audit_options).run(spark)
    except AuditorError as error:
        return Run(name, path, error.exit_code, time.monotonic() - began, failure=str(error))
    seconds = time.monotonic() - began
    findings = pq.read_table(path / "findings").to_pylist()
    moved = pq.read_table(path / "tables" / "moved").to_pylist()
    # A ledger without a version was not in the first scan, so it cannot have moved.
    ids = frozenset(row["ledger_id"] for row in moved if row["version"] is not None)
    return Run(name, path, exit_code(report, audit_options.fail_on), seconds, findings, ids)


@dataclass
class Loop:
    """The results of a loop. ``excused`` names the audits that ended with 1 because of a true error."""

    cluster: LivingBookies
    spark: SparkSession
    say: Say
    matrix: Matrix = field(default_factory=Matrix)
    runs: list[Run] = field(default_factory=list)
    errors_logged: Counter[str] = field(default_factory=Counter)
    excused: set[str] = field(default_factory=set)

    def audit_under_load(self, ways: Sequence[Way], audits: int, chaos: Chaos) -> None:
        """Make ``audits`` audits under load and chaos, and judge their findings."""
        with chaos.pause:
            before = look(self.cluster)
        for number in range(audits):
            way = ways[number % len(ways)]
            lines = {bookie: self.cluster.error_lines(bookie) for bookie in self.cluster.ids}
            run = audit(self.cluster, self.spark, way, f"{number:02}-{way.name}")
            for bookie in self.cluster.ids:
                self.errors_logged[run.name] += self.cluster.error_lines(bookie) - lines[bookie]
            with chaos.pause:
                after = look(self.cluster)
            unlisted = self.cluster.ids if way is RPC and self.cluster.storage == "DbLedgerStorage" else ()
            around = AuditContext(before, after, tuple(chaos.outages), run.moved, frozenset(unlisted))
            self.judge(run, around)
            before = after

    def judge(self, run: Run, around: AuditContext) -> None:
        """Judge each finding of a run, and count the ledgers that the run overlooked."""
        self.runs.append(run)
        self.say(run.summary())
        true_errors = False
        for finding in run.findings:
            judgement = self._judge_finding(run, finding, around)
            severe = finding["severity"] in ("critical", "error") and finding["confidence"] == "confirmed"
            true_errors |= severe and judgement is Verdict.TRUE
        if true_errors:
            self.excused.add(run.name)
        for ledger, name in overlooked_ledgers(run, around):
            self.matrix.miss(name)
            self.say(f"  OVERLOOKED {name} {ledger}")

    def after_faults(self, way: Way, name: str) -> list[Finding]:
        """Audit the quiet cluster with faults and return the findings.

        Copies reported as missing are checked against the state before and after the audit.
        """
        before = look(self.cluster)
        run = audit(self.cluster, self.spark, way, name)
        self.say(run.summary())
        around = AuditContext(before, look(self.cluster), moved=run.moved)
        for id in REPLICATION:
            for finding in run.by_id(id):
                self._judge_finding(run, finding, around)
        return run.findings

    def _judge_finding(self, run: Run, finding: Finding, around: AuditContext) -> Verdict:
        """Judge one finding and count it. Print it if it is confirmed and false."""
        judgement = verdict(finding, around)
        self.matrix.add(run.name, finding, judgement)
        if judgement is Verdict.FALSE and finding["confidence"] == "confirmed":
            name = f"{finding['id']} {finding['ledger_id']} {finding['bookie_id']}"
            self.say(f"  FALSE {name}: {describe_finding(finding, around)}")
        return judgement

    def bad_exits(self) -> list[str]:
        """Return the audits whose exit code is neither 0 nor 3, except code 1 because of a true error."""
        return [
            run.summary()
            for run in self.runs
            if run.exit_code not in (0, 3) and not (run.exit_code == 1 and run.name in self.excused)
        ]


def overlooked_ledgers(run: Run, around: AuditContext) -> list[tuple[int, str]]:
    """Return the ledgers without enough copies about which the audit reported nothing, with their class.

    Only ledgers count that lacked copies before and after the audit and kept the same metadata version.
    """
    if run.failure:
        return []
    reported = {row["ledger_id"] for id in (*REPLICATION, "replication-undecided") for row in run.by_id(id)}
    # One finding about a bookie without a journal covers all of its ledgers.
    old_indexes = {row["bookie_id"] for row in run.by_id("replication-undecided")} - {None}
    reported |= {
        row["ledger_id"]
        for row in pq.read_table(run.path / "tables" / "judged", columns=["ledger_id", "unknown"]).to_pylist()
        if old_indexes & {copy["bookie_id"] for copy in row["unknown"]}
    }
    undecided = {
        row["ledger_id"]
        for row in pq.read_table(
            run.path / "tables" / "verdicts", columns=["ledger_id", "unread_bookies"]
        ).to_pylist()
        if row["unread_bookies"]
    }
    before, after = around.before.classes, around.after.classes
    return [
        (ledger, name)
        for ledger, name in before.items()
        if name in REPLICATION
        and after.get(ledger) == name
        and around.still(ledger)
        and ledger not in reported | undecided | run.moved
    ]


def describe_finding(finding: Finding, around: AuditContext) -> str:
    """Return one line with all known facts about a false finding."""
    ledger = finding["ledger_id"]
    looks = [
        f"{look.store.ledgers.get(ledger)} {look.store.versions.get(ledger)} {look.served.get(ledger)}"
        for look in around.looks
        if ledger is not None
    ]
    moved = "moved; " if ledger in around.moved else ""
    return f"{moved}{finding['message']} | {finding['evidence']} | " + " | ".join(looks)
