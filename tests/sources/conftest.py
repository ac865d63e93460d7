"""Fixtures for copies of real clusters' metadata, and for the content of a store."""

from __future__ import annotations

import gzip
import json
import shutil
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import MetadataStore, Tree, Znode

DATA = Path(__file__).parents[1] / "data"
LAYOUTS = {
    "interleaved-hier": LayoutKind.HIERARCHICAL,
    "flat-v1": LayoutKind.FLAT,
    "dbledger-long": LayoutKind.LONG_HIERARCHICAL,
}

ZnodesByPath = dict[str, tuple[Any, ...]]
"""path -> data, mzxid, ctime, mtime, version, ephemeral owner."""


@pytest.fixture
def held_by() -> Callable[[MetadataStore, LayoutKind, int], ZnodesByPath]:
    """Return a function that reads everything in a store, each znode exactly once, without a gap."""

    def read(store: MetadataStore, layout: LayoutKind, part_count: int) -> ZnodesByPath:
        znodes: ZnodesByPath = {}
        for tree in (Tree.LEDGERS, Tree.MARKS):
            for part in store.parts(tree, layout, part_count):
                for batch in store.read(part):
                    assert not batch.gaps
                    columns = (batch.mzxid, batch.ctime, batch.mtime, batch.version, batch.ephemeral_owner)
                    numbers = zip(*(column.tolist() for column in columns), strict=True)
                    for path, data, row in zip(batch.paths, batch.data, numbers, strict=True):
                        assert path not in znodes
                        znodes[path] = (data, *row)
        cluster = store.cluster()
        assert not cluster.gaps
        for below, znode in cluster.nodes.items():
            assert znode.path == f"{store.root}/{below}"
            assert znode.path not in znodes
            znodes[znode.path] = (znode.data, *znode[3:8])
        return znodes

    return read


def records(corpus: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in gzip.decompress((DATA / corpus / "metadata.jsonl.gz").read_bytes()).splitlines()
    ]


@pytest.fixture
def expected_of() -> Callable[[str], ZnodesByPath]:
    """Return a function that reads everything below /ledgers from a corpus's dump."""

    def read(corpus: str) -> ZnodesByPath:
        return {
            r["path"]: (
                b64decode(r["data"]),
                *(r[name] for name in ("mzxid", "ctime", "mtime", "version", "ephemeralOwner")),
            )
            for r in records(corpus)
            if r["path"] != "/ledgers"
        }

    return read


@pytest.fixture
def znodes_of() -> Callable[[str], list[Znode]]:
    """Return a function that reads a corpus's znodes, parents first, the root included."""

    def read(corpus: str) -> list[Znode]:
        return [
            Znode(
                r["path"],
                b64decode(r["data"]),
                *(r[n] for n in ("czxid", "mzxid", "ctime", "mtime", "version", "ephemeralOwner")),
            )
            for r in records(corpus)
        ]

    return read


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies a corpus's ZooKeeper directory, so that a server may write to it."""

    def copy(corpus: str) -> Path:
        target = tmp_path / corpus
        shutil.copytree(DATA / corpus / "zookeeper", target)
        return target

    return copy


@pytest.fixture
def layout_of() -> Callable[[str], LayoutKind]:
    """Return a function that gives the layout named by a corpus's LAYOUT."""
    return LAYOUTS.__getitem__
