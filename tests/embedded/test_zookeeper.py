"""The embedded ZooKeeper is a real server: it is started, filled, stopped and started again."""

import socket
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import StoreError
from auditor.sources.metadata.store import Znode


def znode(path: str, data: bytes = b"", owner: int = 0) -> Znode:
    return Znode(path, data, 0, 0, 0, 0, 0, owner)


def test_loaded_znodes_are_served_and_survive_a_restart(tmp_path: Path) -> None:
    tree = [
        znode("/bk/ledgers", b"root"),
        znode("/bk/ledgers/available"),
        znode("/bk/ledgers/available/b", b"x", 9),
    ]
    tree += [znode(f"/bk/ledgers/L{n:010}", bytes(n)) for n in range(250)]
    for count in (len(tree), 0):
        with EmbeddedZooKeeper(tmp_path) as server:
            assert server.load(tree[:count]) == count
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


def test_server_listens_only_on_the_loopback_interface_and_stops(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as server:
        port = server.port
        assert server.hosts == f"127.0.0.1:{port}"
        with socket.socket() as other_socket:
            other_socket.bind(("127.0.0.2", port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    assert (tmp_path / "zookeeper.log").exists()


def test_port_in_use_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(StoreError, match=r"zookeeper\.log"):
            EmbeddedZooKeeper(tmp_path, port=listener.getsockname()[1]).start()


def test_a_znode_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as server, pytest.raises(StoreError, match="/twice"):
        server.load([znode("/twice"), znode("/twice")])
