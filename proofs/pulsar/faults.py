"""Faults that a seed plants in the metadata of a running Pulsar, and what an audit should say of each.

Every kind takes topics of its own, so that none hides another.
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
    """A finding that an audit must have: its check, and the ledger that it is about."""

    id: str
    ledger_id: int


def plant(zookeeper: str, view: Mapping[str, Any], seed: int) -> set[Expected]:
    """Spoil one topic in each way; returns what must be found, all of it and nothing else.

    ``view`` is the broker's: topic (``tenant/namespace/name``) -> ledgers, cursors, schemas.
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
    """Where a topic's list of ledgers is; its cursors are below.

    >>> path_of_list("shop/orders/topic-1")
    '/managed-ledgers/shop/orders/persistent/topic-1'
    """
    tenant, namespace, name = topic.split("/")
    return f"{LISTS}/{tenant}/{namespace}/persistent/{name}"


def _delete_topic(client: KazooClient, topic: str, said: Any) -> set[Expected]:
    """Its list and its cursors' go; its schemas keep their own list."""
    client.delete(path_of_list(topic), recursive=True)
    leaked = [*(each["ledger"] for each in said["ledgers"]), *_cursors(said)]
    return {Expected("ledger-unowned", id) for id in leaked}


def _unlist(client: KazooClient, topic: str, said: Any) -> set[Expected]:
    """One ledger in the middle is taken out of the list."""
    gone = said["ledgers"][1]["ledger"]
    info = _read_list(client, topic)
    kept = [each for each in info.ledgerInfo if each.ledgerId != gone]
    del info.ledgerInfo[:]
    info.ledgerInfo.extend(kept)
    client.set(path_of_list(topic), info.SerializeToString())
    return {Expected("ledger-unowned", gone)}


def _alter_length(client: KazooClient, topic: str, said: Any) -> set[Expected]:
    """The list says another number of entries than BookKeeper."""
    info = _read_list(client, topic)
    info.ledgerInfo[0].entries += 3
    client.set(path_of_list(topic), info.SerializeToString())
    return {Expected("owner-length-mismatch", said["ledgers"][0]["ledger"])}


def _remove_data(client: KazooClient, topic: str, said: Any) -> set[Expected]:
    return _remove_metadata(client, said["ledgers"][1]["ledger"])


def _remove_schema(client: KazooClient, topic: str, said: Any) -> set[Expected]:
    return _remove_metadata(client, said["schemas"][0])


def _remove_cursor(client: KazooClient, topic: str, said: Any) -> set[Expected]:
    return _remove_metadata(client, _cursors(said)[0])


def _forget_schemas(client: KazooClient, topic: str, said: Any) -> set[Expected]:
    client.delete(f"{SCHEMAS}/{topic}")
    return {Expected("ledger-unowned", id) for id in said["schemas"]}


def _remove_metadata(client: KazooClient, ledger_id: int) -> set[Expected]:
    client.delete(f"/ledgers/{HIERARCHICAL.to_path(ledger_id)}")
    return {Expected("owner-dangling", ledger_id)}


def _cursors(said: Any) -> list[int]:
    """The ledgers of subscriptions that have one."""
    return sorted(id for id in said["cursors"].values() if id >= 0)


def _read_list(client: KazooClient, topic: str) -> PulsarManagedLedgerInfo:
    data, _ = client.get(path_of_list(topic))
    return parse(PulsarManagedLedgerInfo, data, "Pulsar managed ledger")[0]


WAYS = (_delete_topic, _unlist, _remove_data, _remove_schema, _forget_schemas, _remove_cursor, _alter_length)
"""Each spoils a topic of its own."""
