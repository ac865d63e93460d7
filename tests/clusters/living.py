"""A living cluster: each bookie in its own process, with AutoRecovery and garbage collection at work.

    with living_cluster(root, "SortedLedgerStorage") as cluster:
        cluster.load(seed=7)
        cluster.kill(cluster.ids[0])
        cluster.start(cluster.ids[0])

Only a process's own handle is used to end it. `slow_sync.c` slows the entry logs of a bookie.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.spark.java import find_java
from tests.clusters.store import EtcdStore, Store
from tests.servers import etcd
from tests.servers.bookies.driver import DRIVERS, Bookies
from tests.servers.bookies.jars import RELEASE, classpath
from tests.servers.java import SHORT_LIVED, KeptClasses

DIRECTORY = Path(__file__).parent
READY_LIMIT_S = 120.0
STOP_LIMIT_S = 60.0
# Sessions end soon after their bookie: 4 s, or a kill would be over before the cluster knows of it.
TICK_MS = 500
SESSION_MS = 4_000

BUSY_SETTINGS: dict[str, str | int] = {
    "zkTimeout": SESSION_MS,
    "autoRecoveryDaemonEnabled": "true",
    "openLedgerRereplicationGracePeriod": 3_000,
    "gcWaitTime": 8_000,
    "gcOverreplicatedLedgerWaitTime": 20_000,
    "minorCompactionThreshold": "0.2",
    "minorCompactionInterval": 20,
    "majorCompactionThreshold": "0.8",
    "majorCompactionInterval": 60,
    "flushEntrylogBytes": 0,
    # Logs are full soon: Sorted and Interleaved write lastMark only then.
    "logSizeLimit": 2 << 20,
    "journalMaxSizeMB": 4,
}
"""Of the server's configuration: everything that goes on by itself goes on within seconds."""

ETCD_SETTINGS: dict[str, str | int] = {
    "autoRecoveryDaemonEnabled": "false",
    "gcOverreplicatedLedgerWaitTime": 0,
}
"""What the etcd driver has no queue for: `newLedgerUnderreplicationManager` throws."""

IDLE_SETTINGS: dict[str, str | int] = {"zkTimeout": SESSION_MS}
"""Nothing is collected, compacted or replicated by itself."""


class LivingBookies(Bookies):
    """Bookies that run as processes; `LivingHarness` is their client."""

    MAIN = "LivingHarness"
    JAVA = tuple(sorted(DIRECTORY.glob("java/*.java")))
    MEMORY = ("-Xmx256m", "-XX:MaxDirectMemorySize=256m")

    def __init__(
        self, store: Store | EtcdStore, root: Path, storage: str, names: int = 4, **options: Any
    ) -> None:
        super().__init__(store.uri, root, storage, [None] * names, **options)
        self._config["apart"] = True
        self.store = store
        self.storage = storage
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._shim = slow_sync(root)
        self._jars = classpath(self.driver, self.JAVA, self.release)
        self._class_cache = KeptClasses("LivingBookie", self._jars)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.start(*self.ids)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._class_cache.awaited and self.ids[0] in self._running:
            with suppress(subprocess.TimeoutExpired):
                self.stop(self.ids[0])
        for bookie in list(self._running):
            self.kill(bookie)
        self._class_cache.keep()
        super().__exit__(kind, error, trace)

    def settings(self, settings: Mapping[str, str | int]) -> None:
        """Override the harness's own configuration for bookies that are started from now on."""
        self._config["settings"] = dict(settings)

    def upgrade(self, release: str) -> None:
        """Use another release for bookies that are started from now on."""
        self._jars = classpath(self.driver, self.JAVA, release)
        self._class_cache = KeptClasses("LivingBookie", self._jars)

    def without_index_directories(self) -> None:
        """Remove indexDirectories from the configuration of bookies that are started from now on."""
        self._config["index_apart"] = False

    def launch(self, bookie: str) -> None:
        """Start a bookie's process without waiting for it."""
        slowness = self._slowness(bookie)
        environment = dict(os.environ, LD_PRELOAD=str(self._shim), SLOW_SYNC=str(slowness))
        command = [
            str(find_java().executable),
            *DRIVERS[self.driver],
            *self.MEMORY,
            f"-Djava.io.tmpdir={self.root / 'tmp'}",
            "-Dlog4j2.level=WARN",
            *SHORT_LIVED,
            *self._class_cache.options(),
            *("-cp", self._jars, "LivingBookie", json.dumps(self._config), bookie),
        ]
        with self.log(bookie).open("ab") as log:
            self._running[bookie] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def wait(self, bookie: str) -> None:
        """Wait until a bookie that was launched serves."""
        output = self._running[bookie].stdout
        assert output is not None
        line = output.readline() if select.select([output], [], [], READY_LIMIT_S)[0] else b""
        if line != b"ready\n":
            raise RuntimeError(f"{bookie} does not start; see {self.log(bookie)}")

    def start(self, *bookies: str) -> None:
        """Start bookies that are down, in parallel, and wait until they serve."""
        for bookie in bookies:
            self.launch(bookie)
        for bookie in bookies:
            self.wait(bookie)

    def stop(self, *bookies: str) -> None:
        """Stop bookies in parallel, as an operator does: each flushes first."""
        processes = [self._running.pop(bookie) for bookie in bookies]
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        try:
            for process in processes:
                process.wait(STOP_LIMIT_S)
        finally:
            for process in processes:
                process.kill()  # nothing, where it has ended
                process.wait()
                _close(process)

    def kill(self, bookie: str) -> None:
        """Kill a bookie with ``kill -9``. Do nothing if it is down."""
        process = self._running.pop(bookie, None)
        if process is None:
            return
        process.kill()
        process.wait()
        _close(process)

    def freeze(self, bookie: str) -> None:
        """Send SIGSTOP: the bookie answers no request and closes no connection."""
        self._running[bookie].send_signal(signal.SIGSTOP)

    def thaw(self, bookie: str) -> None:
        self._running[bookie].send_signal(signal.SIGCONT)

    def slow(self, bookie: str, seconds: float) -> None:
        """Make each sync of the bookie's entry logs take this many seconds. 0 restores the speed of the disk.

        A sync that is already waiting continues at once. Only syncs that begin later are slow.
        """
        path = self._slowness(bookie)
        if seconds:
            next_path = path.with_suffix(".next")
            next_path.write_text(str(round(seconds * 1000)))
            next_path.replace(path)
        else:
            path.unlink(missing_ok=True)

    def running(self, bookie: str) -> bool:
        """Return whether the process exists and has not ended by itself."""
        return bookie in self._running and self._running[bookie].poll() is None

    def log(self, bookie: str) -> Path:
        return self.root / f"{bookie.replace(':', '_')}.log"

    def error_lines(self, bookie: str) -> int:
        """Return the number of ERROR lines in a bookie's log about the entry listings that audits request."""
        text = self.log(bookie).read_text(errors="replace")
        return len(re.findall(r"(?m)^.*\bERROR\b.*GetListOfEntries", text))

    def load(self, seed: int, *, threads: int = 2, ledgers: int = 120, pause_ms: int = 400) -> None:
        """Start writers that work until `end_load`. Each keeps at most ``ledgers`` closed ledgers."""
        self._do("load", seed=seed, threads=threads, ledgers=ledgers, pause_ms=pause_ms)

    def end_load(self) -> dict[str, int]:
        """End the load; return counts of its work."""
        counts: dict[str, int] = self._do("rest")
        return counts

    def fail_over(
        self, seed: int, ledgers: int, quorums: tuple[int, int, int] = (3, 2, 2), in_flight: int = 50
    ) -> list[dict[str, int]]:
        """Write this many ledgers; another client takes each over while entries are in flight.

        ``quorums`` are ensemble size, write quorum and ack quorum. Returns each ``ledger`` with the
        last entry acknowledged to its writer (``acknowledged``) and its ``last`` entry by its metadata.
        """
        names = ("ensemble", "write_quorum", "ack_quorum")
        quorum_sizes = dict(zip(names, quorums, strict=True))
        done: list[dict[str, int]] = self._do(
            "fail_over", seed=seed, ledgers=ledgers, in_flight=in_flight, **quorum_sizes
        )
        return done

    def heads(self, ledger: int, entries: Sequence[int]) -> dict[str, list[int]]:
        """Return the last add confirmed in each bookie's copy of some entries; -2 without a copy."""
        heads: dict[str, list[int]] = self._do(
            "heads", ledger=ledger, entries=list(entries), bookies=list(self.ids)
        )
        return heads

    def read(self, ledgers: Mapping[int, int], bookies: Sequence[str] = ()) -> dict[int, dict[str, str]]:
        """Read each ledger's entries 0 to its given last from all bookies; return `LivingHarness` letters."""
        last_entries = {str(ledger): last for ledger, last in ledgers.items()}
        answers = self._do("read", ledgers=last_entries, bookies=list(bookies or self.ids))
        return {int(ledger): letters for ledger, letters in answers.items()}

    def index_files(self, bookie: str, ledger: int) -> list[Path]:
        """Return a ledger's index file on a bookie, or no file if there is none."""
        return list(self.place(bookie).glob(f"*/current/*/*/{ledger:x}.idx"))

    def _slowness(self, bookie: str) -> Path:
        return self.root / f"{bookie.replace(':', '_')}.slow"


@contextmanager
def living_cluster(
    root: Path,
    storage: str,
    *,
    bookies: int = 4,
    settings: Mapping[str, str | int] = BUSY_SETTINGS,
    flush_interval_s: float = 2,
    on_etcd: bool = False,
    release: str = RELEASE,
    jars: Sequence[Path] = (),
) -> Iterator[LivingBookies]:
    """Yield a new cluster on its own ZooKeeper or etcd, with all bookies started.

    ``jars`` has the jars of a ZooKeeper other than pyspark's.
    """
    options = {
        "flush_interval_s": flush_interval_s,
        "settings": {**settings, **(ETCD_SETTINGS if on_etcd else {})},
    }
    with ExitStack() as stack:
        store: Store | EtcdStore
        if on_etcd:
            store = EtcdStore(stack.enter_context(etcd.running(root / "etcd")))
        else:
            server = stack.enter_context(
                EmbeddedZooKeeper(root / "zookeeper", tick_time_ms=TICK_MS, jars=jars)
            )
            store = stack.enter_context(Store(server.hosts))
        yield stack.enter_context(LivingBookies(store, root, storage, bookies, release=release, **options))


def slow_sync(root: Path) -> Path:
    """Return the library that slows a disk, compiled once per cluster. Skip the test without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs cc")
    library = root / "slow_sync.so"
    if not library.exists():
        root.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(DIRECTORY / "slow_sync.c"), "-ldl"]
        subprocess.run(command, check=True)
    return library


def wait_until(holds: Any, what: str, limit_s: float = 90.0) -> None:
    """Wait until ``holds()`` is true. ``what`` describes the condition in the error."""
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s:g} s: {what}")
        time.sleep(0.2)


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None and not pipe.closed:
            pipe.close()
