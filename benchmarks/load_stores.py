"""Latency of other clients of ZooKeeper and etcd with a million ledgers while an audit scans the metadata.

Servers on loopback are loaded with ledgers. They sync their writes to disk, as in production. The client
reads and writes random ledgers. The scan is the scan of an audit with tasks on two cores, so two
connections share its limits. When a scan ends, a new one begins. This scan is compared with a scan that has
no rate limit. That scan has the largest batch and the most requests in flight that the options allow.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import etcd3
from kazoo.client import KazooClient

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind, to_path
from auditor.model.ledger_id import LedgerId
from auditor.model.options import AuditOptions
from auditor.sources.metadata.store import StoreOptions, Tree, Znode
from auditor.sources.metadata.stores import open_store, store_options
from benchmarks import ledger_records as made
from benchmarks.live_stores import ROOT_PATH, etcd_ids
from benchmarks.load import (
    DEFAULT_LIMITS_NAME,
    PHASE_SECONDS,
    ROUNDS,
    UNLIMITED_NAME,
    AuditWork,
    Phase,
    alternate_works,
    run_processes,
    run_steady_phase,
)
from benchmarks.measure import Line
from tests.servers.etcd import running

LEDGERS = 1_000_000
DIFFERENT_RECORD_COUNT = 10_000
CONNECTIONS = 2
PART_COUNT = 8


def lines(count: int | None = None, rounds: int = ROUNDS, phase_s: float = PHASE_SECONDS) -> Iterator[Line]:
    """Yield the lines of both stores.

    ``count`` is the number of ledgers. None means ``BENCHMARK_LEDGERS`` in the environment, or `LEDGERS`.
    """
    count = count or int(os.environ.get("BENCHMARK_LEDGERS", LEDGERS))
    encoded_records = [
        made.encode_binary(message) for message in made.make_messages(min(count, DIFFERENT_RECORD_COUNT))
    ]
    with tempfile.TemporaryDirectory() as folder:
        with EmbeddedZooKeeper(Path(folder, "zookeeper"), heap=f"{512 + count // 700}m") as server:
            paths = [f"{made.ROOT}/{to_path(made.LAYOUT, ledger)}" for ledger in range(count)]
            server.load(
                Znode(path, znode_data, *[0] * 6)
                for path, znode_data in zip(paths, cycle(encoded_records), strict=False)
            )
            client: Any = KazooClient(hosts=server.hosts)
            client.start()
            phase = _random_requests(client.get, client.set, paths, encoded_records)
            audit_works = _works(f"zk://{server.hosts}{made.ROOT}", made.LAYOUT)
            yield from alternate_works("ZooKeeper", phase, audit_works, rounds, phase_s)
            client.stop()
            client.close()
        with running(Path(folder, "etcd"), flags=["--quota-backend-bytes", str(8 << 30)]) as etcd_member:
            keys = [f"{ROOT_PATH}/{etcd.to_path(LedgerId(number))}" for number in etcd_ids(count)]
            etcd_member.load([(f"{ROOT_PATH}/layout", b""), *zip(keys, cycle(encoded_records), strict=False)])
            host, port = etcd_member.host.split(":")
            with closing(etcd3.client(host=host, port=int(port))) as etcd_client:
                phase = _random_requests(etcd_client.get, etcd_client.put, keys, encoded_records)
                audit_works = _works(f"etcd://{etcd_member.host}{ROOT_PATH}", LayoutKind.ETCD)
                yield from alternate_works("etcd", phase, audit_works, rounds, phase_s)


def _random_requests(
    read: Callable[[str], object],
    write: Callable[[str, bytes], object],
    keys: Sequence[str],
    encoded_records: Sequence[bytes],
) -> Phase:
    return partial(
        run_steady_phase,
        lambda: read(random.choice(keys)),
        lambda: write(random.choice(keys), random.choice(encoded_records)),
    )


def _works(uri: str, layout: LayoutKind) -> dict[str, AuditWork]:
    default_options = store_options(AuditOptions())
    options_by_name = {
        DEFAULT_LIMITS_NAME: default_options,
        UNLIMITED_NAME: replace(default_options, rate_limit=0, in_flight=1_000, batch=10_000),
    }
    return {
        limits_name: partial(
            run_processes,
            scan,
            [
                (uri, layout, replace(options, rate_limit=options.rate_limit / CONNECTIONS), connection)
                for connection in range(CONNECTIONS)
            ],
        )
        for limits_name, options in options_by_name.items()
    }


def scan(uri: str, layout: LayoutKind, options: StoreOptions, connection: int) -> Iterator[int]:
    """Read every ledger of some parts, again and again; yield the number of ledgers in each batch."""
    with closing(open_store(uri, options)) as store:
        while True:
            store.cluster()
            parts = store.parts(Tree.LEDGERS, layout, PART_COUNT)
            for part in parts[connection::CONNECTIONS] or parts:
                for batch in store.read(part):
                    yield len(batch.paths)
