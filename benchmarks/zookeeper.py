"""How fast the ledgers of a running ZooKeeper are read, against a client that asks for one after the other.

A server is started on loopback and loaded with ledgers (`benchmarks.ledger_records`). Ours lists the tree,
reads every znode and checks what vanished, part by part as tasks do, here all in one process. The rival is
kazoo's `get` on the paths of some of them, which it need not list. Both wait for the server, so the clock
counts. The server runs on the same cores: of a busy machine's, ours suffers more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kazoo.client import KazooClient

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.keys.ledger_tree import to_path
from auditor.sources.metadata.ledger_rows import ledger_rows
from auditor.sources.metadata.store import StoreOptions, Tree, Znode
from auditor.sources.metadata.stores import open_store
from benchmarks import ledger_records as made
from benchmarks.measure import Line, alternate

LEDGERS = 20_000
SAMPLE = 1_000
"""The sequential client gets these: it is the slower one by far."""

LIMIT = 5_000.0
"""Znodes a second, listed or read, where a limit is set."""

PARTS = 4
RIVAL = "kazoo, one get after the other"


def lines() -> Iterator[Line]:
    """Every comparison; see the module."""
    written = {
        f"{made.ROOT}/{to_path(made.LAYOUT, ledger)}": made.binary(message)
        for ledger, message in enumerate(made.messages(LEDGERS))
    }
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder, "server")) as server:
        server.load(Znode(path, data, 0, 0, 0, 0, 0, 0) for path, data in written.items())
        _check(server, written)
        sample = list(written)[:: LEDGERS // SAMPLE]
        client = KazooClient(hosts=server.hosts)
        client.start()
        try:
            read, rows, rival = alternate(
                lambda: _read(server),
                lambda: _rows(server),
                lambda: [client.get(path) for path in sample],
            )
        finally:
            client.stop()
            client.close()
        for stage, seconds, target, note in (
            ("live ZooKeeper", read, 30, ""),
            ("live ZooKeeper to ledgers", rows, None, "decoded, with expected entries; the rival has bytes"),
        ):
            yield Line(
                stage, LEDGERS, "ledgers", seconds, RIVAL, len(sample), rival, target=target, note=note
            )
        yield _limited(server)


def _limited(server: EmbeddedZooKeeper) -> Line:
    begun = time.perf_counter()
    operations = _read(server, LIMIT)
    took = time.perf_counter() - begun
    return Line(
        "live ZooKeeper, limit set",
        LIMIT,
        "znodes",
        1,
        "read with it",
        operations,
        took,
        goal=1,
        most=True,
        note=f"{operations:,} znodes read or listed in {took:.2f} s: "
        f"{operations / took:,.0f}/s of {LIMIT:,.0f}",
    )


def _read(server: EmbeddedZooKeeper, limit: float = 0) -> int:
    """Read every ledger; how many znodes were asked for."""
    store = open_store(f"zk://{server.hosts}{made.ROOT}", StoreOptions(rate_limit=limit))
    try:
        for part in store.parts(Tree.LEDGERS, made.LAYOUT, PARTS):
            for _ in store.read(part):
                pass
        operations = store.operations()
        return operations["znodes_read"] + operations["znodes_listed"]
    finally:
        store.close()


def _rows(server: EmbeddedZooKeeper) -> int:
    store = open_store(f"zk://{server.hosts}{made.ROOT}", StoreOptions(rate_limit=0))
    try:
        return sum(
            len(ledger_rows(batch, made.ROOT, made.LAYOUT))
            for part in store.parts(Tree.LEDGERS, made.LAYOUT, PARTS)
            for batch in store.read(part)
        )
    finally:
        store.close()


def _check(server: EmbeddedZooKeeper, written: dict[str, bytes]) -> None:
    store = open_store(f"zk://{server.hosts}{made.ROOT}", StoreOptions(rate_limit=0))
    values = {
        path: data
        for part in store.parts(Tree.LEDGERS, made.LAYOUT, PARTS)
        for batch in store.read(part)
        for path, data in zip(batch.paths, batch.data, strict=True)
        if data
    }
    store.close()
    if values != written:
        sys.exit("what was read is not what was written")
