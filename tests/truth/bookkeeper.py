"""Program that makes old BookKeeper versions write files: ``python -m tests.truth.bookkeeper VERSION ...``.

For each version, three bookies run in one process with a client of their version. They store ledgers and
are killed. They start again on their files, are read by the client, and stop.
``tests/data/bookkeeper-<version>`` has their directories, every znode below ``/ledgers``, and the data read.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.spark.java import find_java
from tests.servers.zookeeper import free_ports, writer
from tests.truth.jars import classpath

DATA = Path(__file__).parents[1] / "data"
VERSIONS = ("4.1.0", "4.2.3")
SESSION_SECONDS = 14.0
"""After so long the registrations of those that were killed are gone."""

_README = """\
# bookkeeper-{version}

Written by three bookies and a client of BookKeeper {version} (`tests/truth/java/OldBookKeeper.java`) on
ZooKeeper 3.9: `python -m tests.truth.bookkeeper {version}` makes it again.

- `bookies.tar.gz`: their directories. They were killed once, started again, and stopped.
- `znodes.jsonl.gz`: every znode below `/ledgers` while they ran.
- `oracle.json.gz`: what the client of this version read of each ledger after the restart.
"""


def run(jars: str, *arguments: str) -> None:
    """Run the Java program OldBookKeeper."""
    command = [str(find_java().executable), "-Xmx256m", "-cp", jars, "OldBookKeeper", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode:
        raise RuntimeError(f"{done.stdout}\n{done.stderr}")


def znodes(hosts: str) -> bytes:
    """Return every znode from ``/ledgers`` down, one per line."""
    lines: list[str] = []
    with writer(hosts) as client:
        waiting = ["/ledgers"]
        for path in waiting:
            data, stat = client.get(path)
            numbers = {"ctime": stat.ctime, "mtime": stat.mtime, "version": stat.version}
            numbers |= {"czxid": stat.czxid, "mzxid": stat.mzxid, "ephemeralOwner": stat.ephemeralOwner}
            lines.append(json.dumps({"path": path, "data": base64.b64encode(data).decode(), **numbers}))
            waiting += [f"{path}/{child}" for child in sorted(client.get_children(path))]
    return "".join(f"{line}\n" for line in lines).encode()


def packed(directory: Path) -> bytes:
    """Return the files below a directory as a tar; their times have no effect."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in sorted(path for path in directory.rglob("*") if path.is_file()):
            archive.add(file, f"bookies/{file.relative_to(directory)}")
    return buffer.getvalue()


def make(version: str, target: Path) -> None:
    """Write the files of one version."""
    server = f"org.apache.bookkeeper:bookkeeper-server:{version}"
    jars = classpath("truth-bookkeeper", [server], "OldBookKeeper.java")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        arguments = [*map(str, free_ports(3)), str(root / "oracle.json")]
        with EmbeddedZooKeeper(root / "zookeeper", tick_time_ms=500) as zookeeper:
            run(jars, "write", zookeeper.hosts, str(root / "bookies"), *arguments)
            time.sleep(SESSION_SECONDS)
            run(jars, "serve", zookeeper.hosts, str(root / "bookies"), *arguments)
            lines = znodes(zookeeper.hosts)
        files = {"znodes.jsonl": lines, "oracle.json": (root / "oracle.json").read_bytes()}
        files["bookies.tar"] = packed(root / "bookies")
    target.mkdir(exist_ok=True)
    for name, data in files.items():
        (target / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))
    (target / "README.md").write_text(_README.format(version=version))


if __name__ == "__main__":
    for release in sys.argv[1:] or VERSIONS:
        make(release, DATA / f"bookkeeper-{release}")
        print(DATA / f"bookkeeper-{release}")
