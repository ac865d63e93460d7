"""An audit without --bookies: it reports only metadata findings, and briefly states what is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from auditor import Audit
from auditor.checks import CHECK_BY_ID, Need
from auditor.cli import main
from auditor.model.options import AuditOptions
from auditor.model.report import exit_code
from auditor.notebook.run import open_run
from auditor.reports import first_screen
from tests.corpora.cluster import Cluster
from tests.corpora.corpora import Corpus
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Line = dict[str, Any]

ROOTS = {"interleaved-hier": "/ledgers", "etcd": "/bk/cluster1"}
NEEDS_AN_INDEX = {Need.COPIES, Need.DISKS}
SHOWN_BY_AN_INDEX = ("entry-lost", "below-ack-quorum", "below-write-quorum", "below-quorum-coverage")


def audit(metadata: str, out: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["audit", "--metadata", metadata, "--out", str(out), *options])


def findings(out: Path) -> list[Line]:
    output = CliRunner().invoke(main, ["report", str(out), "--format", "jsonl"]).stdout
    return [json.loads(line) for line in output.splitlines()]


def grades_by_fingerprint(rows: list[Line]) -> dict[str, tuple[str, str, str]]:
    """Return the columns of each finding that do not depend on the bookies' data."""
    return {row["fingerprint"]: (row["id"], row["severity"], row["confidence"]) for row in rows}


@pytest.fixture(scope="module", params=["interleaved-hier", "etcd"])
def corpus(request: pytest.FixtureRequest, corpora: Corpora) -> Corpus:
    return corpora.get(request.param)


def test_audit_without_bookies_has_the_findings_that_need_no_index(
    corpus: Corpus, runs: Runs, spark: SparkSession, tmp_path: Path
) -> None:
    full_run = runs.get(corpus.name)
    assert exit_code(full_run.report, AuditOptions().fail_on) in (1, 3)
    out = tmp_path / "only"
    result = audit(f"dump://{corpus.dump}?root={ROOTS[corpus.name]}", out)
    rows = findings(out)
    (unread,) = [row for row in rows if row["id"] == "bookie-unread"]
    other_rows = [row for row in rows if row["id"] != "bookie-unread"]
    of_metadata = [
        row
        for row in findings(full_run.out)
        if not CHECK_BY_ID[row["id"]].needs & NEEDS_AN_INDEX and row["id"] != "bookie-unread"
    ]
    # An index that was read shows that a registered bookie lacks entries: more ledgers are unavailable.
    sharpened = {(row["id"], row["ledger_id"]) for row in of_metadata} - {
        (row["id"], row["ledger_id"]) for row in other_rows
    }
    lacking = {row["ledger_id"] for row in findings(full_run.out) if row["id"] in SHOWN_BY_AN_INDEX}
    assert {id for id, _ in sharpened} <= {"ledger-unavailable"}
    assert {ledger for _, ledger in sharpened} <= lacking
    of_metadata = [row for row in of_metadata if (row["id"], row["ledger_id"]) not in sharpened]
    assert grades_by_fingerprint(other_rows) == grades_by_fingerprint(of_metadata)
    assert other_rows

    confirmed = any(
        row["severity"] in ("critical", "error") and row["confidence"] == "confirmed" for row in other_rows
    )
    assert result.exit_code == (1 if confirmed else 3)
    report = json.loads((out / "report.json").read_text())
    verdicts = pq.read_table(out / "tables" / "verdicts").to_pylist()
    decided = [row for row in verdicts if row["class"] == row["potential_class"] != "undecided"]
    ledgers = report["coverage"]["ledgers"]
    assert len(decided) == ledgers["decided"] + ledgers["open"] < len(verdicts)
    assert not any(row["unread_bookies"] for row in decided)  # ledgers without an entry need no copy
    assert report["coverage"]["replicas"]["decided"] == 0
    assert report["coverage"]["bookies"]["read"] == 0
    assert (unread["bookie_id"], unread["confidence"]) == (None, "unknown")
    assert unread["unknown"] == report["coverage"]["bookies"]["unread"]
    assert "indexes read" not in report["run"]["operations"]

    screen = first_screen.render(open_run(str(out)).report).splitlines()
    assert len(screen) <= 24
    assert all(len(line) <= 80 for line in screen if "bkaudit explain" not in line)
    assert "none read: --bookies is missing; only metadata was checked" in result.stdout
    assert "not read:" not in result.stdout  # not once more by name

    explanation = CliRunner().invoke(main, ["explain", "run", str(out)]).stdout
    assert explanation.count("no --bookies was given") == 1
    assert explanation.count("--bookies is missing") == 1
    assert "bookie-unread 1" in explanation


def healthy_cluster() -> Cluster:
    cluster = Cluster()
    bookies = [cluster.bookie(f"bk{n}.example:3181") for n in (1, 2, 3)]
    for ledger in range(5):
        cluster.ledger(ledger, {0: bookies}, (2, 2), 19)
    return cluster


def test_healthy_cluster_without_bookies_is_incomplete_and_one_finding_says_why(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = healthy_cluster().write(tmp_path)
    report = Audit(f"dump://{root}/metadata.jsonl", [], str(tmp_path / "run")).run(spark)
    assert (report.verdict, report.counts) == ("incomplete", {"bookie-unread": 1})
    (finding,) = report.findings
    assert finding.message == (
        "no bookie was read: no --bookies was given; 15 replicas on 3 bookies were not checked"
    )
    assert finding.evidence == {
        "read": "unread",
        "reason": "no --bookies was given",
        "bookies": 3,
        "replicas": 15,
    }


def test_cluster_without_ledgers_is_incomplete_when_only_metadata_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    cluster = Cluster()
    cluster.bookie("bk1.example:3181")
    root = cluster.write(tmp_path)
    result = audit(f"dump://{root}/metadata.jsonl", tmp_path / "run", "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)["verdict"]) == (3, "incomplete")
