"""Leftovers in the replication queue, as every kind of ZooKeeper store shows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor import Audit
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.options import AuditOptions
from auditor.sources.metadata.mark_rows import mark_rows
from auditor.sources.metadata.store import StoreOptions, Tree
from auditor.sources.metadata.stores import open_store
from tests.corpora.audited import FindingKey, FinishedRun
from tests.corpora.cluster import HOUR, NOW_MS, Cluster
from tests.corpora.generator import stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, LOST = (f"bk{letter}.example:3181" for letter in "abc")
KINDS = ("zk-dump", "zk-logs", "zk-snapshot", "zk-live")
EMPTY_COUNT = 100
EMPTY = {f"/ledgers/underreplication/ledgers/0000/0000/000f/{number:04x}" for number in range(EMPTY_COUNT)}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield stores of four ledgers (three marked, one of them empty), two locks, unmarked directories."""
    cluster = Cluster()
    for bookie in (A, B):
        cluster.bookie(bookie)
    cluster.bookie(LOST, registered=None)
    # A server that runs dates by today's clock, the saved files by the cluster's.
    day_old = NOW_MS - time.time_ns() // 1_000_000 + 30 * HOUR
    for ledger, last in ((1, -1), (2, 9), (3, 9)):
        cluster.ledger(ledger, {0: [A, B, LOST]}, (3, 2), last)
    for ledger in (1, 2):
        cluster.mark(ledger, LOST, age=day_old)
    cluster.mark(3, LOST, age=day_old)
    cluster.lock(3)  # a worker is at it
    cluster.ledger(4, {0: [A, B]}, (2, 2), 9)
    cluster.lock(4, age=2 * HOUR)
    cluster.empty_directories(EMPTY_COUNT)
    with stored(cluster, tmp_path_factory.mktemp("leftovers"), *KINDS) as uris:
        yield uris


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part_count", [1, 5])
def test_empty_mark_directories_get_rows_along_with_marks_and_locks(
    kind: str, part_count: int, stores: dict[str, str]
) -> None:
    store = open_store(stores[kind], StoreOptions())
    try:
        parts = store.parts(Tree.MARKS, LayoutKind.HIERARCHICAL, part_count)
        batches = [batch for part in parts for batch in store.read(part)]
    finally:
        store.close()
    rows = [row for batch in batches for row in mark_rows(batch, store.root).to_pylist()]
    paths = {kind: {row["path"] for row in rows if row["kind"] == kind} for kind in ("mark", "lock", "gap")}
    assert (len(paths["mark"]), len(paths["lock"]), len(paths["gap"])) == (3, 2, 0)
    directories = {row["path"] for row in rows if row["kind"] == "directory"}
    above = {row["path"].rpartition("/")[0] for row in rows if row["kind"] != "lock"}
    assert directories - above == EMPTY
    if kind == "zk-live":  # which counts children
        assert directories == EMPTY


@pytest.mark.parametrize("kind", ["zk-dump", "zk-live"])
def test_replication_queue_leftovers_get_findings(
    kind: str, stores: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    report = Audit(stores[kind], [], str(tmp_path / "run"), AuditOptions()).run(spark)
    findings = FinishedRun(report, tmp_path / "run").finding_keys()
    ids = ("mark-of-empty-ledger", "mark-stuck", "mark-directory-empty", "lock-without-mark")
    expected = {
        FindingKey("mark-of-empty-ledger", None, LOST, "note", "confirmed"),
        FindingKey("mark-stuck", 2, None, "warning", "confirmed"),
        FindingKey(
            "mark-directory-empty", None, None, "note", "suspect" if kind == "zk-live" else "confirmed"
        ),
    }
    if kind == "zk-dump":  # elsewhere the server dated it, a moment ago
        expected.add(FindingKey("lock-without-mark", 4, None, "note", "suspect"))
    assert {finding for finding in findings if finding.id in ids} == expected
