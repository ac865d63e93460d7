"""Files of real servers of each version, against the content that the same version's classes read."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.codecs.zookeeper.txnlog import CloseSession, Create, Delete, SetData, Transaction, read_log
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import MetadataStore
from auditor.sources.metadata.stores import open_store

HOMES = sorted((Path(__file__).parents[3] / "data").glob("zookeeper-*"))
ZnodesByPath = dict[str, tuple[Any, ...]]
versions = pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name)


def oracle(home: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(gzip.decompress((home / "oracle.json.gz").read_bytes()))
    return read


@versions
@pytest.mark.parametrize("form", ["plain", "gz", "snappy"])
def test_tree_equals_the_tree_that_the_server_reads(
    home: Path, form: str, tmp_path: Path, held_by: Callable[[MetadataStore, LayoutKind, int], ZnodesByPath]
) -> None:
    read = oracle(home)
    shutil.copytree(home / "version-2", tmp_path / "version-2")
    if form != "plain":
        for snapshot in (tmp_path / "version-2").glob("snapshot.*"):
            snapshot.unlink()
        (packed,) = home.glob(f"snapshot.*.{form}")
        shutil.copy(packed, tmp_path / "version-2")
    store = open_store(f"zk-snapshot://{tmp_path}")
    assert held_by(store, LayoutKind.HIERARCHICAL, 3) == {
        node["path"]: (
            base64.b64decode(node["data"] or ""),
            *(node[name] for name in ("mzxid", "ctime", "mtime", "version", "ephemeralOwner")),
        )
        for node in read["znodes"]
        if node["path"].startswith("/ledgers/")
    }
    assert store.cluster().position == hex(read["zxid"])


@versions
def test_transactions_equal_those_that_the_server_reads(home: Path) -> None:
    logs = sorted((home / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
    read = [record for log in logs for record in read_log(memoryview(log.read_bytes()))]
    written = oracle(home)["transactions"]
    assert [(record.zxid, record.time) for record in read if isinstance(record, Transaction)] == [
        (record["zxid"], record["time"]) for record in written
    ]
    for transaction, expected in zip(read, written, strict=True):
        assert isinstance(transaction, Transaction)
        assert list(oracle_rows(transaction)) == [
            (path, data or "", number) for _, path, data, number in expected["did"]
        ]


def oracle_rows(transaction: Transaction) -> Iterator[tuple[str, str, int]]:
    """Yield the operations of a transaction in the form of the oracle."""
    for operation in transaction.operations:
        match operation:
            case Create(path, data, owner):
                yield path, to_base64(data), owner
            case Delete(path):
                yield path, "", 0
            case SetData(path, data, version):
                yield path, to_base64(data), version
            case CloseSession(session, paths):
                yield from ((path, "", session) for path in paths)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
