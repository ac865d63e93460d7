"""Real Apache BookKeeper bookies for the length of a ``with`` block, with a real BookKeeper client.

    with EmbeddedZooKeeper(root / "zookeeper") as server:
        with Bookies(f"zk+hierarchical://{server.hosts}/ledgers", root, "SortedLedgerStorage") as cluster:
            cluster.write(1, cluster.ids[:3], write_quorum=2, ack_quorum=2, entries=10)
            cluster.flush()
            cluster.stored_entries()

All bookies run in one Java process (`Harness.java`). It reads commands from its standard input and ends with
it. The bookies listen only on loopback, collect no garbage, and flush only on command.
"""

from __future__ import annotations

import json
import random
import select
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from auditor.spark.java import find_java
from tests.servers.bookies.jars import RELEASE, classpath
from tests.servers.java import SHORT_LIVED, KeptClasses

ANSWER_LIMIT_S = 300.0
STOP_LIMIT_S = 60.0
HOST = "127.0.0.1"
# Below the ports that systems give to outgoing connections: a stopped bookie's stays free.
PORTS = range(12_000, 30_000)
ETCD_DRIVERS = (
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.bookkeeper.metadata.etcd.EtcdMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.bookkeeper.metadata.etcd.EtcdMetadataClientDriver",
)
PULSAR_DRIVERS = (
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
)
DRIVERS = {"": (), "etcd": ETCD_DRIVERS, "oxia": PULSAR_DRIVERS}
"""Options of the JVM, by what the metadata is in."""


StoredEntries = dict[str, dict[int, frozenset[int]]]
"""bookie -> ledger -> entries."""


class Bookies:
    """A new cluster: its metadata is formatted, and its bookies are started.

    ``names`` are the bookie ids. None stands for a bookie whose id is its address and port. On etcd all must
    be None, because the driver takes an id for an address.
    ``hosts`` are their addresses, each of 127/8. Each bookie has ``ledger_dirs`` ledger directories. With
    ``index_apart`` it has as many for the index alone. ``own`` overrides ``storage``, ``ledger_dirs`` or
    ``index_apart`` for a bookie, by its position.
    ``release`` is the BookKeeper release, one of `jars.RELEASES`. On etcd there is only one.
    ``settings`` override the server settings of the harness, and ``client_settings`` those of its client.
    ``java_options`` are options of the JVM. A subclass with more commands sets its Java class ``MAIN``, the
    files of that class ``JAVA``, and the JVM's ``MEMORY``.
    """

    MAIN = "Harness"
    JAVA: tuple[Path, ...] = ()
    MEMORY: tuple[str, ...] = ("-Xmx512m", "-XX:MaxDirectMemorySize=512m")

    def __init__(
        self,
        metadata_uri: str,
        root: Path,
        storage: str,
        names: Sequence[str | None] = (None, None, None, None),
        *,
        ledger_dirs: int = 1,
        index_apart: bool = False,
        flush_interval_s: float = 3600,
        settings: Mapping[str, str | int] | None = None,
        hosts: Sequence[str] | None = None,
        own: Sequence[Mapping[str, str | int]] = (),
        release: str = RELEASE,
        client_settings: Mapping[str, str | int] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.root = root = root.absolute()
        self.directory = root / "bookies"
        self.release = release
        self.ports = ports = free_ports(len(names))
        self.ids = [
            name or f"{host}:{port}"
            for name, host, port in zip(names, hosts or [HOST] * len(names), ports, strict=True)
        ]
        self._config = {
            "uri": metadata_uri,
            "directory": str(self.directory),
            "storage": storage,
            "bookies": [
                {"id": id, "port": port, **options}
                for id, port, options in zip(self.ids, ports, own or [{}] * len(ports), strict=True)
            ],
            "ledger_dirs": ledger_dirs,
            "index_apart": index_apart,
            "flush_interval_ms": round(flush_interval_s * 1000),
            "settings": dict(settings or {}),
            "client_settings": dict(client_settings or {}),
        }
        self._java_options = tuple(java_options)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        scratch = self.root / "tmp"
        scratch.mkdir(parents=True)
        where = classpath(self.driver, self.JAVA, self.release)
        self._classes = KeptClasses(self.MAIN, where)
        command = [
            str(find_java().executable),
            *DRIVERS[self.driver],
            *self.MEMORY,
            *self._java_options,
            *SHORT_LIVED,
            *self._classes.options(),
            # Native libraries are unpacked there, and go with the test.
            f"-Djava.io.tmpdir={scratch}",
            "-Dlog4j2.level=WARN",
            "-cp",
            where,
            self.MAIN,
            json.dumps(self._config),
        ]
        with (self.root / "bookies.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.root,
            )
        try:
            self._answer()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def driver(self) -> str:
        """Return the kind of metadata store, as `classpath` takes it."""
        uri = str(self._config["uri"])
        return "etcd" if uri.startswith("etcd:") else "oxia" if uri.startswith("metadata-store:oxia:") else ""

    def create(self, ledger: int, ensemble: Sequence[str], write_quorum: int, ack_quorum: int) -> None:
        """Create a ledger on these bookies. It stays open until `close` closes it."""
        self._do("create", ledger=ledger, ensemble=ensemble, write_quorum=write_quorum, ack_quorum=ack_quorum)

    def append(self, ledger: int, entries: int) -> None:
        """Write ``entries`` more entries and wait until they are confirmed."""
        self._do("append", ledger=ledger, entries=entries)

    def close(self, ledger: int) -> None:
        """Close a ledger that `create` created."""
        self._do("close", ledger=ledger)

    def write(
        self, ledger: int, ensemble: Sequence[str], write_quorum: int, ack_quorum: int, entries: int
    ) -> None:
        """Create a ledger, write its entries and close it."""
        self.create(ledger, ensemble, write_quorum, ack_quorum)
        self.append(ledger, entries)
        self.close(ledger)

    def record(
        self, ledger: int, ensemble: Sequence[str], write_quorum: int, ack_quorum: int, last: int
    ) -> None:
        """Write the metadata of a closed ledger, but no entries."""
        self._do(
            "record",
            ledger=ledger,
            ensemble=ensemble,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            last=last,
        )

    def add(self, ledger: int, bookie: str, entries: Iterable[int], **options: str) -> None:
        """Send entries to a bookie despite the metadata; ``options``: another ``password`` or ``payload``."""
        self._do("add", ledger=ledger, bookie=bookie, entries=sorted(entries), **options)

    def delete(self, ledger: int) -> None:
        """Delete a ledger's metadata. Bookies keep their entries of it."""
        self._do("delete", ledger=ledger)

    def stored_entries(self) -> StoredEntries:
        """Return the entries that the storage of each running bookie reports, flushed or not."""
        answers: Mapping[str, Mapping[str, list[int]]] = self._do("held")
        return {
            bookie: {int(ledger): frozenset(entries) for ledger, entries in ledgers.items()}
            for bookie, ledgers in answers.items()
        }

    def flush(self) -> None:
        """Make every running bookie write to disk what is only in its memory."""
        self._do("flush")

    def collect(self, bookie: str) -> None:
        """Make a running bookie collect garbage at once, and compact as it is configured to."""
        self._do("collect", bookie=bookie)

    def start(self, bookie: str) -> None:
        """Start a bookie that was stopped."""
        self._do("start", bookie=bookie)

    def stop(self, bookie: str) -> None:
        """Stop a bookie as an operator does. Its registration is removed."""
        self._do("stop", bookie=bookie)

    def forget_entries(self, bookie: str, ledger: int, entries: Iterable[int]) -> None:
        """Remove entries from the RocksDB locations of a stopped bookie."""
        self._do("forget_entries", bookie=bookie, ledger=ledger, entries=sorted(entries))

    def forget_ledger(self, bookie: str, ledger: int) -> None:
        """Remove a ledger from the RocksDB ledger index of a stopped bookie. Its locations stay."""
        self._do("forget_ledger", bookie=bookie, ledger=ledger)

    def set_limbo(self, bookie: str, ledger: int) -> None:
        """Make a running bookie on DbLedgerStorage put a ledger into limbo. It then serves no entry of it."""
        self._do("set_limbo", bookie=bookie, ledger=ledger)

    def set_read_only(self, bookie: str, on: bool = True) -> None:
        """Make a bookie register as read-only, or as writable again."""
        self._do("read_only", bookie=bookie, on=on)

    def place(self, bookie: str) -> Path:
        """Return the directory that contains a bookie's directories."""
        return self.directory / bookie.replace(":", "_")

    def _do(self, command: str, **arguments: Any) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        # Each answer is one line, and none is sent unasked: nothing waits in a buffer.
        if select.select([self._process.stdout], [], [], ANSWER_LIMIT_S)[0]:
            line = self._process.stdout.readline()
            answer = json.loads(line) if line else {"error": "the bookies' process ended"}
        else:
            answer = {"error": f"no answer within {ANSWER_LIMIT_S:g} s"}
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}; see {self.root / 'bookies.log'}")
        return answer["answer"]

    def _end(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # the harness ends with it
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None
        self._classes.keep()


def free_ports(count: int) -> list[int]:
    """Return ports of this machine on which no process listens."""
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # somebody listens there
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"no {count} free ports from {PORTS.start} to {PORTS.stop - 1}")
