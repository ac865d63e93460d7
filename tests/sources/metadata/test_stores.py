"""Servers that answer ``srvr`` otherwise than most do; the usual ones are in tests/doctor."""

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
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that says the same to everybody, once; and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                asked.append(connection.recv(64))
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", asked
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
def test_a_zookeeper_says_what_it_may(
    answer: bytes, version: str | None, mode: str | None, failure_reason: str | None
) -> None:
    with answering(answer) as (host, asked):
        [found] = probe_servers(f"zk://{host}/ledgers", StoreOptions(timeout_s=10))
    assert (found.is_reached, found.version, found.mode, found.failure_reason) == (
        True,
        version,
        mode,
        failure_reason,
    )
    assert asked == [b"srvr"]


def test_a_port_that_speaks_tls_is_only_knocked_at(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text("[zookeeper.tls]\n")
    file.chmod(0o600)
    with answering(b"") as (host, asked):
        [found] = probe_servers(f"zk://{host}/ledgers", StoreOptions(credentials=str(file)))
    assert (found.is_reached, found.failure_reason) == (True, "the command srvr is not sent over TLS")
    assert asked == [b""]


def test_a_host_that_is_unknown_is_not_reached() -> None:
    [found] = probe_servers("zk://no-such-host.invalid:2181/ledgers", StoreOptions(timeout_s=1))
    assert isinstance(found, Server)
    assert (found.is_reached, bool(found.failure_reason)) == (False, True)


@pytest.mark.parametrize("scheme", ["zk", "etcd", "metadata-store:etcd"])
def test_hosts_that_do_not_resolve_and_ports_that_refuse_are_told_at_once(
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


def test_one_server_that_answers_is_enough() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = listener.getsockname()[1]
        check_reachable(f"zk://no-such-host.invalid:2181;127.0.0.1:{port};127.0.0.1:{there}/ledgers")


def test_a_server_that_is_slow_is_left_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(address: tuple[str, int], timeout: float, *, all_errors: bool) -> socket.socket:
        raise ExceptionGroup("connect", [TimeoutError("timed out"), ConnectionRefusedError(111, "refused")])

    monkeypatch.setattr(socket, "create_connection", slow)
    check_reachable("zk://h1:2181/ledgers")


def test_hosts_that_only_a_proxy_can_find_are_left_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    check_reachable("etcd://no-such-host.invalid:2379/bk")
