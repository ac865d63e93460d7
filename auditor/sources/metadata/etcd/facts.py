"""What a running etcd tells about itself: which versions its members are, and how many ledgers it has.

It counts keys by itself, and is asked in sixteen spans as a scan asks it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

from auditor.errors import StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.etcd.client import EtcdClient
from auditor.sources.metadata.etcd.pages import EtcdPages
from auditor.sources.metadata.etcd.spans import key_of
from auditor.sources.metadata.store import LedgerCount, Server, StoreOptions


def count_ledgers(hosts: Sequence[str], scope: str, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Count the ledgers of all scopes. Raises `StoreError` where etcd cannot be reached."""
    start, end = etcd.children(scope, etcd.LEDGERS)
    edges = [start, *(key_of(scope, bucket << 56) for bucket in range(8, etcd.BUCKET_COUNT, 8)), end]
    client = EtcdClient(hosts, options)
    try:
        return LedgerCount(sum(EtcdPages(client, options).counts(list(pairwise(edges)), 0)), True)
    finally:
        client.close()


def probe(host: str, options: StoreOptions) -> Server:
    """Ask one member which version it is (Status)."""
    client = EtcdClient([host], options, sleep=lambda _: None)
    begun = time.monotonic()
    try:
        version = client.version()
    except StoreError as error:
        return Server(host, False, trouble=str(error))
    finally:
        client.close()
    return Server(host, True, (time.monotonic() - begun) * 1000, version)
