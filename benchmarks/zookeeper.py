"""Speed of reading a running ZooKeeper's ledgers, compared with a client that sends single requests.

The benchmark starts a server on loopback and loads ledgers (`benchmarks.ledger_records`). This program
lists the tree, reads every znode and checks which ones vanished. It does so part by part as tasks do, but
in one process. The rival calls kazoo's `get` on the paths of some ledgers, one after the other, and lists
nothing. Both wait for the server, so the benchmark measures elapsed time. The server shares the cores with
this program, so a busy machine slows this program more.
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

LEDGER_COUNT = 20_000
SAMPLE_LEDGER_COUNT = 1_000
"""Number of ledgers for the sequential client, which is far slower."""

RATE_LIMIT = 5_000.0
"""Rate limit of the last line, in znodes listed or read per second."""

PART_COUNT = 4
RIVAL_NAME = "kazoo, one get after the other"


def lines() -> Iterator[Line]:
    """Yield lines for reading znodes, for decoded ledgers, and for reading with a rate limit."""
    written_data = {
        f"{made.ROOT}/{to_path(made.LAYOUT, ledger)}": made.encode_binary(message)
        for ledger, message in enumerate(made.make_messages(LEDGER_COUNT))
    }
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder, "server")) as server:
        server.load(Znode(path, znode_data, 0, 0, 0, 0, 0, 0) for path, znode_data in written_data.items())
        _check_read_data(server, written_data)
        sample = list(written_data)[:: LEDGER_COUNT // SAMPLE_LEDGER_COUNT]
        client = KazooClient(hosts=server.hosts)
        client.start()
        try:
            read_seconds, rows, rival_seconds = alternate(
                lambda: _read_ledgers(server),
                lambda: _count_rows(server),
                lambda: [client.get(path) for path in sample],
            )
        finally:
            client.stop()
            client.close()
        for stage, seconds, desired_ratio, note in (
            ("live ZooKeeper", read_seconds, 30, ""),
            ("live ZooKeeper to ledgers", rows, None, "decoded, with expected entries; the rival has bytes"),
        ):
            yield Line(
                stage,
                LEDGER_COUNT,
                "ledgers",
                seconds,
                RIVAL_NAME,
                len(sample),
                rival_seconds,
                target=desired_ratio,
                note=note,
            )
        yield _measure_rate_limit(server)


def _measure_rate_limit(server: EmbeddedZooKeeper) -> Line:
    start_time = time.perf_counter()
    znode_count = _read_ledgers(server, RATE_LIMIT)
    read_seconds = time.perf_counter() - start_time
    return Line(
        "live ZooKeeper, limit set",
        RATE_LIMIT,
        "znodes",
        1,
        "read with it",
        znode_count,
        read_seconds,
        goal=1,
        most=True,
        note=f"{znode_count:,} znodes read or listed in {read_seconds:.2f} s: "
        f"{znode_count / read_seconds:,.0f}/s of {RATE_LIMIT:,.0f}",
    )


def _read_ledgers(server: EmbeddedZooKeeper, rate_limit: float = 0) -> int:
    """Read every ledger; return the number of znodes read or listed. A rate limit of 0 means no limit."""
    store = open_store(f"zk://{server.hosts}{made.ROOT}", StoreOptions(rate_limit=rate_limit))
    try:
        for store_part in store.parts(Tree.LEDGERS, made.LAYOUT, PART_COUNT):
            for _ in store.read(store_part):
                pass
        znode_count = store.operations()
        return znode_count["znodes_read"] + znode_count["znodes_listed"]
    finally:
        store.close()


def _count_rows(server: EmbeddedZooKeeper) -> int:
    store = open_store(f"zk://{server.hosts}{made.ROOT}", StoreOptions(rate_limit=0))
    try:
        return sum(
            len(ledger_rows(batch, made.ROOT, made.LAYOUT))
            for store_part in store.parts(Tree.LEDGERS, made.LAYOUT, PART_COUNT)
            for batch in store.read(store_part)
        )
    finally:
        store.close()


def _check_read_data(server: EmbeddedZooKeeper, written_data: dict[str, bytes]) -> None:
    store = open_store(f"zk://{server.hosts}{made.ROOT}", StoreOptions(rate_limit=0))
    read_data = {
        path: znode_data
        for store_part in store.parts(Tree.LEDGERS, made.LAYOUT, PART_COUNT)
        for batch in store.read(store_part)
        for path, znode_data in zip(batch.paths, batch.data, strict=True)
        if znode_data
    }
    store.close()
    if read_data != written_data:
        sys.exit("what was read is not what was written")
