"""A running etcd as records of a dump, all of it at one revision."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.codecs.ledger_metadata.password import without_password
from auditor.keys import etcd
from auditor.sources.metadata.dump.etcd import key_record
from auditor.sources.metadata.dump.records import unread_record
from auditor.sources.metadata.dump.save_request import Record, SaveRequest, StoreRecords
from auditor.sources.metadata.etcd.client import EtcdClient
from auditor.sources.metadata.etcd.live import EtcdStore
from auditor.sources.metadata.etcd.nodes import is_ledger
from auditor.sources.metadata.etcd.pages import EtcdPages


def read_etcd(wanted: SaveRequest) -> StoreRecords:
    """See `auditor.sources.metadata.dump.save_request.Reader`."""
    store = EtcdStore(wanted.uri, wanted.parsed, wanted.options)
    try:
        cluster = store.cluster()
    finally:
        store.close()
    assert cluster.revision is not None
    return StoreRecords(cluster.scan_time, _batches(wanted, cluster.revision))


def _batches(wanted: SaveRequest, revision: int) -> Iterator[list[Record]]:
    root = wanted.parsed.root
    client = EtcdClient(wanted.parsed.hosts, wanted.options)
    pages = EtcdPages(client, wanted.options)
    try:
        for tree in (root, *wanted.trees):
            above, _, name = tree.rpartition("/")
            key = etcd.key_bytes(tree)
            for start, end in ((key, key + b"\0"), etcd.children(above, name)):
                for page in pages.read(start, end, revision):
                    records = [
                        key_record(key, _kept(key, data, root, wanted.passwords), *numbers)
                        for key, data, *numbers in zip(*page.keys, strict=True)
                    ]
                    yield records + [unread_record(*gap) for gap in page.gaps]
    finally:
        client.close()


def _kept(key: bytes, data: bytes, root: str, passwords: bool) -> bytes:
    if passwords or not data or not is_ledger(root, etcd.key_text(key)):
        return data
    return without_password(data)
