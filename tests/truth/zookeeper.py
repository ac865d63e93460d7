"""Program that makes ZooKeeper write and read its files: ``python -m tests.truth.zookeeper VERSION``.

A server of each version runs as a quorum of one. Twice it starts, is written to, and is killed.
``tests/data/zookeeper-<version>/version-2`` has the files it left. The oracle is the content that its own
classes read in them. Servers that start on copies, with a compression set, write the same tree packed.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from auditor.spark.java import find_java
from tests.servers.zookeeper import ZooKeeperProcess, free_ports
from tests.truth.jars import classpath

DATA = Path(__file__).parents[1] / "data"
VERSIONS = ("3.6.4", "3.7.2", "3.8.4", "3.9.5")
_PROPERTIES = {
    "zookeeper.preAllocSize": "8",
    "zookeeper.extendedTypesEnabled": "true",
    "znode.container.checkIntervalMs": "100",
    "zookeeper.skipACL": "yes",
}
_README = """\
# zookeeper-{version}

Written by a server of ZooKeeper {version}, a quorum of one, that was killed twice:
`python -m tests.truth.zookeeper {version}` makes it again.

- `version-2/`: its snapshots and transaction logs. In the logs is every kind of write: creates with and
  without a session, in sequence, containers and their deletion, znodes with a time to live and the end of
  one, multis, one of which failed, closed sessions, access lists, a reconfiguration.
- `snapshot.*.gz`, `snapshot.*.snappy`: what servers wrote that started on copies of these files with
  `zookeeper.snapshot.compression.method`.
- `oracle.json.gz`: the tree after the last transaction, and every transaction, as ZooKeeper's own classes of
  this version read them (`FileTxnSnapLog.restore`, `FileTxnLog`; `tests/truth/java/ZooKeeperTruth.java`).
"""


@contextmanager
def server(
    directory: Path, jars: str, properties: dict[str, str] | None = None
) -> Iterator[ZooKeeperProcess]:
    """Run a quorum of one, whose leader does the work that only a leader does."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "myid").write_text("1")
    client, peers, election = free_ports(3)
    lines = [
        f"server.1=127.0.0.1:{peers}:{election}:participant;127.0.0.1:{client}",
        *("standaloneEnabled=false", "reconfigEnabled=true", "initLimit=50", "syncLimit=50"),
    ]
    running = ZooKeeperProcess(directory, lines, {**_PROPERTIES, **(properties or {})}, [Path(jars)], client)
    with running:
        yield running


def run(jars: str, *arguments: str) -> None:
    """Run the Java program ZooKeeperTruth."""
    properties = [f"-D{name}={value}" for name, value in _PROPERTIES.items()]
    command = [str(find_java().executable), *properties, "-cp", jars, "ZooKeeperTruth", *arguments]
    subprocess.run(command, check=True, timeout=120)


def jars_of(version: str) -> str:
    """Return the class path of one version, with its server's dependencies and ZooKeeperTruth."""
    artifacts = [
        f"org.apache.zookeeper:zookeeper:{version}",
        "org.xerial.snappy:snappy-java:1.1.10.5",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
    ]
    return classpath("truth-zookeeper", artifacts, "ZooKeeperTruth.java")


def make(version: str, target: Path) -> None:
    """Write the files of one version."""
    jars = jars_of(version)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "plain")
        for part in ("first", "second"):
            with server(directory, jars) as running:
                run(jars, part, running.hosts)
        saved = Path(scratch, "saved")
        shutil.copytree(directory / "version-2", saved / "version-2")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(saved, target, ignore=shutil.ignore_patterns("*Epoch*", "*.tmp"))
        run(jars, "read", str(saved), str(Path(scratch, "oracle.json")))
        for method in ("gz", "snappy"):
            copied = Path(scratch, method)
            shutil.copytree(target, copied)
            with server(copied, jars, {"zookeeper.snapshot.compression.method": method}):
                pass
            for written in copied.glob(f"version-2/snapshot.*.{method}"):
                shutil.copy(written, target)
        oracle = gzip.compress(Path(scratch, "oracle.json").read_bytes(), mtime=0)
    (target / "oracle.json.gz").write_bytes(oracle)
    (target / "README.md").write_text(_README.format(version=version))


if __name__ == "__main__":
    for release in sys.argv[1:] or VERSIONS:
        make(release, DATA / f"zookeeper-{release}")
        print(DATA / f"zookeeper-{release}")
