"""A server that accepts a session and then sends answers outside ZooKeeper's protocol."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.test_doors import bkaudit

HANDSHAKE = struct.pack("!iiiqi16sB", 37, 0, 2_000, 1, 16, b"p" * 16, 0)
"""Length, protocol version, session time-out in ms, session, password, not read-only."""
ANSWERS = {
    "empty frame": struct.pack("!i", 0),
    "frame of half a header": struct.pack("!iq", 8, 1),
    "negative length": struct.pack("!i", -7),
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9,
    "header of another request": struct.pack("!iiqi", 16, 9_999, 1, 0),
    "damaged body": struct.pack("!iiqiiB", 21, 1, 7, 0, 4, 0),
}


@contextmanager
def server(answer: bytes, handshake: bytes = HANDSHAKE) -> Iterator[int]:
    """Yield the port of a server that opens sessions and answers each request with the same bytes."""

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(4096)
            connection.sendall(handshake)
            while connection.recv(4096):
                connection.sendall(answer)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("name", ANSWERS)
def test_invalid_answer_is_a_store_error(tmp_path: Path, name: str) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text("timeout = 1\n")
    with server(ANSWERS[name]) as port:
        uri = f"zk://127.0.0.1:{port}/ledgers"
        ended = bkaudit("ledger", "show", "1", "--metadata", uri, "--conf", str(conf))
    assert ended.exit_code == 4, ended.output
    [line] = ended.stderr.splitlines()
    assert line.startswith("bkaudit: ")
    assert f"127.0.0.1:{port}" in line


def test_invalid_handshake_is_a_store_error(tmp_path: Path) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text("timeout = 1\n")
    with server(b"", struct.pack("!iq", 8, -1)) as port:
        uri = f"zk://127.0.0.1:{port}/ledgers"
        ended = bkaudit("ledger", "show", "1", "--metadata", uri, "--conf", str(conf))
    assert (ended.exit_code, ended.stderr.count("\n")) == (4, 1), ended.output
    assert f"127.0.0.1:{port}" in ended.stderr
