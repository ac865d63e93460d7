"""About how many ledgers a running store has, from a few reads: what a scan of it will cost.

etcd counts keys by itself, and is asked in sixteen spans as a scan asks it. ZooKeeper tells of each znode how
many children it has, so the znodes above the leaves are looked at: level by level, and of a level with
more than `SAMPLED` only as many, evenly spread, each standing for its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from auditor.errors import UsageError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.etcd_spans import key_of
from auditor.sources.store import CLUSTER_CHILDREN, StoreOptions
from auditor.sources.uri import parse_metadata_uri

SAMPLED = 64
"""Znodes of one level that are looked at: some hundreds of reads for a whole tree."""

_LEVELS = (
    (re.compile("[0-9]{2}"), 1, (LayoutKind.HIERARCHICAL, LayoutKind.LEGACY_HIERARCHICAL)),
    (re.compile("[0-9]{3}"), 3, (LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL)),
)
"""Children of the root that hold ledgers, how many levels lie between them and the leaves, and where."""


@dataclass(frozen=True, slots=True)
class LedgerCount:
    """So many ledgers of scope 0 (etcd: of all); ``exact`` where nothing stands for another."""

    ledgers: int
    exact: bool


def count_ledgers(uri: str, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Count or estimate the ledgers of a running store, within ``options``.

    Raises:
        StoreError: it cannot be reached.
        UsageError: the store is a saved one, whose ledgers can only be counted by reading all of it.
    """
    parsed = parse_metadata_uri(uri)
    if parsed.scheme == "zk":
        return _in_zookeeper(parsed.hosts, parsed.root, layout, options)
    if parsed.scheme == "etcd":
        return _in_etcd(parsed.hosts, parsed.root, options)
    raise UsageError(f"{uri}: only a running store can be asked how many ledgers it has")


def _in_etcd(hosts: Sequence[str], scope: str, options: StoreOptions) -> LedgerCount:
    from auditor.sources.etcd_client import EtcdClient
    from auditor.sources.etcd_pages import EtcdPages

    start, end = etcd.children(scope, etcd.LEDGERS)
    edges = [start, *(key_of(scope, bucket << 56) for bucket in range(8, etcd.BUCKET_COUNT, 8)), end]
    client = EtcdClient(hosts, options)
    try:
        return LedgerCount(sum(EtcdPages(client, options).counts(list(pairwise(edges)), 0)), True)
    finally:
        client.close()


def _in_zookeeper(hosts: Sequence[str], root: str, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    from auditor.sources.zk_client import Failed, ZooKeeperReader

    reader = ZooKeeperReader(hosts, options, probe=root)

    def children(paths: Sequence[str]) -> list[str]:
        listed = zip(paths, reader.children(paths), strict=True)
        return [
            f"{path}/{n}" for path, names in listed if not isinstance(names, Failed) for n in sorted(names)
        ]

    def grandchildren(paths: Sequence[str]) -> int:
        return sum(each.stat.num_children for each in reader.data(paths) if not isinstance(each, Failed))

    try:
        if layout is LayoutKind.FLAT:  # the list itself could be too long for one answer
            own = reader.data([f"{root}/{name}" for name in CLUSTER_CHILDREN])
            there = sum(not isinstance(each, Failed) for each in own)
            return LedgerCount(max(0, grandchildren([root]) - there), True)
        tops = children([root])
        ledgers, exact = 0.0, True
        for name, levels, layouts in _LEVELS:
            frontier = [path for path in tops if layout in layouts and name.fullmatch(path[len(root) + 1 :])]
            each_stands_for = 1.0
            for level in range(levels + 1):
                if len(frontier) > SAMPLED:
                    exact = False
                    each_stands_for *= len(frontier) / SAMPLED
                    frontier = [frontier[n * len(frontier) // SAMPLED] for n in range(SAMPLED)]
                if level < levels:
                    frontier = children(frontier)
            ledgers += each_stands_for * grandchildren(frontier)
        return LedgerCount(round(ledgers), exact)
    finally:
        reader.close()
