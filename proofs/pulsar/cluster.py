"""A real Pulsar in one Java process, with topics that a seed determines. It stops as after a power failure.

    with Pulsar(root, seed=7, topics=3) as pulsar:
        pulsar.view                     # the broker's view: topic -> its ledgers, cursors and schemas
        pulsar.infos                    # the broker's reading of their znodes
        pulsar.entries                  # the last entries of cursors' ledgers: ledger -> bytes in hex
        pulsar.expected                 # findings of an audit without damage: unfinished offloads
        plant(pulsar.zookeeper, ...)    # beside the idle broker
    pulsar.metadata_uri, pulsar.bookies     # the files after the end

`java/PulsarRun.java` starts ZooKeeper, three bookies and a broker, which listen on this machine alone.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from auditor.spark.java import find_java
from tests.servers.bookies.driver import free_ports
from tests.servers.bookies.jars import compiled_classpath
from tests.servers.java import SHORT_LIVED

PACKAGE_DIR = Path(__file__).parent
BOOKIES = 3
PORTS_LOOKED_AT = 5_000
START_LIMIT_S = 400.0
STOP_LIMIT_S = 60.0
# Netty and the broker's caches access internal packages of the Java runtime.
OPENS = (
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
)
CONF = """\
clusterName=standalone
brokerServicePort={broker}
webServicePort={web}
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
managedLedgerDefaultEnsembleSize=2
managedLedgerDefaultWriteQuorum=2
managedLedgerDefaultAckQuorum=2
managedLedgerMaxEntriesPerLedger=10
managedLedgerMinLedgerRolloverTimeMinutes=0
defaultRetentionTimeInMinutes=-1
defaultRetentionSizeInMB=-1
managedLedgerInfoCompressionType={compression}
managedLedgerInfoCompressionThresholdInBytes={threshold}
managedCursorInfoCompressionType={compression}
managedCursorInfoCompressionThresholdInBytes={threshold}
managedLedgerOffloadDriver=aws-s3
managedLedgerOffloadBucket=cold
managedLedgerOffloadRegion=eu-west-3
managedLedgerOffloadDeletionLagMs=0
loadBalancerOverrideBrokerNicSpeedGbps=1
narExtractionDirectory={root}
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
flushInterval=1000
allowLoopback=true
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.99
"""
"""Configuration of the broker: ledgers of ten messages that are retained for ever.

Lists larger than the threshold are compressed. Pulsar 3.0 only starts if a network card reports its speed,
so the speed is set.
"""
RELEASE = "4.2.4"
OFFLOADER = "name: nothing\ndescription: copies nothing\noffloaderFactoryClass: Offloader$Factory\n"


class Pulsar:
    """The cluster. It runs for the length of a ``with`` block, and its files stay below ``root``."""

    def __init__(
        self,
        root: Path,
        seed: int,
        topics: int = 3,
        compression: str = "LZ4",
        threshold: int = 60,
        release: str = RELEASE,
    ) -> None:
        self.root = root.absolute()
        self.seed = seed
        self.topics = topics
        self.compression = compression
        self.threshold = threshold
        self.release = release
        self.view: dict[str, Any] = {}
        self.infos: dict[str, Any] = {}
        self.entries: dict[str, str] = {}
        self.expected: list[dict[str, Any]] = []
        self._ports = [*free_ports(3), _row_of_ports(BOOKIES)]
        self._process: subprocess.Popen[str] | None = None

    @property
    def zookeeper(self) -> str:
        """The address of its ZooKeeper."""
        return f"127.0.0.1:{self._ports[2]}"

    @property
    def metadata_uri(self) -> str:
        """The metadata URI of its ZooKeeper's files."""
        return f"zk-snapshot://{self.root}/zookeeper/version-2"

    @property
    def bookies(self) -> Path:
        """The directory for ``--bookies``. It exists after the cluster has ended."""
        return self.root / "bookies"

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        broker, web, zookeeper, *_ = self._ports
        conf = self.root / "standalone.conf"
        facts = {"compression": self.compression, "threshold": self.threshold, "root": self.root}
        conf.write_text(CONF.format(broker=broker, web=web, **facts))
        self._pack_offloader()
        command = [
            str(find_java().executable),
            "-Xmx900m",
            "-XX:MaxDirectMemorySize=900m",
            *SHORT_LIVED,
            *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENS),
            f"-Djava.io.tmpdir={self.root}",
            "-cp",
            compiled_classpath("pulsar", self._pom(), sorted((PACKAGE_DIR / "java").glob("*.java"))),
            "PulsarRun",
            *(str(self.seed), str(self.topics), str(web), self.zookeeper),
            *("--config", str(conf)),
            *("--zookeeper-port", str(zookeeper), "--zookeeper-dir", str(self.root / "zookeeper")),
            *("--bookkeeper-port", str(self._ports[3]), "--bookkeeper-dir", str(self.root / "bk")),
            *("--num-bookies", str(BOOKIES), "--no-functions-worker", "--no-stream-storage"),
            *("-a", "127.0.0.1"),
        ]
        with (self.root / "pulsar.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Namespace policies name ./offloaders, even if the broker's setting is another directory.
                cwd=self.root,
                env={**os.environ, "PULSAR_STANDALONE_USE_ZOOKEEPER": "1"},
            )
        try:
            answer = self._answer()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.view, self.infos, self.entries = (answer[name] for name in ("topics", "infos", "entries"))
        self.expected = answer["expected"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        try:
            self._process.communicate("halt\n", STOP_LIMIT_S)
        finally:
            self._process.kill()
            self._process.wait()
        for number in range(BOOKIES):
            place = self.bookies / f"127.0.0.1_{self._ports[3] + number}"
            place.mkdir(parents=True)
            (self.root / f"bk{number}").rename(place / f"bk{number}")

    def _pom(self) -> Path:
        """Return the Maven file that lists the jars of this release."""
        pom = PACKAGE_DIR / "pom.xml"
        if self.release == RELEASE:
            return pom
        release_pom = self.root / "pom.xml"
        release_pom.write_text(pom.read_text().replace(RELEASE, self.release))
        return release_pom

    def _pack_offloader(self) -> None:
        """Pack `java/Offloader.java` as brokers expect it. Its class is on the process's own class path."""
        place = self.root / "offloaders"
        place.mkdir()
        with zipfile.ZipFile(place / "nothing.nar", "w") as nar:
            nar.mkdir("META-INF/bundled-dependencies")
            nar.writestr("META-INF/services/pulsar-offloader.yaml", OFFLOADER)

    def _answer(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        ready = select.select([self._process.stdout], [], [], START_LIMIT_S)[0]
        if ready and (line := self._process.stdout.readline()):
            return json.loads(line)
        raise RuntimeError(f"Pulsar did not come up; see {self.root / 'pulsar.log'}")


def _row_of_ports(count: int) -> int:
    """Return the first of ``count`` consecutive free ports. Pulsar's starter gets only the first."""
    free = set(free_ports(PORTS_LOOKED_AT))
    return next(port for port in sorted(free) if free.issuperset(range(port, port + count)))
