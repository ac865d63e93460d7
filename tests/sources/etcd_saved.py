"""Saved etcd stores: the corpus of a real cluster, and helpers that read the keys of any store."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import MetadataStore, Tree
from auditor.sources.metadata.stores import open_store

DATA = Path(__file__).parents[1] / "data" / "etcd"
SCOPE = "/bk/cluster1"

KeysByPath = dict[str, tuple[bytes, int, int]]
"""path -> data, mod revision, lease."""


def unpack_file(name: str, folder: Path) -> Path:
    """Unpack one of the corpus's compressed files into ``folder``."""
    file = folder / name
    file.write_bytes(gzip.decompress((DATA / f"{name}.gz").read_bytes()))
    return file


def oracle() -> dict[str, Any]:
    """Return the Java code's answers about the corpus."""
    answers: dict[str, Any] = json.loads(gzip.decompress((DATA / "oracle.json.gz").read_bytes()))
    return answers


def corpus_store(kind: str, folder: Path) -> MetadataStore:
    """Return the corpus as a store, opened from a snapshot or from a dump."""
    if kind == "snapshot":
        return open_store(f"etcd-snapshot://{unpack_file('etcd-snapshot.db', folder)}?scope={SCOPE}")
    return open_store(f"dump://{unpack_file('metadata.jsonl', folder)}?root={SCOPE}")


def corpus_keys() -> KeysByPath:
    """Return every key below the scope, as the corpus's dump records it."""
    lines = gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()).splitlines()
    records = [json.loads(line) for line in lines]
    return {
        r["path"]: (b64decode(r["data"]), r["modRevision"], r["lease"]) for r in records if r["path"] != SCOPE
    }


def ledgers_of(store: MetadataStore, part_count: int = 3) -> tuple[KeysByPath, list[tuple[str, str]]]:
    """Return every key of the ledger tree, each read once, and the gaps."""
    tree_keys: KeysByPath = {}
    gaps: list[tuple[str, str]] = []
    for part in store.parts(Tree.LEDGERS, LayoutKind.ETCD, part_count):
        for batch in store.read(part):
            assert (batch.ctime == -1).all()
            assert (batch.mtime == -1).all()
            assert (batch.version == batch.mzxid).all()
            numbers = zip(batch.mzxid.tolist(), batch.ephemeral_owner.tolist(), strict=True)
            for path, data, (revision, lease) in zip(batch.paths, batch.data, numbers, strict=True):
                assert path not in tree_keys
                tree_keys[path] = (data, revision, lease)
            gaps += batch.gaps
    return tree_keys, gaps


def nodes_of(store: MetadataStore) -> KeysByPath:
    """Return the cluster's own keys, without its ledgers."""
    nodes = store.cluster().nodes
    return {node.path: (node.data, node.mzxid, node.ephemeral_owner) for node in nodes.values()}
