"""An audit without --bookies: what the metadata says and nothing else, with one word of what is unknown."""

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


def audit(metadata: str, out: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["audit", "--metadata", metadata, "--out", str(out), *more])


def findings(out: Path) -> list[Line]:
    said = CliRunner().invoke(main, ["report", str(out), "--format", "jsonl"]).stdout
    return [json.loads(line) for line in said.splitlines()]


def known(rows: list[Line]) -> dict[str, tuple[str, str, str]]:
    """What does not depend on what was read of a bookie."""
    return {row["fingerprint"]: (row["id"], row["severity"], row["confidence"]) for row in rows}


@pytest.fixture(scope="module", params=["interleaved-hier", "etcd"])
def corpus(request: pytest.FixtureRequest, corpora: Corpora) -> Corpus:
    return corpora.of(request.param)


def test_the_findings_are_those_that_need_no_index(
    corpus: Corpus, runs: Runs, spark: SparkSession, tmp_path: Path
) -> None:
    seen = runs.of(corpus.name)
    assert exit_code(seen.report, AuditOptions().fail_on) in (1, 3)
    out = tmp_path / "only"
    only = audit(f"dump://{corpus.dump}?root={ROOTS[corpus.name]}", out)
    rows = findings(out)
    (unread,) = [row for row in rows if row["id"] == "bookie-unread"]
    rest = [row for row in rows if row["id"] != "bookie-unread"]
    of_metadata = [
        row
        for row in findings(seen.out)
        if not CHECK_BY_ID[row["id"]].needs & NEEDS_AN_INDEX and row["id"] != "bookie-unread"
    ]
    # An index that was read shows that a registered bookie lacks entries: more ledgers are unavailable.
    sharpened = {(row["id"], row["ledger_id"]) for row in of_metadata} - {
        (row["id"], row["ledger_id"]) for row in rest
    }
    lacking = {row["ledger_id"] for row in findings(seen.out) if row["id"] in SHOWN_BY_AN_INDEX}
    assert {id for id, _ in sharpened} <= {"ledger-unavailable"}
    assert {ledger for _, ledger in sharpened} <= lacking
    of_metadata = [row for row in of_metadata if (row["id"], row["ledger_id"]) not in sharpened]
    assert known(rest) == known(of_metadata)
    assert rest

    confirmed = any(
        row["severity"] in ("critical", "error") and row["confidence"] == "confirmed" for row in rest
    )
    assert only.exit_code == (1 if confirmed else 3)
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
    assert "none read: --bookies is missing; only metadata was checked" in only.stdout
    assert "not read:" not in only.stdout  # not once more by name

    told = CliRunner().invoke(main, ["explain", "run", str(out)]).stdout
    assert told.count("no --bookies was given") == 1
    assert told.count("--bookies is missing") == 1
    assert "bookie-unread 1" in told


def healthy() -> Cluster:
    made = Cluster()
    bookies = [made.bookie(f"bk{n}.example:3181") for n in (1, 2, 3)]
    for ledger in range(5):
        made.ledger(ledger, {0: bookies}, (2, 2), 19)
    return made


def test_a_healthy_cluster_is_incomplete_and_its_one_finding_says_why(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = healthy().write(tmp_path)
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


def test_a_cluster_without_a_ledger_is_not_called_healthy_by_its_metadata(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = Cluster()
    made.bookie("bk1.example:3181")
    root = made.write(tmp_path)
    only = audit(f"dump://{root}/metadata.jsonl", tmp_path / "run", "--format", "json")
    assert (only.exit_code, json.loads(only.stdout)["verdict"]) == (3, "incomplete")
