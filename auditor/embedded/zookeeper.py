"""A real ZooKeeper server in a child process, from the jars in pyspark.

The server listens on the loopback interface only, and has no admin server. It keeps all its files in one
directory: ``version-2`` (snapshots and logs), ``zookeeper.cfg`` and ``zookeeper.log``. To serve the tree of
another server, start this server on a copy of the other server's ``version-2``.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from auditor.errors import StoreError, name_file_in_errors
from auditor.sources.metadata.store import Znode
from auditor.spark.java import find_java
from auditor.spark.java_process import deferred_interrupts

NO_EXPIRY_TICK_MS = 1_000_000_000
"""Tick in ms with which no session expires: sessions expire only at multiples of the tick, here 11 days."""

START_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
WRITER_TIMEOUT_S = 30.0  # session timeout of the client that `load` uses
PORT_ATTEMPTS = 3
MAX_TRANSACTION_NODES = 100
MAX_TRANSACTION_BYTES = 512 * 1024  # half of a server's limit for one request

# kazoo logs a lost connection; this module raises an error for it as well.
_LOGGER = logging.getLogger(__name__)
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.setLevel(logging.INFO)  # its debug messages contain whole znodes with passwords

_JAR_PATTERNS = (
    "zookeeper-3.*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "log4j-api-2.*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
)
_CONFIG_TEMPLATE = """\
dataDir={data_dir}
clientPort={port}
clientPortAddress=127.0.0.1
tickTime={tick_time_ms}
minSessionTimeout=2000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


class EmbeddedZooKeeper:
    """A ZooKeeper server that runs during a ``with`` block and listens at ``hosts``.

        with EmbeddedZooKeeper(directory) as server:
            server.load(znodes)
            store = open_store(f"zk://{server.hosts}/ledgers")

    Args:
        data_dir: The directory for the server's files.
        tick_time_ms: The tick of the server, in ms. With the default no session ever expires, so the
            ephemeral znodes of a saved tree stay.
        port: The port to listen on. 0 means any free port.
        properties: Java system properties, such as ``{"zookeeper.snapshot.compression.method": "gz"}``.
        jars: The jars of another ZooKeeper version. If empty, the jars in pyspark are used.
        heap: The largest size of the Java heap, such as ``512m``. A ledger takes about 600 bytes.
    """

    def __init__(
        self,
        data_dir: Path,
        tick_time_ms: int = NO_EXPIRY_TICK_MS,
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
        heap: str = "512m",
    ) -> None:
        self.data_dir = data_dir
        self.port = port
        self._tick_time_ms = tick_time_ms
        self._properties = dict(properties or {})
        self._jars = tuple(jars)
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: Any = None  # kazoo's client; kazoo has no types

    @property
    def hosts(self) -> str:
        """The server's address as host:port, for a metadata URI."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the started server."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> EmbeddedZooKeeper:
        self.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            StoreError: the server ended, or did not answer in time. The message names the server's log file.
            JavaMissingError: no Java is installed that could run the server.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        requested_port = self.port
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self.port = requested_port or _free_port()
            try:
                with deferred_interrupts():
                    self._launch()
                if self._is_serving():
                    return
            except BaseException:
                self.stop()  # it runs in its own session, so nothing else would end it
                raise
            exit_status = self._process.poll() if self._process else None
            self.stop()
            # Another process may have taken the free port in the meantime.
            if requested_port or exit_status is None or attempt == PORT_ATTEMPTS:
                raise StoreError(
                    f"the embedded ZooKeeper did not start; see {self.data_dir / 'zookeeper.log'}"
                )

    def stop(self) -> None:
        """Stop this server, and close the client that `load` opened. The server's files stay."""
        # Stop the server first: closing the client's session would delete its ephemeral znodes.
        self._end_process()
        if self._writer is not None:
            self._writer.stop()
            self._writer.close()
            self._writer = None

    def load(self, znodes: Iterable[Znode]) -> int:
        """Write znodes, parents first, and return their number.

        Missing ancestors of a znode are created empty. Ephemeral znodes become ephemeral again, in a session
        that stays open until `stop`. The server gives every znode a new version and new times.
        """
        client = self._client()
        transaction = client.transaction()
        paths: set[str] = set()
        written_count, request_bytes = 0, 0
        for znode in znodes:
            path_parts = znode.path.split("/")
            for ancestor in ("/".join(path_parts[:part_count]) for part_count in range(2, len(path_parts))):
                if ancestor not in paths and not client.exists(ancestor):
                    transaction.create(ancestor, b"")
                paths.add(ancestor)
            transaction.create(znode.path, znode.data, ephemeral=znode.ephemeral_owner != 0)
            paths.add(znode.path)
            written_count, request_bytes = (
                written_count + 1,
                request_bytes + len(znode.path) + len(znode.data),
            )
            if len(transaction.operations) >= MAX_TRANSACTION_NODES or request_bytes >= MAX_TRANSACTION_BYTES:
                _commit(transaction)
                transaction, request_bytes = client.transaction(), 0
        _commit(transaction)
        return written_count

    def _client(self) -> Any:
        if self._writer is None:
            from kazoo.client import KazooClient

            self._writer = KazooClient(hosts=self.hosts, timeout=WRITER_TIMEOUT_S, logger=_LOGGER)
            self._writer.start(timeout=START_LIMIT_S)
        return self._writer

    def _launch(self) -> None:
        config_path = self.data_dir / "zookeeper.cfg"
        config_values = {
            "data_dir": self.data_dir.resolve(),
            "port": self.port,
            "tick_time_ms": self._tick_time_ms,
        }
        with name_file_in_errors(config_path):
            config_path.write_text(_CONFIG_TEMPLATE.format(**config_values), "utf-8")
        command = [
            str(find_java().executable),
            f"-Xmx{self._heap}",
            # It runs for minutes only, so the second compiler would cost more than it saves.
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *(
                f"-D{property_name}={property_value}"
                for property_name, property_value in self._properties.items()
            ),
            "-cp",
            os.pathsep.join(map(str, self._jars or zookeeper_jars())),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(config_path),
        ]
        with (self.data_dir / "zookeeper.log").open("ab") as log_file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, start_new_session=True
            )

    def _is_serving(self) -> bool:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                return False
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(b"srvr")
                    if connection.recv(64).startswith(b"Zookeeper version"):
                        return True
            except OSError:
                pass  # not listening yet; the deadline bounds the wait
            time.sleep(0.02)
        return False

    def _end_process(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def zookeeper_jars() -> list[Path]:
    """Return the jars in pyspark that a ZooKeeper server needs.

    Raises:
        StoreError: neither pyspark nor SPARK_HOME has all these jars.
    """
    pyspark_spec = importlib.util.find_spec("pyspark")
    spark_homes = (
        [Path(package_directory) for package_directory in (pyspark_spec.submodule_search_locations or [])]
        if pyspark_spec
        else []
    )
    spark_homes += [Path(os.environ["SPARK_HOME"])] if os.environ.get("SPARK_HOME") else []
    for spark_home in spark_homes:
        jars_by_pattern = [sorted((spark_home / "jars").glob(pattern)) for pattern in _JAR_PATTERNS]
        if all(jars_by_pattern):
            return [jars[-1] for jars in jars_by_pattern]
    raise StoreError("no ZooKeeper jars next to pyspark; install the full pyspark package or set SPARK_HOME")


def _commit(transaction: Any) -> None:
    if not transaction.operations:
        return
    for operation, operation_result in zip(transaction.operations, transaction.commit(), strict=True):
        if isinstance(operation_result, Exception) and type(operation_result).__name__ != "RolledBackError":
            raise StoreError(f"cannot write {operation.path} to the embedded ZooKeeper: {operation_result!r}")


def _free_port() -> int:
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        port: int = probe_socket.getsockname()[1]
        return port
