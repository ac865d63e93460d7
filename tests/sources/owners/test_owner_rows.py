"""Owners of a real Pulsar, ledger by ledger as its broker sees them: from files, dumps and servers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import NoRootError, StoreError, UsageError
from auditor.sources.metadata.store import SiblingStore, StoreOptions
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.sources.owners.applications import OwnersUri, parse_owners_uri, sibling_tree_uri
from auditor.sources.owners.spark_source import OwnerSource
from tests.codecs.pulsar.pulsar_values import oracle
from tests.servers.etcd import running
from tests.sources.owners.pulsar_stores import FILES, etcd_dump, owners, znodes, zookeeper_dump

ORACLE = oracle()


@pytest.fixture(params=["files", "dump", "server", "etcd-dump", "etcd-server"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "files":
        yield f"pulsar:zk-snapshot://{FILES}"
    elif request.param == "dump":
        yield f"pulsar:dump://{zookeeper_dump(tmp_path / 'dump.jsonl')}"
    elif request.param == "etcd-dump":
        yield f"pulsar:dump://{etcd_dump(tmp_path / 'dump.jsonl')}"
    elif request.param == "server":
        shutil.copytree(FILES, tmp_path / "server" / "version-2")
        with EmbeddedZooKeeper(tmp_path / "server") as server:
            yield f"pulsar:zk://{server.hosts}"
    else:
        with running(tmp_path / "etcd") as etcd:
            etcd.load((node.path, node.data) for node in znodes("managed-ledgers", "schemas") if node.data)
            yield f"pulsar:etcd://{etcd.host}"


def read_references() -> set[tuple[str, str, int]]:
    """Return each (path, kind, ledger) that a znode names, as Pulsar's own classes read it."""
    return {
        (path, "data" if reference["owner"] == "shadow" else reference["owner"], reference["ledger"])
        for path, znode in ORACLE["znodes"].items()
        if znode["names"] != "unreadable"
        for reference in znode["names"]
        if reference.get("named_by") != "cursor ledger entry" and reference["owner"] != "compacted"
    }


def test_owners_equal_the_view_of_the_broker(uri: str) -> None:
    rows = owners(uri)
    read = {
        (row["path"], row["kind"], row["ledger_id"])
        for row in rows
        if row["ledger_id"] is not None and row["kind"] != "compacted"
    }
    assert read == read_references()
    assert len(read) > 150
    check_names(rows)
    unreadable = {path for path, znode in ORACLE["znodes"].items() if znode["names"] == "unreadable"}
    assert {row["path"] for row in rows if row["status"] != "ok"} == unreadable
    assert {row["status"] for row in rows} == {"ok", "unreadable"}


def check_names(rows: list[dict[str, Any]]) -> None:
    """Check that every ledger has the topic, cursor and schema of the oracle."""
    for row in rows:
        ledger = ORACLE["ledgers"].get(str(row["ledger_id"]), {})
        if row["borrowed"] or row["kind"] == "compacted" or "path" not in ledger:
            continue
        if row["kind"] == "schema":
            assert f"{row['tenant']}/{row['namespace']}/{row['topic']}" == ledger["schema"]
            assert row["detail"] == str(ledger["version"])
        else:
            topic = f"persistent://{row['tenant']}/{row['namespace']}/{row['topic']}"
            assert topic == ledger["topic"]
            assert (row["cursor"] or "") in ledger["path"] or "%" in ledger["path"]


def test_lists_have_places_lengths_and_offload_states() -> None:
    rows = owners(f"pulsar:zk-snapshot://{FILES}")
    history = [row for row in rows if row["topic"] == "history" and row["kind"] == "data"]
    assert [(row["ledger_id"], row["place"], row["list_size"], row["offload"]) for row in history] == [
        (165, 0, 9, "deleted"),
        (167, 1, 9, "complete"),
        (168, 2, 9, "incomplete"),
        (169, 3, 9, "complete"),
        (170, 4, 9, "deleted"),
        *((ledger, place, 9, None) for place, ledger in enumerate(range(171, 175), start=5)),
    ]
    assert {row["ledger_id"] for row in rows if row["borrowed"]} == {77, 82, 83}


def test_compacted_ledger_named_only_by_a_cursor_ledger_is_stale_and_has_no_id() -> None:
    rows = [row for row in owners(f"pulsar:zk-snapshot://{FILES}") if row["kind"] == "compacted"]
    assert {(row["topic"], row["ledger_id"], row["stale"]) for row in rows} == {
        ("accounts", None, True),
        ("rates", None, True),
    }


def test_missing_first_tree_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoRootError):
        owners(f"pulsar:zk-snapshot://{FILES}?root=/elsewhere")
    with pytest.raises(StoreError):
        owners(f"pulsar:zk-snapshot://{tmp_path}")


def test_store_reports_siblings_of_its_root(tmp_path: Path) -> None:
    dump = zookeeper_dump(tmp_path / "dump.jsonl")
    for uri in (f"zk-snapshot://{FILES}", f"dump://{dump}"):
        store = open_store(uri)
        assert isinstance(store, SiblingStore)
        store.cluster()
        assert store.has_sibling("managed-ledgers")
        assert not store.has_sibling("ledgers2")


def test_live_store_reports_siblings_of_its_root(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "version-2")
    with EmbeddedZooKeeper(tmp_path) as server:
        store = open_store(f"zk://{server.hosts}/ledgers", StoreOptions())
        assert isinstance(store, SiblingStore)
        store.cluster()
        assert store.has_sibling("managed-ledgers")
        assert not store.has_sibling("ledgers2")
        store.close()


@pytest.mark.parametrize(
    "text",
    [
        "zk://host:2181",
        "kafka:zk://host:2181",
        "pulsar:",
        "pulsar:file:///x",
        "pulsar:etcd-snapshot:///x.db?scope=/x",
        "pulsar:zk://user@host:2181",
        "pulsar:dump:///a.jsonl?scope=/x",
    ],
)
def test_invalid_owners_uri_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_owners_uri(text)


@pytest.mark.parametrize(
    "text",
    [
        "pulsar:zk://h1:2181",
        "pulsar:zk://h1:2181,h2:2182/chroot",
        "pulsar:dump:///a/b.jsonl?root=/chroot",
        "pulsar:zk-snapshot:///a/version-2",
        "pulsar:etcd://h1:2379",
    ],
)
def test_owners_uri_keeps_its_text(text: str) -> None:
    assert parse_owners_uri(text).text == text


def test_owners_uri_is_derived_from_the_metadata_uri() -> None:
    metadata = parse_metadata_uri("dump:///a%20b.jsonl?root=/east/ledgers")
    assert sibling_tree_uri("pulsar", metadata) == OwnersUri("pulsar", "dump:///a%20b.jsonl", "/east")


def test_invalid_options_are_usage_errors() -> None:
    for options in (
        {},
        {"owners": "pulsar:zk://h", "metadata": "x"},
        {"owners": "pulsar:zk://h", "parts": "0"},
    ):
        with pytest.raises(UsageError):
            OwnerSource(options).reader(OwnerSource(options).schema())
