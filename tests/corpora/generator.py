"""One small cluster, written to any metadata store and any bookie storage, scoped ledgers included.

    cluster = Cluster(layout="longhierarchical")                    describe it (tests.corpora.cluster)
    cluster.bookie(A)
    cluster.ledger(7, {0: [A, B, C]}, (3, 2), 9)                    ledger 7 of scope 0
    cluster.ledger(LedgerId(-7, scope=1), ..., without={B: [4]})    ledger -7 of scope 1, with a hole
    with stored(cluster, folder, "zk-live", "etcd-dump") as uris:   write its metadata
        bookies = on_disk(cluster, folder / "bookies", "rocksdb")   write its bookies
        audit(spark, uris["zk-live"], bookies, ...)

A cluster has the same ledgers wherever it is written. Data that a place cannot hold (marks in etcd, an index
file in RocksDB) is an error. So no test compares less than it states. This module repeats the formats
without the product's key modules: no test would see an error that both share.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.store import Znode
from tests.codecs.bbolt_writer import History
from tests.corpora.cluster import NOW_MS, Cluster, Ledger, set_clocks, write_files
from tests.servers import etcd, oxia
from tests.sources.rocksdb_databases import EXISTING, key, ledger_key, location, write_database

STORES = (
    *("zk-dump", "zk-logs", "zk-snapshot", "zk-live"),
    *("etcd-dump", "etcd-snapshot", "etcd-live", "oxia-live"),
)
STORAGES = ("index", "rocksdb")

ROOT = "/ledgers"
ETCD_LAYOUT = b"2\norg.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:0"
_ETCD_KEYS = {"LAYOUT": "layout", "INSTANCEID": "instanceid", "cookies": "cookies"}
_ETCD_EMPTY = (
    "",
    "/bookies",
    "/bookies/writable",
    "/bookies/readonly",
    "/ledgers",
    "/buckets",
    "/underreplication",
)
_ETCD_PARENTS = {
    "available/readonly": "bookies/readonly",
    "available": "bookies/writable",
    "cookies": "cookies",
}
_MASK = (1 << 64) - 1


@contextmanager
def stored(cluster: Cluster, folder: Path, *kinds: str) -> Iterator[dict[str, str]]:
    """Yield the URIs of the cluster's metadata in stores of these kinds of `STORES`, until the block ends.

    Only the requested servers run, and only while the block does. Saved files have the cluster's time.
    """
    assert set(kinds) <= set(STORES), kinds
    folder.mkdir(parents=True, exist_ok=True)
    uris: dict[str, str] = {}
    with ExitStack() as servers:
        if "zk-dump" in kinds:
            cluster.write_dump(folder / "zk.jsonl")
            uris["zk-dump"] = f"dump://{folder}/zk.jsonl"
        if {"zk-logs", "zk-snapshot", "zk-live"} & set(kinds):
            uris |= servers.enter_context(_in_zookeeper(cluster, folder))
        if {"etcd-dump", "etcd-snapshot", "etcd-live"} & set(kinds):
            keys = etcd_keys(cluster)
            uris |= _saved_etcd(keys, folder)
            if "etcd-live" in kinds:
                server = servers.enter_context(etcd.running(folder / "etcd"))
                server.load((path, data) for path, data in keys.items() if not _is_registration(path))
                server.load(((path, data) for path, data in keys.items() if _is_registration(path)), 3600)
                uris["etcd-live"] = f"etcd://{server.host}{ROOT}"
        if "oxia-live" in kinds:
            uris["oxia-live"] = servers.enter_context(_in_oxia(cluster, folder))
        yield {kind: uris[kind] for kind in kinds}


@contextmanager
def _in_zookeeper(cluster: Cluster, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the URIs of a running server, of its logs before any snapshot, and of its first snapshot."""
    with EmbeddedZooKeeper(folder / "zookeeper") as server:
        server.load(
            Znode(path, base64.b64decode(str(row["data"])), 0, 0, 0, 0, 0, int(str(row["ephemeralOwner"])))
            for path, row in sorted(cluster.znodes.items())
        )
    shutil.copytree(folder / "zookeeper" / "version-2", folder / "logs")
    # A server that starts writes a snapshot of what its logs hold.
    with EmbeddedZooKeeper(folder / "zookeeper") as server:
        shutil.copytree(folder / "zookeeper" / "version-2", folder / "snapshot")
        yield {
            "zk-logs": f"zk-snapshot://{folder}/logs",
            "zk-snapshot": f"zk-snapshot://{folder}/snapshot",
            "zk-live": f"zk://{server.hosts}{ROOT}",
        }


@contextmanager
def _in_oxia(cluster: Cluster, folder: Path) -> Iterator[str]:
    """Yield the URI of a running server with two shards; nodes with an owner in ZooKeeper have a session."""
    with oxia.running(folder / "oxia", shards=2) as server:
        sessions = server.open_sessions()
        for is_ephemeral in (False, True):
            rows = [row for row in cluster.znodes.values() if bool(row["ephemeralOwner"]) is is_ephemeral]
            values = [(str(row["path"]), base64.b64decode(str(row["data"]))) for row in rows]
            server.load(values, sessions if is_ephemeral else None)
        yield server.uri


def etcd_keys(cluster: Cluster) -> dict[str, bytes]:
    """Return the keys that etcd's driver would store: a ledger's key is its 128 bits, as a UUID."""
    keys = {ROOT + name: b"" for name in _ETCD_EMPTY}
    inner = {parent for path in cluster.ledgers for parent in map(str, Path(path).parents)}
    for path, row in cluster.znodes.items():
        data = base64.b64decode(str(row["data"]))
        parent, _, name = path.removeprefix(f"{ROOT}/").rpartition("/")
        if path in cluster.ledgers:
            keys[f"{ROOT}/ledgers/{UUID(int=int(qualified(cluster.ledgers[path]), 16))}"] = data
        elif not parent and name in _ETCD_KEYS:
            keys[f"{ROOT}/{_ETCD_KEYS[name]}"] = ETCD_LAYOUT if name == "LAYOUT" else data
        elif parent in _ETCD_PARENTS and path != f"{ROOT}/available/readonly":
            keys[f"{ROOT}/{_ETCD_PARENTS[parent]}/{name}"] = data
        elif path not in inner and path not in (f"{ROOT}/available", f"{ROOT}/available/readonly"):
            raise ValueError(f"etcd has no place for {path}")
    return keys


def _is_registration(key: str) -> bool:
    """Return whether a key has a lease."""
    return key.startswith((f"{ROOT}/bookies/writable/", f"{ROOT}/bookies/readonly/"))


def _saved_etcd(keys: dict[str, bytes], folder: Path) -> dict[str, str]:
    history = History()
    for path, data in keys.items():
        history.change((path.encode(), data), lease=int(_is_registration(path)))
    dump, snapshot = folder / "etcd.jsonl", folder / "etcd.db"
    snapshot.write_bytes(history.database())
    with dump.open("w") as file:
        for name, record in sorted(history.state.items()):
            line = {
                "path": name.decode(),
                "key": base64.b64encode(name).decode(),
                "data": base64.b64encode(record.value).decode(),
                "createRevision": record.create_revision,
                "modRevision": record.mod_revision,
                "version": record.version,
                "lease": record.lease,
            }
            file.write(json.dumps(line) + "\n")
        file.write(json.dumps({"end": {"nodes": len(history.state)}}) + "\n")
    for saved in (dump, snapshot):
        os.utime(saved, (NOW_MS / 1000, NOW_MS / 1000))
    return {
        "etcd-dump": f"dump://{dump}?root={ROOT}",
        "etcd-snapshot": f"etcd-snapshot://{snapshot}?scope={ROOT}",
    }


def on_disk(cluster: Cluster, root: Path, storage: str = "index") -> Path:
    """Write the bookies with a storage of `STORAGES`, one directory per bookie, and return ``root``."""
    assert storage in STORAGES, storage
    if storage == "index":
        cluster.write_indexes(root)
        return root
    if index_files := [name for name in cluster.files if name.endswith(".idx")]:
        raise ValueError(f"RocksDB has no place for {index_files[0]}")
    write_files(root, cluster.files)
    for version in sorted(root.glob("*/*/current/VERSION")):
        if version.parts[-3] in cluster.ledger_dirs:
            _write_databases(cluster, version.parent, version.parts[-4], version.parts[-3])
    set_clocks(root, NOW_MS)
    return root


def _write_databases(cluster: Cluster, current: Path, bookie: str, directory: str) -> None:
    """Write the two databases of scope 0, and the one of all other scopes unless it would be empty."""
    locations, ledgers, scoped = {}, {}, {}
    for (ledger, holder), entries in cluster.copies.items():
        if holder.replace(":", "_") != bookie:
            continue
        if cluster.directory(ledger, holder) != directory:
            continue
        if isinstance(ledger, LedgerId):
            scope = ledger.scope.to_bytes(8, "big", signed=True)
            scoped.update({scope + key(ledger.id, entry): location() for entry in entries})
        else:
            ledgers[ledger_key(ledger)] = EXISTING
            locations.update({key(ledger, entry): location() for entry in entries})
    write_database(current / "locations", locations)
    write_database(current / "ledgers", ledgers)
    if scoped:
        write_database(current / "locations-scoped", scoped)


def qualified(ledger: Ledger) -> str:
    """Return a ledger's 128 bits, scope first, as 32 hexadecimal digits."""
    scope, id = (ledger.scope, ledger.id) if isinstance(ledger, LedgerId) else (0, ledger)
    return f"{(scope & _MASK) << 64 | id & _MASK:032x}"
