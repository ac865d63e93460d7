"""A disk that is gone, before and after its ledgers were copied to other bookies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.model.finding import Severity
from auditor.model.report import exit_code
from tests.corpora.audited import Audited, audit
from tests.corpora.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C, D = (f"bk{letter}.example:3181" for letter in "abcd")


def cluster(member: str, missing: dict[str, list[int]] | None = None) -> Cluster:
    """Four bookies, one of which may have been replaced by another in all ledgers."""
    made = Cluster(ledger_dirs=("ledgers0", "ledgers1"))
    for bookie in (A, B, C, D):
        made.bookie(bookie)
    for ledger in range(4):
        made.ledger(ledger, {0: [A, B, member]}, (3, 2), 9, without=missing if ledger == 0 else None)
    return made


def audit_without_disk(spark: SparkSession, made: Cluster, home: Path) -> Audited:
    """Audit the cluster with an empty directory where the disk of D was."""
    root = made.write(home)
    disk = root / "bookies" / D.replace(":", "_") / "ledgers1"
    shutil.rmtree(disk)
    (disk / "current").mkdir(parents=True)
    return audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", home / "run")


@pytest.mark.parametrize(
    ("member", "missing", "severity"),
    [(D, None, "critical"), (C, {A: [4]}, "critical"), (C, None, "warning")],
    ids=["a member of ledgers", "released, while an entry lacks a copy", "released"],
)
def test_a_missing_disk_is_critical_until_nothing_can_need_it(
    spark: SparkSession, tmp_path: Path, member: str, missing: dict[str, list[int]] | None, severity: str
) -> None:
    run = audit_without_disk(spark, cluster(member, missing), tmp_path)
    [found] = [each for each in run.report.findings if each.id == "disk-version-missing"]
    assert (found.bookie_id, found.severity) == (D, severity)
    # A disk of D is not read: the warning itself does not count, and the run is not complete.
    assert exit_code(run.report, Severity.CRITICAL) == (3 if severity == "warning" else 1)
    assert (found.urgency == "rest") == (severity == "warning")
