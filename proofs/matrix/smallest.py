"""The smallest clusters: without ledgers, with one row in each table, and with every entry missing."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from tests.corpora.cluster import Cluster
from tests.servers.zookeeper import write, writer

A, B, C = (f"bk{letter}.example:3181" for letter in "abc")


def nothing_written() -> Cluster:
    """Return a cluster with registered bookies and no ledger."""
    cluster = Cluster()
    cluster.bookie(A)
    cluster.bookie(B)
    return cluster


def one_row() -> Cluster:
    """Return a cluster with one missing copy, one mark, one lock, one orphan and one extra copy."""
    cluster = nothing_written()
    cluster.bookie(C)
    cluster.ledger(1, {0: [A, B]}, (2, 2), 9, without={B: [4]}, extra={C: [4]})
    cluster.mark(1, B)
    cluster.lock(1)
    cluster.hold(2, A, range(3))
    return cluster


def all_missing() -> Cluster:
    """Return a cluster with ledgers but without entries on any bookie."""
    cluster = nothing_written()
    for ledger in (1, 2, 3):
        cluster.ledger(ledger, {0: [A, B]}, (2, 2), 9, without={A: range(10), B: range(10)})
    return cluster


SMALLEST: Mapping[str, Callable[[], Cluster]] = {
    "nothing-written": nothing_written,
    "one-row": one_row,
    "all-missing": all_missing,
}


def lay_out_smallest(name: str, root: Path) -> None:
    """Write one of the smallest clusters: the bookies' directories, and the znodes as ZooKeeper's files."""
    cluster = SMALLEST[name]()
    cluster.write_indexes(root / "bookies")
    # Registrations are persistent znodes: the end of the session would delete ephemeral ones.
    znodes = {path: base64.b64decode(str(row["data"])) for path, row in cluster.znodes.items()}
    with EmbeddedZooKeeper(root / "zookeeper") as server, writer(server.hosts) as client:
        write(client, znodes)
