"""Servers with unusual answers to ``srvr``; tests/doctor has the usual ones."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor.errors import StoreError
from auditor.sources.metadata.store import Server, StoreOptions
from auditor.sources.metadata.stores import PROXY_VARIABLES, check_reachable, probe_servers
from tests.servers.zookeeper import free_ports


@contextmanager
def answering_server(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one connection with this answer; yield the address and the list of requests."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                requests.append(connection.recv(64))
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", requests
        thread.join(10)


@pytest.mark.parametrize(
    ("answer", "version", "mode", "failure_reason"),
    [
        (
            b"srvr is not executed because it is not in the whitelist.\n",
            None,
            None,
            "the server does not allow the command srvr",
        ),
        (
            b"Zookeeper version: 3.4.14-4c25d48, built on 03/06/2019\nMode: follower\n",
            "3.4.14",
            "follower",
            None,
        ),
        (
            b"This ZooKeeper instance is not currently serving requests\n",
            None,
            None,
            "the server does not answer the command srvr",
        ),
        (b"", None, None, "the server does not answer the command srvr"),
    ],
)
def test_answers_of_zookeeper_to_srvr_are_reported(
    answer: bytes, version: str | None, mode: str | None, failure_reason: str | None
) -> None:
    with answering_server(answer) as (host, requests):
        [server] = probe_servers(f"zk://{host}/ledgers", StoreOptions(timeout_s=10))
    assert (server.is_reached, server.version, server.mode, server.failure_reason) == (
        True,
        version,
        mode,
        failure_reason,
    )
    assert requests == [b"srvr"]


def test_tls_port_is_probed_without_the_command_srvr(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text("[zookeeper.tls]\n")
    file.chmod(0o600)
    with answering_server(b"") as (host, requests):
        [server] = probe_servers(f"zk://{host}/ledgers", StoreOptions(credentials=str(file)))
    assert (server.is_reached, server.failure_reason) == (True, "the command srvr is not sent over TLS")
    assert requests == [b""]


def test_unknown_host_is_not_reached() -> None:
    [server] = probe_servers("zk://no-such-host.invalid:2181/ledgers", StoreOptions(timeout_s=1))
    assert isinstance(server, Server)
    assert (server.is_reached, bool(server.failure_reason)) == (False, True)


@pytest.mark.parametrize("scheme", ["zk", "etcd", "metadata-store:etcd"])
def test_unresolvable_hosts_and_refusing_ports_are_reported_at_once(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (port,) = free_ports(1)
    begun = time.monotonic()
    with pytest.raises(StoreError) as refused:
        check_reachable(f"{scheme}://no-such-host.invalid:2181,127.0.0.1:{port}/ledgers")
    assert time.monotonic() - begun < 5
    assert "no-such-host.invalid:2181 does not resolve (" in str(refused.value)
    assert f"; 127.0.0.1:{port}: Connection refused; " in str(refused.value)


def test_one_answering_server_is_sufficient() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        open_port = listener.getsockname()[1]
        check_reachable(f"zk://no-such-host.invalid:2181;127.0.0.1:{port};127.0.0.1:{open_port}/ledgers")


def test_slow_server_is_not_an_error_of_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(address: tuple[str, int], timeout: float, *, all_errors: bool) -> socket.socket:
        raise ExceptionGroup("connect", [TimeoutError("timed out"), ConnectionRefusedError(111, "refused")])

    monkeypatch.setattr(socket, "create_connection", slow)
    check_reachable("zk://h1:2181/ledgers")


def test_hosts_behind_a_proxy_are_not_an_error_of_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    check_reachable("etcd://no-such-host.invalid:2379/bk")
