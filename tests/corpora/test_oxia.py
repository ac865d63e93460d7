"""One tree in a running ZooKeeper and in a running Oxia: the findings are the same, and `compare` agrees."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.compare.stores import compare_stores
from auditor.model.report import EXIT_CLEAN
from auditor.model.run_facts import sentence_of
from auditor.sources.metadata.oxia.questions import MIXED_TIMES_NOTE
from tests.corpora.audited import FinishedRun, Row, audit
from tests.corpora.cluster import NOW_MS, Cluster
from tests.corpora.generator import on_disk, stored
from tests.corpora.test_synthetic import (
    BOOKIES,
    A,
    B,
    Oddities,
    identity,
    marks,
    metadata,
    replication,
    storage,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE_EVIDENCE = {"metadata_version", "version", "since", "mtime", "oldest", "held_since", "minutes"}
"""Evidence that follows from a store's own versions, and from when its server took the tree."""

TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|[\d.]+ (minutes|hours|days)")
"""Moments and ages in a message."""

CHECKS = {
    *("below-ack-quorum", "below-write-quorum", "bookie-down", "bookie-id-invalid", "bookie-unread"),
    *("cookie-key-mismatch", "cookie-missing", "cookie-unreadable", "cookie-unused", "copy-in-flight"),
    *("disk-id-mismatch", "endpoint-duplicate", "ensemble-duplicate", "ensemble-size", "ghost-bookie"),
    *("instance-mismatch", "ledger-open-long", "ledger-unavailable", "lock-without-mark"),
    *("lost-bookie-delay-long", "mark-directory-empty", "mark-missing", "mark-of-deleted-ledger"),
    *("mark-of-empty-ledger", "mark-stale", "mark-stuck", "mark-unknown-replica", "mark-unreadable"),
    *("metadata-misplaced", "metadata-suspect", "metadata-unreadable", "no-auditor"),
    *("on-unregistered-bookie", "orphan-ledger", "over-replicated-ledger", "quorum-invalid"),
    *("recovery-stuck", "registered-twice", "registration-not-ephemeral", "replication-disabled"),
    *("segment-gap", "stale-segment", "start-refused", "stray-file"),
}


class StoreAudits(NamedTuple):
    """The tree's audits in both stores, and the exit code and differences of `compare`."""

    zookeeper: FinishedRun
    oxia: FinishedRun
    compared: tuple[int, int]


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StoreAudits:
    root = tmp_path_factory.mktemp("both")
    cluster = tree()
    bookies = on_disk(cluster, root / "bookies")
    with stored(cluster, root / "stores", "zk-live", "oxia-live") as uris:
        # The servers' clocks are today's, and the files are the cluster's; its bookies do not run.
        zookeeper, oxia = (
            audit(spark, uris[kind], bookies, root / kind / "run", scan_time=NOW_MS, witness="no")
            for kind in ("zk-live", "oxia-live")
        )
        with compare_stores(uris["zk-live"], uris["oxia-live"], spark=spark) as (comparison, _):
            compared = comparison.exit_code, comparison.differences
    return StoreAudits(zookeeper, oxia, compared)


def tree() -> Cluster:
    """Return the cluster of `tests.corpora.test_synthetic` without its many ledgers, plus store nodes."""
    odd = Oddities()
    cluster = odd.cluster
    for bookie in BOOKIES:
        cluster.bookie(bookie)
    for add in (storage, replication, metadata, identity, marks):
        add(odd)
    cluster.mark(9_999, A)
    cluster.node("/ledgers/underreplication/ledgers/0000/0000/0000/0001/urL0000000001", b"replica: 7")
    cluster.node("/ledgers/underreplication/disable")
    cluster.node("/ledgers/underreplication/lostBookieRecoveryDelay", b"100000")
    cluster.node(f"/ledgers/available/readonly/{B}", owner=1)
    info = BookieServiceInfoFormat()
    info.endpoints.add(id="bookie", host="127.0.0.9", port=3181, protocol="bookie-rpc")
    for name in ("one-host", "same-host"):
        cluster.bookie(name)
        cluster.node(f"/ledgers/available/{name}", info.SerializeToString(), owner=1)
    return cluster


def comparable(audited: FinishedRun) -> list[Row]:
    """Return all findings in order, without the values that differ between stores."""
    return [
        row
        | {
            "evidence": _strip(json.loads(row["evidence"])),
            "message": TIME_TEXT.sub("a time", row["message"]),
        }
        for row in audited.findings()
    ]


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _strip(inner) for name, inner in value.items() if name not in STORE_EVIDENCE}
    return [_strip(inner) for inner in value] if isinstance(value, list) else value


def test_oxia_findings_equal_zookeeper_findings(both: StoreAudits) -> None:
    assert {row["id"] for row in both.zookeeper.findings()} == CHECKS
    assert comparable(both.oxia) == comparable(both.zookeeper)
    assert both.oxia.report.verdict == both.zookeeper.report.verdict


def test_oxia_tree_equals_zookeeper_tree_and_run_notes_mixed_times(both: StoreAudits) -> None:
    assert both.compared == (EXIT_CLEAN, 0)
    oxia, zookeeper = both.oxia.report.run, both.zookeeper.report.run
    assert (oxia.keeps_marks, oxia.keeps_times) == (zookeeper.keeps_marks, zookeeper.keeps_times)
    assert {*(oxia.blind or ())} == {*(zookeeper.blind or ())}
    assert MIXED_TIMES_NOTE in map(sentence_of, oxia.remarks)
    for name in ("registrations", "verdicts"):
        assert len(both.oxia.table(name)) == len(both.zookeeper.table(name))
    # Rows of directories above marks come from where a store was read in parts.
    tables = [run.table("marks") for run in (both.zookeeper, both.oxia)]
    queued = [{(row["kind"], row["path"]) for row in rows if row["kind"] != "directory"} for rows in tables]
    assert queued[0] == queued[1]
