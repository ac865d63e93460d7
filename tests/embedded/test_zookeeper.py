"""The embedded server is a real one: started, filled, stopped, started again."""

import socket
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import StoreError
from auditor.sources.metadata.store import Znode


def znode(path: str, data: bytes = b"", owner: int = 0) -> Znode:
    return Znode(path, data, 0, 0, 0, 0, 0, owner)


def test_what_is_loaded_is_served_and_survives_a_restart(tmp_path: Path) -> None:
    tree = [
        znode("/bk/ledgers", b"root"),
        znode("/bk/ledgers/available"),
        znode("/bk/ledgers/available/b", b"x", 9),
    ]
    tree += [znode(f"/bk/ledgers/L{n:010}", bytes(n)) for n in range(250)]
    for wanted in (len(tree), 0):
        with EmbeddedZooKeeper(tmp_path) as server:
            assert server.load(tree[:wanted]) == wanted
            client = KazooClient(hosts=server.hosts)
            client.start()
            assert client.get("/bk")[0] == b""
            assert client.get("/bk/ledgers")[0] == b"root"
            assert client.get("/bk/ledgers/L0000000249")[0] == bytes(249)
            assert len(client.get_children("/bk/ledgers")) == 251
            # The ephemeral's session was never closed, and sessions do not expire here.
            assert client.get("/bk/ledgers/available/b")[1].ephemeralOwner != 0
            client.stop()
            client.close()


def test_it_listens_on_the_loopback_interface_only_and_stops(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as server:
        port = server.port
        assert server.hosts == f"127.0.0.1:{port}"
        with socket.socket() as other:
            other.bind(("127.0.0.2", port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    assert (tmp_path / "zookeeper.log").exists()


def test_a_taken_port_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StoreError, match=r"zookeeper\.log"):
            EmbeddedZooKeeper(tmp_path, port=taken.getsockname()[1]).start()


def test_a_znode_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as server, pytest.raises(StoreError, match="/twice"):
        server.load([znode("/twice"), znode("/twice")])
