"""Faults that a seed plants in the metadata of a running Pulsar, and the findings that an audit must report.

Each kind of fault has its own topics, so that none hides another.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from kazoo.client import KazooClient

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarManagedLedgerInfo
from auditor.codecs.pulsar.managed_ledger import parse
from auditor.keys.ledger_path import HIERARCHICAL

LISTS = "/managed-ledgers"
SCHEMAS = "/schemas"


class Expected(NamedTuple):
    """A finding that an audit must report: its check id and its ledger."""

    id: str
    ledger_id: int


def plant(zookeeper: str, view: Mapping[str, Any], seed: int) -> set[Expected]:
    """Damage one topic in each way; return exactly the findings that an audit must report.

    ``view`` is the broker's view: topic (``tenant/namespace/name``) -> ledgers, cursors, schemas.
    """
    own = sorted(topic for topic in view if "/__" not in topic and not topic.startswith("kinds/"))
    topics = random.Random(seed).sample(own, len(own))
    assert len(topics) >= len(WAYS), "there are fewer topics than ways"
    client = KazooClient(zookeeper)
    client.start()
    try:
        expected: set[Expected] = set()
        for way, topic in zip(WAYS, topics, strict=False):
            expected |= way(client, topic, view[topic])
    finally:
        client.stop()
        client.close()
    return expected


def path_of_list(topic: str) -> str:
    """Return the path of a topic's ledger list. The topic's cursors are below it.

    >>> path_of_list("shop/orders/topic-1")
    '/managed-ledgers/shop/orders/persistent/topic-1'
    """
    tenant, namespace, name = topic.split("/")
    return f"{LISTS}/{tenant}/{namespace}/persistent/{name}"


def _delete_topic(client: KazooClient, topic: str, topic_view: Any) -> set[Expected]:
    """Delete the ledger list of a topic and its cursors. The separate list of its schemas stays."""
    client.delete(path_of_list(topic), recursive=True)
    leaked = [*(ledger["ledger"] for ledger in topic_view["ledgers"]), *_cursors(topic_view)]
    return {Expected("ledger-unowned", id) for id in leaked}


def _unlist(client: KazooClient, topic: str, topic_view: Any) -> set[Expected]:
    """Remove one ledger from the middle of the list."""
    ledger_id = topic_view["ledgers"][1]["ledger"]
    info = _read_list(client, topic)
    ledgers = [ledger for ledger in info.ledgerInfo if ledger.ledgerId != ledger_id]
    del info.ledgerInfo[:]
    info.ledgerInfo.extend(ledgers)
    client.set(path_of_list(topic), info.SerializeToString())
    return {Expected("ledger-unowned", ledger_id)}


def _alter_length(client: KazooClient, topic: str, topic_view: Any) -> set[Expected]:
    """Change a ledger's number of entries in the list, so that it differs from BookKeeper's."""
    info = _read_list(client, topic)
    info.ledgerInfo[0].entries += 3
    client.set(path_of_list(topic), info.SerializeToString())
    return {Expected("owner-length-mismatch", topic_view["ledgers"][0]["ledger"])}


def _remove_data(client: KazooClient, topic: str, topic_view: Any) -> set[Expected]:
    return _remove_metadata(client, topic_view["ledgers"][1]["ledger"])


def _remove_schema(client: KazooClient, topic: str, topic_view: Any) -> set[Expected]:
    return _remove_metadata(client, topic_view["schemas"][0])


def _remove_cursor(client: KazooClient, topic: str, topic_view: Any) -> set[Expected]:
    return _remove_metadata(client, _cursors(topic_view)[0])


def _forget_schemas(client: KazooClient, topic: str, topic_view: Any) -> set[Expected]:
    client.delete(f"{SCHEMAS}/{topic}")
    return {Expected("ledger-unowned", id) for id in topic_view["schemas"]}


def _remove_metadata(client: KazooClient, ledger_id: int) -> set[Expected]:
    client.delete(f"/ledgers/{HIERARCHICAL.to_path(ledger_id)}")
    return {Expected("owner-dangling", ledger_id)}


def _cursors(topic_view: Any) -> list[int]:
    """Return the ledgers of all subscriptions that have one."""
    return sorted(id for id in topic_view["cursors"].values() if id >= 0)


def _read_list(client: KazooClient, topic: str) -> PulsarManagedLedgerInfo:
    data, _ = client.get(path_of_list(topic))
    return parse(PulsarManagedLedgerInfo, data, "Pulsar managed ledger")[0]


WAYS = (_delete_topic, _unlist, _remove_data, _remove_schema, _forget_schemas, _remove_cursor, _alter_length)
"""The ways to damage a topic. Each gets its own topic."""
