"""Four bookies of one version of BookKeeper, the ledgers written to them, and the results of its classes.

    bk1_3181    InterleavedLedgerStorage, index files of version 1, journal of version 6, pages of 1 KiB
    bk2_3181    SortedLedgerStorage, index files of version 0, journal of version 5
    bk3_3181    DbLedgerStorage, small entry logs, garbage collector's metadata cache, journal of version 4
    bk4_3181    DbLedgerStorage, small entry logs, direct entry logger (new in 4.16), no metadata cache

Each bookie runs the server's own main class in a separate process. An orderly stop flushes the first
ledgers. Then the bookies start again and write the second ledgers. The program kills them while the second
ledgers are only in their journals.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.sources.metadata.dump.save import SaveRequest, new_file, save
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.java import find_java
from tests.servers.bookies.driver import free_ports
from tests.servers.bookies.jars import compiled_classpath, pom_of
from tests.servers.java import SHORT_LIVED

PACKAGE_DIR = Path(__file__).parent
LIMIT_S = 120.0
OPENED_PACKAGES = (
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/java.lang",
)
UNPACKED_FILES = ("LOCK", "LOG", "LOG.old", "OPTIONS")
"""Files that RocksDB writes beside its data. They are not packed."""

COMMON = """\
metadataServiceUri={uri}
bookieId={name}
bookiePort={port}
advertisedAddress=127.0.0.1
listeningInterface=lo
allowLoopback=true
journalDirectories=journal
ledgerDirectories=ledgers
flushInterval=500
gcWaitTime=600000
isForceGCAllowWhenNoSpace=true
journalPreAllocSizeMB=1
journalMaxSizeMB=2
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.99
diskUsageLwmThreshold=0.98
enableStatistics=false
httpServerEnabled=false
serverNumIOThreads=1
"""
STORAGE = {
    "bk1": """\
ledgerStorageClass=org.apache.bookkeeper.bookie.InterleavedLedgerStorage
journalFormatVersionToWrite=6
fileInfoFormatVersionToWrite=1
pageSize=1024
pageLimit=4096
""",
    "bk2": """\
ledgerStorageClass=org.apache.bookkeeper.bookie.SortedLedgerStorage
journalFormatVersionToWrite=5
fileInfoFormatVersionToWrite=0
""",
    "bk3": """\
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
journalFormatVersionToWrite=4
fileInfoFormatVersionToWrite=0
gcEntryLogMetadataCacheEnabled=true
logSizeLimit=8192
gcWaitTime=1000
dbStorage_writeCacheMaxSizeMb=16
dbStorage_readAheadCacheMaxSizeMb=16
dbStorage_rocksDB_blockCacheSize=1048576
""",
    "bk4": """\
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
journalFormatVersionToWrite=6
logSizeLimit=16384
dbStorage_directIOEntryLogger=true
dbStorage_directIOEntryLoggerTotalWriteBufferSizeMB=4
dbStorage_directIOEntryLoggerTotalReadBufferSizeMB=4
dbStorage_directIOEntryLoggerReadBufferSizeMB=1
dbStorage_writeCacheMaxSizeMb=16
dbStorage_readAheadCacheMaxSizeMb=16
dbStorage_rocksDB_blockCacheSize=1048576
""",
}


class Version:
    """One version of BookKeeper from Maven Central, with this directory's Java files compiled against it."""

    def __init__(self, version: str, scratch: Path) -> None:
        self.version = version
        sources = sorted((PACKAGE_DIR / "java").glob("*.java"))
        self._class_path = compiled_classpath("bookkeeper", pom_of(version, scratch), sources)
        self._scratch = scratch

    def command(self, main: str, *arguments: str) -> list[str]:
        """Return the command line that starts a main class of this version."""
        opens = [f"--add-opens={name}=ALL-UNNAMED" for name in OPENED_PACKAGES]
        memory = ("-Xmx256m", "-XX:MaxDirectMemorySize=256m", f"-Djava.io.tmpdir={self._scratch}")
        java = [str(find_java().executable), *memory, *SHORT_LIVED, *opens]
        return [*java, "-cp", self._class_path, main, *arguments]

    def answer(self, main: str, word: str, *arguments: str) -> Any:
        """Run a main class; return the JSON value in the last line of its output that begins with ``word``.

        Returns None if ``word`` is empty.
        """
        outcome = subprocess.run(
            self.command(main, *arguments), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        lines = [line for line in outcome.stdout.splitlines() if line.startswith(f"{word} ")]
        if outcome.returncode or (word and not lines):
            raise RuntimeError(f"{main} {arguments}:\n{outcome.stdout[-4000:]}\n{outcome.stderr[-4000:]}")
        return json.loads(lines[-1].removeprefix(f"{word} ")) if word else None


def make(version: str, root: Path) -> dict[str, Any]:
    """Fill ``root/bookies`` and save the metadata beside it.

    Returns the ledgers written and the bookies' contents as the version's classes read them.
    """
    scratch = root / "scratch"
    scratch.mkdir(parents=True)
    java = Version(version, scratch)
    bookies = root / "bookies"
    with EmbeddedZooKeeper(root / "zookeeper") as server:
        uri = f"zk+longhierarchical://{server.hosts}/ledgers"
        java.answer("Writer", "", uri, "format")
        with _running(java, bookies, uri, signal.SIGTERM):
            written = java.answer("Writer", "WRITTEN", uri, "first")
            time.sleep(4)  # time for some flushes and a garbage collection
        with _running(java, bookies, uri, signal.SIGKILL, "flushInterval=3600000\n"):
            written |= java.answer("Writer", "WRITTEN", uri, "second")
        with new_file(root / "dump.jsonl.gz") as dump:
            save(SaveRequest(parse_metadata_uri(uri), (), False, StoreOptions()), dump)
        java.answer("org.apache.bookkeeper.bookie.SeveralMaps", "", str(root / "several-maps"))
    copied = Path(shutil.copytree(bookies, root / "copied"))
    read = java.answer("org.apache.bookkeeper.bookie.Oracle", "READ", str(copied))
    return {"version": version, "ledgers": written, "bookies": read}


def pack(source: Path, target: Path) -> None:
    """Pack a directory as an xz-compressed tar file, without owners."""
    with tarfile.open(target, "w:xz") as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file() and not path.name.startswith(UNPACKED_FILES):
                status = archive.gettarinfo(path, f"{source.name}/{path.relative_to(source)}")
                status.uid = status.gid = 0
                status.uname = status.gname = ""
                with path.open("rb") as file:
                    archive.addfile(status, file)


@contextmanager
def _running(java: Version, bookies: Path, uri: str, end: signal.Signals, extra: str = "") -> Iterator[None]:
    """Run all bookies until the block ends, then send each the signal ``end``."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        ports = free_ports(len(STORAGE))
        for name, port in zip(STORAGE, ports, strict=True):
            directory = bookies / f"{name}_3181"
            directory.mkdir(parents=True, exist_ok=True)
            conf = bookies.parent / f"{name}.conf"
            text = COMMON.format(uri=uri, name=name, port=port)
            lines = (text + STORAGE[name] + extra).splitlines()
            values = dict(line.split("=", 1) for line in lines)  # Java makes a list of repeated keys
            conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            with (bookies.parent / f"{name}.log").open("ab") as log:
                command = java.command("org.apache.bookkeeper.server.Main", "--conf", str(conf))
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=directory))
        for port, process in zip(ports, processes, strict=True):
            _wait_for(port, process)
        yield
    finally:
        _end(processes, end)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a bookie listens on its port. Raise RuntimeError if it does not."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"no bookie listens on {port}: {process.poll()}")


def _end(processes: Sequence[subprocess.Popen[bytes]], end: signal.Signals) -> None:
    for process in processes:
        process.send_signal(end)
    for process in processes:
        process.wait(LIMIT_S)
