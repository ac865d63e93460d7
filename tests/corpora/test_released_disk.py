"""A missing disk, before and after its ledgers were copied to other bookies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.model.finding import Severity
from auditor.model.report import exit_code
from tests.corpora.audited import FinishedRun, audit
from tests.corpora.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C, D = (f"bk{letter}.example:3181" for letter in "abcd")


def cluster(member: str, missing: dict[str, list[int]] | None = None) -> Cluster:
    """Return four bookies; another bookie may have replaced one of them in all ledgers."""
    new_cluster = Cluster(ledger_dirs=("ledgers0", "ledgers1"))
    for bookie in (A, B, C, D):
        new_cluster.bookie(bookie)
    for ledger in range(4):
        new_cluster.ledger(ledger, {0: [A, B, member]}, (3, 2), 9, without=missing if ledger == 0 else None)
    return new_cluster


def audit_without_disk(spark: SparkSession, source: Cluster, home: Path) -> FinishedRun:
    """Audit the cluster with an empty directory where the disk of D was."""
    root = source.write(home)
    disk = root / "bookies" / D.replace(":", "_") / "ledgers1"
    shutil.rmtree(disk)
    (disk / "current").mkdir(parents=True)
    return audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", home / "run")


@pytest.mark.parametrize(
    ("member", "missing", "severity"),
    [(D, None, "critical"), (C, {A: [4]}, "critical"), (C, None, "warning")],
    ids=["a member of ledgers", "released, while an entry lacks a copy", "released"],
)
def test_missing_disk_is_critical_while_a_ledger_may_need_its_copies(
    spark: SparkSession, tmp_path: Path, member: str, missing: dict[str, list[int]] | None, severity: str
) -> None:
    run = audit_without_disk(spark, cluster(member, missing), tmp_path)
    [finding] = [candidate for candidate in run.report.findings if candidate.id == "disk-version-missing"]
    assert (finding.bookie_id, finding.severity) == (D, severity)
    # A disk of D is not read: the warning itself does not count, and the run is not complete.
    assert exit_code(run.report, Severity.CRITICAL) == (3 if severity == "warning" else 1)
    assert (finding.urgency == "rest") == (severity == "warning")
