"""The layout is read from the store, and a layout of another kind of store is refused."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from auditor.errors import StoreError, UsageError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.stores import choose_layout, open_store
from auditor.sources.metadata.uri import parse_metadata_uri

FLAT = b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"
ETCD = b"2\norg.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:0"


def choose_dump_layout(kind: str, layout: bytes | None, folder: Path) -> tuple[LayoutKind, str]:
    """Return the layout chosen for a dump of this kind of store that has this layout."""
    nodes = {"/bk": b""} | (
        {} if layout is None else {f"/bk/{'LAYOUT' if kind == 'zk' else 'layout'}": layout}
    )
    lines = []
    for path, data in nodes.items():
        record: dict[str, object] = {"path": path, "data": b64encode(data).decode(), "version": 0}
        if kind == "zk":
            record |= {"czxid": 1, "mzxid": 1, "ctime": 1, "mtime": 1, "ephemeralOwner": 0}
        else:
            record |= {
                "key": b64encode(path.encode()).decode(),
                "createRevision": 2,
                "modRevision": 2,
                "lease": 0,
            }
        lines.append(json.dumps(record))
    (folder / "dump").write_text("\n".join(lines) + "\n")
    store = open_store(f"dump://{folder}/dump?root=/bk")
    return choose_layout(store, store.cluster())


@pytest.mark.parametrize(
    ("kind", "layout", "expected"),
    [
        ("zk", FLAT, LayoutKind.FLAT),
        ("zk", None, LayoutKind.HIERARCHICAL),
        ("etcd", ETCD, LayoutKind.ETCD),
        ("etcd", None, LayoutKind.ETCD),
        # There is one layout in etcd, so a broken key does not stop anything.
        ("etcd", b"\xff", LayoutKind.ETCD),
    ],
)
def test_layout_is_chosen_from_the_store(
    kind: str, layout: bytes | None, expected: LayoutKind, tmp_path: Path
) -> None:
    assert choose_dump_layout(kind, layout, tmp_path)[0] is expected


@pytest.mark.parametrize(
    ("kind", "layout", "words"),
    [
        ("zk", ETCD, "its LAYOUT znode names etcd's ledger manager"),
        ("etcd", FLAT, "/bk/layout names .*FlatLedgerManagerFactory"),
        ("zk", b"\xff", "cannot be understood"),
        ("etcd", ETCD.replace(b":0", b":1"), "cannot be understood: .*version 1"),
        ("etcd", b"2\norg.example.Other:1", "cannot be understood"),
    ],
)
def test_foreign_or_invalid_layout_is_an_error(kind: str, layout: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=words):
        choose_dump_layout(kind, layout, tmp_path)


def test_layout_in_the_uri_must_equal_the_layout_of_the_store(tmp_path: Path) -> None:
    choose_dump_layout("zk", FLAT, tmp_path)
    store = open_store(f"dump://{tmp_path}/dump?root=/bk")
    store.uri = parse_metadata_uri("zk+hierarchical://h1:2181/bk")
    with pytest.raises(UsageError, match="the URI says hierarchical, but the LAYOUT znode says flat"):
        choose_layout(store, store.cluster())
