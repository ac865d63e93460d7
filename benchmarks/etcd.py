"""How fast the ledgers of a running etcd are read, against plain paging with the client package.

    python -m benchmarks.etcd [--keys 50000]

A server is started on loopback and loaded with keys as BookKeeper's driver makes them. The plain reader asks
the package's client for one page of 5,000 keys after the other at the first page's revision, and keeps keys
and values; ours cuts the range, checks counts and gives columns. In alternation, the smallest of three.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import etcd3

from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.sources.store import StoreOptions, Tree, open_store
from tests.servers.etcd import Etcd, running

VALUE = b"m" * 140
REPEATS = 3


def load(server: Etcd, count: int) -> None:
    """Ids in 128 buckets, and values of the size of a closed ledger's metadata."""
    ids = ((number % 128 << 56) + number // 128 + 1 for number in range(count))
    server.load([("/bk/layout", b""), *((f"/bk/{etcd.to_path(LedgerId(id_))}", VALUE) for id_ in ids)])


def plain(server: Etcd) -> int:
    """What one would write: a page, the key after its last, the next page."""
    host, port = server.host.split(":")
    client = etcd3.client(host=host, port=int(port))
    start, end = etcd.children("/bk", "ledgers")
    revision = None
    held: list[tuple[bytes, bytes, int]] = []
    while True:
        page = client.get_range_response(start, end, limit=5000, revision=revision)
        revision = page.header.revision
        held += [(kv.key, kv.value, kv.mod_revision) for kv in page.kvs]
        if not page.more:
            client.close()
            return len(held)
        start = page.kvs[-1].key + b"\0"


def ours(server: Etcd, wanted: int) -> int:
    """The store, as one task after the other would read it."""
    store = open_store(f"etcd://{server.host}/bk", StoreOptions(rate_limit=0))
    store.cluster()
    parts = store.parts(Tree.LEDGERS, LayoutKind.ETCD, wanted)
    count = sum(len(batch.paths) for part in parts for batch in store.read(part))
    store.close()
    return count


def main(keys: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        load(server, keys)
        runs: dict[str, Callable[[], int]] = {
            "plain paging with etcd3": lambda: plain(server),
            "the store, one part": lambda: ours(server, 1),
            "the store, eight parts in turn": lambda: ours(server, 8),
        }
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(REPEATS):
            for name, run in runs.items():
                start = time.perf_counter()
                assert run() == keys
                times[name].append(time.perf_counter() - start)
    base = min(times["plain paging with etcd3"])
    print(f"{keys} keys, load {os.getloadavg()[0]:.1f}, smallest of {REPEATS}")
    print(f"{'':32} {'s':>7} {'keys/s':>9} {'of plain':>9}")
    for name, taken in times.items():
        best = min(taken)
        print(f"{name:32} {best:7.3f} {keys / best:9,.0f} {base / best:8.2f}x")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--keys", type=int, default=50_000)
    main(arguments.parse_args().keys)
