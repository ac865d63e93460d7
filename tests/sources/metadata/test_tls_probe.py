"""The diagnosis of a server that breaks off the handshake, which a server with TLS may do too."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from auditor.sources.metadata.credentials import Tls
from auditor.sources.metadata.tls_probe import tls_problem

SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"
TLS_HANDSHAKE = 0x16


def close(connection: socket.socket) -> None:
    connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def answer_with_text(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.close()


@contextmanager
def server(end_handshake: Callable[[socket.socket], None], clear_answer: bytes) -> Iterator[str]:
    """Run a server that ends handshakes by ``end_handshake`` and answers others with ``clear_answer``."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if connection.recv(4096)[:1] == bytes([TLS_HANDSHAKE]):
                end_handshake(connection)
            else:
                connection.sendall(clear_answer)
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize("end_handshake", [close, reset, answer_with_text])
def test_http2_server_without_tls_is_recognised(
    end_handshake: Callable[[socket.socket], None],
) -> None:
    with server(end_handshake, SETTINGS) as address:
        problem = tls_problem(address, Tls(), "etcd.tls")
        assert problem == "the server does not use TLS; remove [etcd.tls] of the credentials file"
        assert tls_problem(address, None, "etcd.tls") is None


@pytest.mark.parametrize("end_handshake", [close, reset, answer_with_text])
@pytest.mark.parametrize("clear_answer", [b"", SETTINGS[:5], b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_failed_handshake_alone_is_not_reported_as_missing_tls(
    end_handshake: Callable[[socket.socket], None], clear_answer: bytes
) -> None:
    with server(end_handshake, clear_answer) as address:
        assert tls_problem(address, Tls(), "etcd.tls") is None
