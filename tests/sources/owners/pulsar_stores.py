"""The metadata of a real Pulsar: the server's files, and the same data saved in other forms."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.spark_source import ReadingOptions
from auditor.sources.metadata.store import StoreOptions, Tree, Znode
from auditor.sources.metadata.stores import open_store
from auditor.sources.owners.applications import parse_owners_uri
from auditor.sources.owners.spark_source import OwnerReader

FILES = Path(__file__).parents[2] / "data" / "pulsar-a" / "zookeeper" / "version-2"
TREES = ("managed-ledgers", "schemas", "pulsar", "ledgers")


def znodes(*trees: str) -> list[Znode]:
    """Return all znodes of some top-level trees of the server, in no particular order."""
    nodes = []
    for tree in trees:
        store = open_store(f"zk-snapshot://{FILES}?root=/{tree}")
        for part in store.parts(Tree.WHOLE, LayoutKind.HIERARCHICAL, 3):
            for batch in store.read(part):
                assert not batch.gaps
                columns = (batch.mzxid, batch.ctime, batch.mtime, batch.version, batch.ephemeral_owner)
                numbers = zip(*(column.tolist() for column in columns), strict=True)
                for path, data, (mzxid, ctime, mtime, version, owner) in zip(
                    batch.paths, batch.data, numbers, strict=True
                ):
                    nodes.append(Znode(path, bytes(data), 1, mzxid, ctime, mtime, version, owner))
    return nodes


def zookeeper_dump(file: Path) -> Path:
    """Write the znodes to ``file`` as a dump of ZooKeeper."""
    lines = [
        {
            "path": node.path, "data": base64.b64encode(node.data).decode(), "czxid": node.czxid,
            "mzxid": node.mzxid, "ctime": node.ctime, "mtime": node.mtime, "version": node.version,
            "ephemeralOwner": node.ephemeral_owner,
        }
        for node in znodes(*TREES)
    ]  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def etcd_dump(file: Path) -> Path:
    """Write the owners as a dump of an etcd whose keys are paths, as Pulsar writes them."""
    lines = [
        {
            "path": node.path, "key": base64.b64encode(node.path.encode()).decode(),
            "data": base64.b64encode(node.data).decode(), "createRevision": 1, "modRevision": node.mzxid,
            "version": 1, "lease": 0,
        }
        for node in znodes("managed-ledgers", "schemas")
        if node.data
    ]  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def owners(uri: str, parts: int = 3) -> list[dict[str, Any]]:
    """Return the rows of the table owners, as Spark's tasks produce them."""
    reader = OwnerReader((parse_owners_uri(uri),), ReadingOptions(StoreOptions(rate_limit=0), parts, 1))
    rows: list[dict[str, Any]] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            rows += batch.to_pylist()
    return rows
