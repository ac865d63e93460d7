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
    """Seconds of processor time (this process and the server), elapsed time, and bytes in both directions."""

    client: float
    server: float
    clock: float
    bytes: float


class CountingPort:
    """A proxy port on loopback that counts the bytes to and from a server.

    The proxy runs in this process, so it adds to the processor time of this process.
    """

    def __init__(self, server_hosts: str) -> None:
        host, port = server_hosts.split(":")
        self._server_address = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.bytes = 0
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> CountingPort:
        threading.Thread(target=self._accept_clients, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept_clients(self) -> None:
        with suppress(OSError):
            while True:
                client_socket, server_socket = (
                    self._listener.accept()[0],
                    socket.create_connection(self._server_address),
                )
                for source_socket, target_socket in (
                    (client_socket, server_socket),
                    (server_socket, client_socket),
                ):
                    threading.Thread(
                        target=self._forward_bytes, args=(source_socket, target_socket), daemon=True
                    ).start()

    def _forward_bytes(self, source_socket: socket.socket, target_socket: socket.socket) -> None:
        with suppress(OSError):
            while received_bytes := source_socket.recv(1 << 16):
                with self._lock:
                    self.bytes += len(received_bytes)
                target_socket.sendall(received_bytes)
            target_socket.shutdown(socket.SHUT_RDWR)


def measure_processes(
    measured_function: Callable[[], Result], pid: int, port: CountingPort | None
) -> tuple[Result, Cost]:
    """Run a function; return its result and its cost.

    The cost includes the processor time of this process and of process ``pid``. It also includes the bytes
    through ``port``, unless ``port`` is None.
    """
    counts_before = _cost_counters(pid, port)
    result = measured_function()
    counts_after = _cost_counters(pid, port)
    return result, Cost(
        *(new_count - old_count for old_count, new_count in zip(counts_before, counts_after, strict=True))
    )


def measure_tree(measured_function: Callable[[], Result]) -> tuple[Result, Cost]:
    """Run a function; return its result, and its cost in this process and all its descendants.

    Servers that this process started are included. A child that ended is included if its parent waited for
    it.
    """
    tree_seconds_before, start_time = process_tree_seconds(), time.perf_counter()
    result = measured_function()
    return result, Cost(process_tree_seconds() - tree_seconds_before, 0, time.perf_counter() - start_time, 0)


def least_costs(rounds: Sequence[Sequence[Cost]]) -> list[Cost]:
    """Return, for each step, the least value of each cost over all rounds."""
    return [
        Cost(*(min(getattr(cost, cost_field.name) for cost in step_costs) for cost_field in fields(Cost)))
        for step_costs in zip(*rounds, strict=True)
    ]


def process_tree_seconds() -> float:
    """Return the processor time of this process and all its descendants, in seconds."""
    processes: dict[int, tuple[int, int]] = {}
    for stat_file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            stat_fields = stat_file.read_text().rpartition(")")[2].split()
            # Fields 12 to 15 are utime and stime, and the same of ended children that were waited for.
            processes[int(stat_file.parent.name)] = int(stat_fields[1]), sum(map(int, stat_fields[11:15]))
    own_processes = {os.getpid()}
    while (
        children := {process for process, (parent, _) in processes.items() if parent in own_processes}
        - own_processes
    ):
        own_processes |= children
    return sum(processes[process][1] for process in own_processes if process in processes) / os.sysconf(
        "SC_CLK_TCK"
    )


def _cost_counters(pid: int, port: CountingPort | None) -> tuple[float, float, float, float]:
    # The process name may contain spaces. Of the fields behind it, utime and stime are the 12th and 13th.
    stat_fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    processor_ticks = int(stat_fields[11]) + int(stat_fields[12])
    server = processor_ticks / os.sysconf("SC_CLK_TCK")
    return time.process_time(), server, time.perf_counter(), port.bytes if port else 0
