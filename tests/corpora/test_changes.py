"""A live cluster that changes during its audit, between the first and the second scan of its metadata."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.progress import SilentProgress
from auditor.sources.metadata.store import Znode
from tests.corpora.audited import FindingKey, FinishedRun, audit
from tests.corpora.cluster import DAY, HOUR, Cluster, ledger_path, metadata_bytes
from tests.corpora.plain_readers import PlainLedger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = (f"bk{letter}.example:3181" for letter in "abc")
COMPLETE_LEDGER = PlainLedger("CLOSED", 3, 3, 2, 9, ((0, (A, B, C)),))


class ChangeBetweenScans(SilentProgress):
    """A progress display that changes the cluster just before the second scan."""

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self.done = False

    def table(self, name: str, total: int | None = None) -> None:
        if name == "ledgers_again" and not self.done:
            self.done = True
            client = KazooClient(hosts=self.hosts)
            client.start()
            # 1 is deleted; 2 is deleted although it had lost copies; 3 is rewritten; 6 is created.
            client.delete(_path(1))
            client.delete(_path(2))
            client.set(_path(3), metadata_bytes(COMPLETE_LEDGER))
            client.create(_path(6), metadata_bytes(COMPLETE_LEDGER))
            # The auditor is quick: it marks the new ledger, and one that is gone from both scans.
            for ledger in (5, 6):
                path = f"/ledgers/underreplication/ledgers/0000/0000/0000/{ledger:04x}/urL{ledger:010d}"
                client.create(path, f'replica: "{C}"\n'.encode(), makepath=True)
            client.stop()
            client.close()


def _path(ledger: int) -> str:
    return f"/ledgers/{ledger_path('hierarchical', ledger)}"


def _cluster() -> Cluster:
    cluster = Cluster()
    for bookie in (A, B, C):
        cluster.bookie(bookie)
    cluster.ledger(1, {0: [A, B, C]}, (3, 2), 9)
    for ledger in (2, 3, 4):
        cluster.ledger(ledger, {0: [A, B, C]}, (3, 2), 9, without={C: [4]})
    cluster.hold(5, A, range(10))
    for bookie in (A, B, C):
        cluster.hold(6, bookie, range(10))
    return cluster


@pytest.fixture(scope="module")
def changed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    root = _cluster().write(tmp_path_factory.mktemp("changes"))
    now_s = time.time()
    for mark in (root / "bookies").rglob("lastMark"):
        os.utime(mark, (now_s + HOUR / 1000, now_s + HOUR / 1000))
    for index in (root / "bookies").rglob("*.idx"):
        os.utime(index, (now_s - DAY / 1000, now_s - DAY / 1000))
    znodes = [
        Znode(
            str(row["path"]),
            base64.b64decode(str(row["data"])),
            0,
            0,
            0,
            0,
            0,
            int(str(row["ephemeralOwner"])),
        )
        for row in sorted(_cluster().znodes.values(), key=lambda row: str(row["path"]))
    ]
    with EmbeddedZooKeeper(Path(root / "zookeeper")) as server:
        server.load(znodes)
        between = ChangeBetweenScans(server.hosts)
        # Its bookies are directories: nobody could be asked, and no journal says what the indexes lack.
        run = audit(
            spark,
            f"zk://{server.hosts}/ledgers",
            root / "bookies",
            root / "run",
            progress=between,
            witness="no",
            index_time=round(now_s * 1000) + HOUR,
        )
    assert between.done
    return run


def test_only_ledgers_unchanged_between_scans_have_confirmed_losses(changed: FinishedRun) -> None:
    deleting = [
        FindingKey("orphan-ledger-deleting", ledger, b, "note", "confirmed")
        for ledger in (1, 2)
        for b in (A, B, C)
    ]
    assert sorted(changed.finding_keys()) == sorted(
        [
            *deleting,
            # Rewritten in between: perhaps by the worker that repaired it.
            FindingKey("below-write-quorum", 3, None, "warning", "suspect"),
            FindingKey("below-write-quorum", 4, None, "warning", "confirmed"),
            # Neither scan has it. Of ledger 6, created in between, nothing is said.
            FindingKey("orphan-ledger", 5, A, "note", "confirmed"),
            FindingKey("mark-of-deleted-ledger", None, C, "note", "confirmed"),
            # The queue of marks was made in between as well: whether anybody repairs was not seen.
        ]
    )
