"""Costs of a piece of work: processor time of this process and of a server, and bytes sent between them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time (this process and the server) and elapsed time; bytes both ways."""

    client: float
    server: float
    clock: float
    bytes: float


class CountingPort:
    """A proxy port on loopback that counts the bytes to and from a server.

    The proxy runs in this process, so it costs some of its processor time.
    """

    def __init__(self, hosts: str) -> None:
        host, port = hosts.split(":")
        self._to = host, int(port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.bytes = 0
        self.hosts = f"127.0.0.1:{self._door.getsockname()[1]}"

    def __enter__(self) -> CountingPort:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self._door.accept()[0], socket.create_connection(self._to)
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    self.bytes += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)


def measured(run: Callable[[], Result], pid: int, port: CountingPort | None) -> tuple[Result, Cost]:
    """Run a function; return its result and its cost.

    The cost has this process's and process ``pid``'s processor time, and the bytes through ``port`` if
    given.
    """
    before = _now(pid, port)
    result = run()
    after = _now(pid, port)
    return result, Cost(*(b - a for a, b in zip(before, after, strict=True)))


def measured_tree(run: Callable[[], Result]) -> tuple[Result, Cost]:
    """Run a function; return its result and its cost to this process and all its descendants.

    Servers that this process started are included. So is a child that ended, if its parent waited for it.
    """
    before, begun = tree_seconds(), time.perf_counter()
    result = run()
    return result, Cost(tree_seconds() - before, 0, time.perf_counter() - begun, 0)


def least(rounds: Sequence[Sequence[Cost]]) -> list[Cost]:
    """Return, for each step, the least value of each cost over all rounds."""
    return [
        Cost(*(min(getattr(cost, field.name) for cost in step) for field in fields(Cost)))
        for step in zip(*rounds, strict=True)
    ]


def tree_seconds() -> float:
    """Return the processor time of this process and all its descendants, in seconds."""
    processes: dict[int, tuple[int, int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            numbers = place.read_text().rpartition(")")[2].split()
            # Fields 12 to 15 are utime and stime, and the same of ended children that were waited for.
            processes[int(place.parent.name)] = int(numbers[1]), sum(map(int, numbers[11:15]))
    ours = {os.getpid()}
    while children := {process for process, (parent, _) in processes.items() if parent in ours} - ours:
        ours |= children
    return sum(processes[process][1] for process in ours if process in processes) / os.sysconf("SC_CLK_TCK")


def _now(pid: int, port: CountingPort | None) -> tuple[float, float, float, float]:
    # The process name may contain spaces. Of the fields behind it, utime and stime are the 12th and 13th.
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(numbers[11]) + int(numbers[12])
    server = ticks / os.sysconf("SC_CLK_TCK")
    return time.process_time(), server, time.perf_counter(), port.bytes if port else 0
