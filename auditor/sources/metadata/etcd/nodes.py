"""The cluster's own keys of a saved etcd, under the names that they have in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.keys import etcd
from auditor.sources.metadata.store import NO_TIME, Znode, tree_of

NOTE = "etcd keeps no times and no under-replication marks"
PATHS_NOTE = "etcd keeps no times"


def key_znode(
    path: str, data: bytes, create_revision: int, mod_revision: int, lease: int, version: int
) -> Znode:
    """An etcd key as `Znode` describes it; ``version`` is etcd's own: how often it was written.

    >>> key_znode("/bk/layout", b"", 2, 9, 0, 3).version
    9
    """
    return Znode(path, data, create_revision, mod_revision, NO_TIME, NO_TIME, mod_revision, lease, version)


def is_ledger(root: str, path: str) -> bool:
    """Whether a key is in the part of the metadata that grows with the number of ledgers.

    >>> is_ledger("/bk", "/bk/ledgers/x"), is_ledger("/bk", "/bk/ledgers")
    (True, False)
    """
    return path.startswith(f"{root}/{etcd.LEDGERS}/")


def by_node_name(root: str, keys: Iterable[Znode]) -> dict[str, Znode]:
    """Keys by their ZooKeeper names (`auditor.keys.etcd.node_name`); what has none is left out.

    >>> list(by_node_name("/bk", [key_znode("/bk/bookies/writable/b:3181", b"", 2, 2, 7, 1)]))
    ['available/b:3181']
    """
    nodes: dict[str, Znode] = {}
    for znode in keys:
        name = etcd.node_name(znode.path[len(root) + 1 :])
        if name is not None:
            nodes[name] = znode
    return nodes


def own_nodes(root: str, keys: Iterable[Znode]) -> dict[str, Znode]:
    """Keys that are ZooKeeper's paths, by their names below the root: those that are no ledger and no mark.

    >>> names = ("available/b:3181", "00/0000/L0001")
    >>> list(own_nodes("/ledgers", [key_znode(f"/ledgers/{name}", b"", 2, 2, 7, 1) for name in names]))
    ['available/b:3181']
    """
    below = ((znode.path[len(root) + 1 :], znode) for znode in keys if len(znode.path) > len(root) + 1)
    return {name: znode for name, znode in below if tree_of(name) is None}
