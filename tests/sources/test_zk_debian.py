"""The live store against another ZooKeeper version: the same tests, and the trees of whole clusters."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import open_store
from tests.servers.zookeeper_debian import debian_zookeeper

# Collected here a second time, with this module's server.
from tests.sources.metadata.zookeeper.test_live import (  # noqa: F401
    ReadStore,
    test_all_layouts_are_read_completely_with_malformed_names,
    test_broken_connection_is_reopened_and_no_znode_is_lost,
    test_large_znode_and_many_children_are_read,
    test_missing_root_and_unreachable_server_are_errors_with_the_hosts,
    test_unreadable_znode_is_a_gap_and_the_other_znodes_are_read,
    test_znode_that_breaks_every_connection_is_a_gap,
)


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with debian_zookeeper(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def server(one_server: EmbeddedZooKeeper) -> Iterator[EmbeddedZooKeeper]:
    """Yield the empty server that all tests of this module share."""
    yield one_server
    if one_server._client().exists("/bk"):
        one_server._client().delete("/bk", recursive=True)


def test_server_has_another_version(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    assert server_version(server).startswith("Zookeeper version: 3.8.")
    with EmbeddedZooKeeper(tmp_path / "usual") as usual:
        assert server_version(usual).startswith("Zookeeper version: 3.9.")


def server_version(server: EmbeddedZooKeeper) -> str:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"srvr")
        return connection.recv(64).decode()


def test_a_live_read_equals_the_dump_of_the_same_cluster(
    copy_of: Callable[[str], Path],
    expected_of: Callable[[str], dict[str, Any]],
    layout_of: Callable[[str], LayoutKind],
    held_by: ReadStore,
) -> None:
    corpus = "dbledger-long"
    with debian_zookeeper(copy_of(corpus)) as server:
        store = open_store(f"zk://{server.hosts}/ledgers", StoreOptions(rate_limit=0, batch=7, in_flight=3))
        assert held_by(store, layout_of(corpus), 5) == expected_of(corpus)
        assert store.operations()["multi_read"] > 0
        store.close()
