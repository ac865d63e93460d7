"""Ports in front of servers: they forward all bytes, or fail in some mode after a number of bytes.

They run in their own process: ``python -m tests.hostile.servers FILE NAME=HOST:PORT ...``. The process of the
trial forks, and a fork would not have their threads. All threads map FILE, which has the mode.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

MODES = ("is dead", "resets", "hangs up", "is silent", "sends garbage")
"""``is dead``: nobody listens, whatever was passed on before."""
POLL_S = 0.02
_PASSES = -1
_LAYOUT = struct.Struct("=4i")
"""Which server, mode, bytes from the server before it, connections that failed."""


class FaultyServers:
    """The ports, as the process of the trial sees them."""

    def __init__(self, place: Path, targets: dict[str, str]) -> None:
        self._names = [*targets]
        control = place / "servers"
        control.write_bytes(_LAYOUT.pack(0, _PASSES, 0, 0).ljust(4096, b"\0"))
        pairs = [f"{name}={target}" for name, target in targets.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(control), *pairs], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._ports = [int(self._process.stdout.readline()) for _ in targets]
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), 4096)

    def port(self, name: str) -> int:
        """Return the port in front of a server."""
        return self._ports[self._names.index(name)]

    @contextmanager
    def failing(self, name: str, mode: str, after: int) -> Iterator[None]:
        """Make a port fail while the block runs, in each connection after ``after`` bytes of its server."""
        self._control[: _LAYOUT.size] = _LAYOUT.pack(self._names.index(name), MODES.index(mode), after, 0)
        time.sleep(5 * POLL_S)  # until a dead port is one
        try:
            yield
        finally:
            fired = self.fired()
            self._control[: _LAYOUT.size] = _LAYOUT.pack(0, _PASSES, 0, fired)
            time.sleep(5 * POLL_S)

    def fired(self) -> int:
        """Return how many connections have failed in the last block."""
        return int(_LAYOUT.unpack(self._control[: _LAYOUT.size])[3])

    def end(self) -> None:
        """Kill the process of the ports."""
        self._process.kill()
        self._process.wait()


class _Port:
    """One port, with one thread per connection."""

    def __init__(self, number: int, target: tuple[str, int], control: mmap.mmap) -> None:
        self._number, self._target, self._control = number, target, control
        self._socket = socket.create_server(("127.0.0.1", 0))
        print(self._socket.getsockname()[1], flush=True)

    def serve(self) -> None:
        """Accept connections forever, except while the port is dead."""
        place = self._socket.getsockname()
        while True:
            self._socket.settimeout(POLL_S)
            with suppress(TimeoutError):
                connection, _ = self._socket.accept()
                connection.settimeout(None)
                threading.Thread(target=self._pass_on, args=(connection,), daemon=True).start()
            if self._mode()[0] == MODES[0]:
                self._socket.close()
                self._fire()
                while self._mode()[0] == MODES[0]:
                    time.sleep(POLL_S)
                self._socket = socket.create_server(place)

    def _mode(self) -> tuple[str | None, int]:
        number, mode, after, _ = _LAYOUT.unpack(self._control[: _LAYOUT.size])
        return (MODES[mode], after) if mode != _PASSES and number == self._number else (None, 0)

    def _fire(self) -> None:
        *fields, fired = _LAYOUT.unpack(self._control[: _LAYOUT.size])
        self._control[: _LAYOUT.size] = _LAYOUT.pack(*fields, fired + 1)

    def _pass_on(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            mode, after = self._mode()
            if mode is not None and (after == 0 or mode == MODES[0]):
                self._fail(client, mode)
                return
            with socket.create_connection(self._target) as server:
                back = threading.Thread(target=_copy, args=(client, server), daemon=True)
                back.start()
                passed = 0
                while data := server.recv(4096):
                    mode, after = self._mode()
                    if mode == MODES[0]:
                        return
                    if mode is not None and passed + len(data) > after:
                        client.sendall(data[: max(after - passed, 0)])
                        self._fail(client, mode)
                        return
                    client.sendall(data)
                    passed += len(data)

    def _fail(self, client: socket.socket, mode: str) -> None:
        self._fire()
        if mode == "resets":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif mode == "is silent":
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and self._mode()[0] is not None:
                time.sleep(0.05)
        elif mode == "sends garbage":
            client.sendall(os.urandom(4096))
            time.sleep(0.05)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(4096):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def main(arguments: Sequence[str]) -> None:
    """Print the ports, then serve all of them."""
    with Path(arguments[0]).open("r+b") as file:
        control = mmap.mmap(file.fileno(), 4096)
    ports = []
    for number, argument in enumerate(arguments[1:]):
        host, _, port = argument.partition("=")[2].rpartition(":")
        ports.append(_Port(number, (host, int(port)), control))
    threads = [threading.Thread(target=port.serve) for port in ports]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main(sys.argv[1:])
