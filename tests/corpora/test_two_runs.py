"""A second audit of the same cluster: findings that a newer index confirms, and findings that it leaves."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.finding import Severity
from auditor.model.report import exit_code
from auditor.sources.metadata.store import Znode
from tests.corpora.audited import FinishedRun, audit
from tests.corpora.cluster import HOUR, Cluster
from tests.corpora.shared import Corpora, Runs
from tests.servers import etcd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDLE = Path(__file__).parents[1] / "data" / "idle-journal" / "bookies.tar.gz"
A, B, C = (f"127.0.0.{number}:1" for number in (1, 2, 3))
"""Bookies that are registered, and where nobody listens: the witness hears none of them."""

SCOPE = "/bk/cluster1"
ORPHANS = range(1000, 1120)
HEALTHY = range(10, 15)


def _load(server: EmbeddedZooKeeper, cluster: Cluster) -> None:
    rows = sorted(cluster.znodes.values(), key=lambda row: str(row["path"]))
    owners = [(row, int(str(row["ephemeralOwner"]))) for row in rows]
    server.load(
        [
            Znode(str(row["path"]), base64.b64decode(str(row["data"])), 0, 0, 0, 0, 0, owner)
            for row, owner in owners
        ]
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as running:
        yield running


def _ms() -> int:
    return time.time_ns() // 1_000_000


def _changes(run: FinishedRun) -> dict[int, str]:
    return {row["ledger_id"]: row["change"] for row in run.table("changes") if row["id"] in CLASSES}


CLASSES = ("entry-lost", "below-ack-quorum", "below-write-quorum")


def _classes(run: FinishedRun) -> dict[int, tuple[str, str]]:
    return {row["ledger_id"]: (row["id"], row["confidence"]) for id in CLASSES for row in run.findings_of(id)}


def test_suspect_loss_without_bookie_responses_is_confirmed_by_a_newer_index(
    spark: SparkSession, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    cluster = Cluster()
    for bookie in (A, B, C):
        cluster.bookie(bookie)
    cluster.ledger(1, {0: [A, B, C]}, (3, 2), 9)
    cluster.ledger(2, {0: [A, B, C]}, (3, 2), 9, without={B: [4], C: [4]})
    cluster.ledger(3, {0: [A, B, C]}, (3, 2), None, state="OPEN", written=5)
    # Its first segment is finished, and lacks a copy; nothing of an open ledger is ever confirmed.
    cluster.ledger(4, {0: [A, B, C], 8: [A, B, C]}, (3, 2), None, state="OPEN", written=10, without={C: [1]})
    cluster.write_indexes(tmp_path / "bookies")
    _load(server, cluster)
    first_index = _ms()

    def run(name: str, index_time: int) -> FinishedRun:
        return audit(
            spark,
            f"zk://{server.hosts}/ledgers",
            tmp_path / "bookies",
            tmp_path / "runs" / name,
            index_time=index_time,
            grace=0,
            timeout=2,
        )

    monday = run("monday", first_index)
    suspects = {2: ("below-ack-quorum", "suspect"), 4: ("below-write-quorum", "suspect")}
    assert _classes(monday) == suspects
    evidence = {row["ledger_id"]: json.loads(row["evidence"]) for row in monday.findings()}
    assert all("did not respond" in doubt for doubt in evidence[2]["doubts"])
    assert evidence[4]["lasting_doubts"] == ["the ledger is not closed"]
    assert exit_code(monday.report, "new") == 3

    # What an index of the same age leaves, and whose run counts of several: `tests.findings.test_two_runs`.
    tuesday = run("tuesday", monday.report.run.finished + 1)
    assert _classes(tuesday) == {2: ("below-ack-quorum", "confirmed"), 4: suspects[4]}
    assert _changes(tuesday) == {2: "worse", 4: "same"}
    assert exit_code(tuesday.report, "new") == 1
    [finding] = tuesday.findings_of("below-ack-quorum")
    assert json.loads(finding["evidence"])["earlier_run"] == {
        "name": "monday",
        "finished": monday.report.run.finished,
    }
    assert ", for the same ledger version and with an older index" in finding["message"]


def test_second_run_on_a_live_etcd_confirms_the_losses_of_the_saved_corpus(
    spark: SparkSession, corpora: Corpora, runs: Runs, tmp_path: Path
) -> None:
    truth = _classes(runs.get("etcd"))
    bookies = corpora.get("etcd").bookies
    with etcd.running(tmp_path / "server", saved=True) as server:
        for mode in ("writable", "readonly"):
            server.ctl("del", "--prefix", f"{SCOPE}/bookies/{mode}/")

        def run(name: str, index_time: str | int) -> FinishedRun:
            out = tmp_path / name
            uri = f"etcd://{server.host}{SCOPE}"
            return audit(spark, uri, bookies, out, index_time=index_time, grace=0, witness="no")

        first = run("runs/first", "2020-01-01T00:00:00Z")
        # Every ledger may have changed up to the moment at which it was read.
        assert {confidence for _, confidence in truth.values()} == {"confirmed"}
        assert _classes(first) == {ledger: (id, "suspect") for ledger, (id, _) in truth.items()}
        second = run("runs/again", first.report.run.finished + 1)
        doubts = [doubt for row in second.table("judged") if row["missing"] for doubt in row["doubts"]]
        assert any("was written shortly after the ledger changed" in doubt for doubt in doubts)
        assert _classes(second) == truth


def test_orphans_that_outlast_garbage_collection_confirm_metadata_suspect(
    spark: SparkSession, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    def cluster() -> Cluster:
        new_cluster = Cluster()
        for bookie in (A, B):
            new_cluster.bookie(bookie)
            for ledger in ORPHANS:
                new_cluster.hold(ledger, bookie, range(3))
        for ledger in HEALTHY:
            new_cluster.ledger(ledger, {0: [A, B]}, (2, 2), 2)
        return new_cluster

    def run(name: str, bookies: Cluster) -> FinishedRun:
        disks = bookies.write(tmp_path / name) / "bookies"
        return audit(spark, f"zk://{server.hosts}/ledgers", disks, tmp_path / "runs" / name)

    def suspects(run: FinishedRun) -> dict[str, str]:
        rows = run.findings_of("metadata-suspect")
        assert {row["severity"] for row in rows} == {"critical"}
        assert {tuple(json.loads(row["evidence"])["rules"]) for row in rows} == {
            ("orphan-share", "large-orphan-share")
        }
        return {row["bookie_id"]: row["confidence"] for row in rows}

    _load(server, cluster())
    first = run("first", cluster())
    assert suspects(first) == {A: "suspect", B: "suspect"}
    assert {row["confidence"] for row in first.findings_of("orphan-ledger")} == {"suspect"}
    assert exit_code(first.report, Severity.ERROR) == 3
    _end_earlier(first.out, 2 * HOUR)
    later = cluster()
    for ledger in ORPHANS[20:]:  # these were collected on b; others were deleted since
        del later.copies[ledger, B]
        later.hold(ledger + 5000, B, range(3))
    last = run("later", later)
    assert suspects(last) == {A: "confirmed", B: "suspect"}
    lasting = {row["bookie_id"]: row["lasting"] for row in last.table("holdings")}
    assert lasting == {A: 120, B: 20}
    assert exit_code(last.report, Severity.ERROR) == 1


def _end_earlier(run: Path, by: int) -> None:
    value: dict[str, Any] = json.loads((run / "report.json").read_text())
    value["run"]["finished"] -= by
    (run / "report.json").write_text(json.dumps(value))
