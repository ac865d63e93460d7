"""A broker's values for one topic or log of each kind. The tests of their readers use them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kazoo.client import KazooClient

from auditor.keys.pulsar import NodeKind, names_of
from proofs.pulsar.cluster import Pulsar

KINDS = "kinds/"
TREES = ("/managed-ledgers/kinds", "/schemas/kinds")
LOGS = "/pulsar/functions"


def write_values(pulsar: Pulsar, directory: Path) -> Path:
    """Write the values of a running Pulsar to a file for its release and compression; return the file.

    ``znodes`` has values by path, ``logs`` those of DistributedLog, and ``entries`` the last entries by
    cursor ledger, all in hex. ``infos`` has the broker's reading of a topic's znodes, ``topics`` its state
    in memory.
    """
    client = KazooClient(pulsar.zookeeper)
    client.start()
    try:
        znodes = {path: value for tree in TREES for path, value in _values(client, tree)}
        logs = dict(_values(client, LOGS))
    finally:
        client.stop()
        client.close()
    topics = {name: topic_view for name, topic_view in pulsar.view.items() if name.startswith(KINDS)}
    cursors = {str(ledger) for topic_view in topics.values() for ledger in topic_view["cursors"].values()}
    content = {
        "release": pulsar.release,
        "compression": pulsar.compression,
        "threshold": pulsar.threshold,
        "znodes": znodes,
        "logs": logs,
        "entries": {ledger: entry for ledger, entry in pulsar.entries.items() if ledger in cursors},
        "infos": {name: info for name, info in pulsar.infos.items() if name in topics},
        "topics": topics,
    }
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{pulsar.release}-{pulsar.compression}.json"
    file.write_text(json.dumps(content, sort_keys=True) + "\n")
    return file


def _values(client: KazooClient, path: str) -> Iterator[tuple[str, str]]:
    """Yield the paths and values of znodes that name ledgers, at and below a path."""
    value, _ = client.get(path)
    if value and names_of(path[1:]).kind is not NodeKind.INNER:
        yield path, value.hex()
    for name in client.get_children(path):
        yield from _values(client, f"{path}/{name}")
