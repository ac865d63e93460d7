"""A running ZooKeeper as records of a dump, parents first: ledgers' root, then what lies beside it.

ZooKeeper has no moment to read all at. What is made or deleted meanwhile is in the dump or is not, and a
znode below which something vanished and came again is said not to be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.codecs.ledger_metadata.password import without_password
from auditor.sources.metadata.dump.records import unread_record
from auditor.sources.metadata.dump.save import Record, SaveRequest, StoreRecords
from auditor.sources.metadata.dump.zookeeper import znode_record
from auditor.sources.metadata.store import Tree, Znode, tree_of
from auditor.sources.metadata.zookeeper.client import NO_NODE, FailedRead, ZooKeeperReader
from auditor.sources.metadata.zookeeper.live import ZooKeeperStore
from auditor.sources.metadata.zookeeper.walk import Top, walk


def read_zookeeper(wanted: SaveRequest) -> StoreRecords:
    """See `auditor.sources.metadata.dump.save.Reader`."""
    store = ZooKeeperStore(wanted.uri, wanted.options)
    try:
        # It says in its own words what is wrong with hosts, rights or the root.
        began = store.cluster().scan_time
    finally:
        store.close()
    return StoreRecords(began, _batches(wanted))


def _batches(wanted: SaveRequest) -> Iterator[list[Record]]:
    root = wanted.uri.root
    reader = ZooKeeperReader(wanted.uri.hosts, wanted.options, probe=root)
    try:
        there = [
            tree
            for tree, answer in zip(wanted.trees, reader.data(wanted.trees), strict=True)
            if not (isinstance(answer, FailedRead) and answer.code == NO_NODE)
        ]
        # A walk takes the last top first.
        for znodes, gaps in walk(reader, [Top(path) for path in reversed([root, *there])]):
            records = [znode_record(_znode_to_save(znode, root, wanted.passwords)) for znode in znodes]
            yield records + [unread_record(*gap) for gap in gaps]
    finally:
        reader.close()


def _znode_to_save(znode: Znode, root: str, passwords: bool) -> Znode:
    below = znode.path.removeprefix(f"{root}/")
    if passwords or not znode.data or below == znode.path or tree_of(below) is not Tree.LEDGERS:
        return znode
    return znode._replace(data=without_password(znode.data))
