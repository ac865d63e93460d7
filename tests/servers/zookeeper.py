"""ZooKeeper servers that tests stop, freeze and secure: one with its own configuration, or three together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from auditor.embedded.zookeeper import zookeeper_jars
from auditor.spark.java import find_java
from tests.servers.java import SHORT_LIVED

START_LIMIT_S = 60.0
_NETTY = (
    "buffer",
    "codec",
    "codec-base",
    "common",
    "handler",
    "resolver",
    "tcnative-classes",
    "transport",
    "transport-classes-epoll",
    "transport-native-unix-common",
)


class ZooKeeperProcess:
    """One server with its own configuration, on a free port of the loopback interface.

    ``lines`` are added to its configuration, ``properties`` are Java properties, ``jars`` is its class path.
    """

    def __init__(
        self,
        directory: Path,
        lines: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        jars: Sequence[Path] | None = None,
        port: int = 0,
    ) -> None:
        self.directory = directory
        self.port = port or free_ports(1)[0]
        self.hosts = f"127.0.0.1:{self.port}"
        self._lines = list(lines)
        self._properties = dict(properties or {})
        self._jars = list(jars or with_netty())
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ZooKeeperProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def launch(self) -> None:
        """Start the server without waiting."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zookeeper.cfg"
        standard = (
            f"dataDir={self.directory}",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            "tickTime=200",
            "minSessionTimeout=400",
            "maxSessionTimeout=60000",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
        )
        config.write_text("\n".join((*standard, *self._lines)) + "\n")
        command = [
            *(str(find_java().executable), "-Xmx192m", *SHORT_LIVED),
            *(f"-D{name}={value}" for name, value in self._properties.items()),
            *("-cp", os.pathsep.join(map(str, self._jars))),
            *("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)),
        ]
        with (self.directory / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        """Wait until the server serves clients."""
        deadline = time.monotonic() + START_LIMIT_S
        while self.mode() is None:
            assert self._process is not None
            log = self.directory / "zookeeper.log"
            assert self._process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)

    def start(self) -> None:
        """Start the server and wait until it serves clients."""
        self.launch()
        self.wait()

    def mode(self) -> str | None:
        """Return standalone, leader or follower. None while the server serves no client."""
        return self._status().get("Mode")

    def connections(self) -> int:
        """Return the number of connected clients, without the one that asks."""
        return int(self._status().get("Connections", "1")) - 1

    def received(self) -> int:
        """Return how many requests the server has received since it started."""
        return int(self._status()["Received"])

    def _status(self) -> dict[str, str]:
        """Return the server's answer to srvr, by name. Empty if it serves no client."""
        answer = b""
        try:
            # A busy machine answers late.
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                while chunk := connection.recv(4096):
                    answer += chunk
        except OSError:
            return {}
        return dict(line.split(": ", 1) for line in answer.decode().splitlines() if ": " in line)

    def freeze(self) -> None:
        """Make the server stop answering, without closing a connection."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Make a frozen server continue."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the server at once. Its files stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class Ensemble:
    """Three servers, of which any two are a quorum. ``hosts`` lists all of them."""

    def __init__(self, directory: Path, jars: Sequence[Path] | None = None) -> None:
        ports = free_ports(9)
        lines = [
            "initLimit=50",
            "syncLimit=5",
            *(f"server.{n}=127.0.0.1:{ports[3 + n]}:{ports[6 + n]}" for n in range(3)),
        ]
        self.members = []
        for n in range(3):
            own = directory / f"server{n}"
            own.mkdir(parents=True)
            (own / "myid").write_text(str(n))
            self.members.append(ZooKeeperProcess(own, lines, jars=jars, port=ports[n]))
        self.hosts = ",".join(member.hosts for member in self.members)

    def __enter__(self) -> Ensemble:
        with ExitStack() as on_failure:
            on_failure.callback(self.__exit__)
            for member in self.members:
                member.launch()
            for member in self.members:
                member.wait()
            on_failure.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()


@contextmanager
def writer(hosts: str, **options: Any) -> Iterator[Any]:
    """Yield a client that can write, which no part of the program can."""
    client = KazooClient(hosts, timeout=20, **options)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def write(client: Any, znodes: Mapping[str, bytes]) -> None:
    """Create znodes and their parents, many in one transaction."""
    created: set[str] = set()
    transaction = client.transaction()
    for path, data in znodes.items():
        parts = path.split("/")
        for above in ("/".join(parts[:n]) for n in range(2, len(parts))):
            if above not in created and above not in znodes and not client.exists(above):
                transaction.create(above, b"")
            created.add(above)
        created.add(path)
        transaction.create(path, data)
        if len(transaction.operations) >= 500:
            _commit(transaction)
            transaction = client.transaction()
    _commit(transaction)


def _commit(transaction: Any) -> None:
    failed = [result for result in transaction.commit() if isinstance(result, Exception)]
    assert not failed, failed


def with_netty() -> list[Path]:
    """Return pyspark's jars for a server that also supports TLS."""
    jars = zookeeper_jars()
    (place,) = {jar.parent for jar in jars}
    return jars + [sorted(place.glob(f"netty-{name}-[0-9]*.jar"))[-1] for name in _NETTY]


def free_ports(count: int) -> list[int]:
    """Return distinct ports of the loopback interface on which no process listens now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
