"""A running etcd as records of a dump, all of it at one revision."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.codecs.ledger_metadata.password import without_password
from auditor.keys import etcd
from auditor.sources.metadata.dump.etcd import key_record
from auditor.sources.metadata.dump.records import unread_record
from auditor.sources.metadata.dump.save import Record, SaveRequest, StoreRecords
from auditor.sources.metadata.etcd.client import EtcdClient
from auditor.sources.metadata.etcd.live import EtcdStore, PathEtcdStore
from auditor.sources.metadata.etcd.nodes import is_ledger
from auditor.sources.metadata.etcd.pages import EtcdPages
from auditor.sources.metadata.store import Tree, tree_of
from auditor.sources.metadata.uri import PATHS_ETCD, MetadataUri


def read_etcd(wanted: SaveRequest) -> StoreRecords:
    """See `auditor.sources.metadata.dump.save.Reader`."""
    kind = PathEtcdStore if wanted.uri.scheme == PATHS_ETCD else EtcdStore
    store = kind(wanted.uri, wanted.options)
    try:
        cluster = store.cluster()
    finally:
        store.close()
    assert cluster.revision is not None
    return StoreRecords(cluster.scan_time, _batches(wanted, cluster.revision))


def _batches(wanted: SaveRequest, revision: int) -> Iterator[list[Record]]:
    root = wanted.uri.root
    client = EtcdClient(wanted.uri.hosts, wanted.options)
    pages = EtcdPages(client, wanted.options)
    try:
        for tree in (root, *wanted.trees):
            above, _, name = tree.rpartition("/")
            key = etcd.key_bytes(tree)
            for start, end in ((key, key + b"\0"), etcd.children(above, name)):
                for page in pages.read(start, end, revision):
                    records = [
                        key_record(key, _data_to_save(key, data, wanted), *numbers)
                        for key, data, *numbers in zip(*page.keys, strict=True)
                    ]
                    yield records + [unread_record(*gap) for gap in page.gaps]
    finally:
        client.close()


def _data_to_save(key: bytes, data: bytes, wanted: SaveRequest) -> bytes:
    if wanted.passwords or not data or not _is_ledger(etcd.key_text(key), wanted.uri):
        return data
    return without_password(data)


def _is_ledger(path: str, parsed: MetadataUri) -> bool:
    if parsed.scheme != PATHS_ETCD:
        return is_ledger(parsed.root, path)
    return path.startswith(f"{parsed.root}/") and tree_of(path[len(parsed.root) + 1 :]) is Tree.LEDGERS
