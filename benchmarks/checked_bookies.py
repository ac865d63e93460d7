"""Five real bookies with healthy ledgers in one Java process, which also runs the server's own check.

The bookies are those of the tests (BookKeeper 4.17.2 from Maven Central). Their settings give the server's
check enough page memory and threads. The bookies do nothing else during the measurement. The check is
`AuditorReplicasCheckTask`, called as the server calls it. It runs in the bookies' own process and connects
over loopback, which is the fastest setup for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from tests.servers.bookies.driver import Bookies

BOOKIES, ENTRIES = 5, 50
ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2
WRITE_BATCH_LEDGERS = 1_000
"""Number of ledgers written by one command. The driver must answer each command within its time limit."""

_SETTINGS: dict[str, str | int] = {
    "journalSyncData": "false",  # only reads are measured
    "pageLimit": 16_000,  # more than a bookie has ledgers, so that all pages stay in memory
    "openFileLimit": 1_500,  # for writes, and as many for reads; five bookies share one process's limit
    "numReadWorkerThreads": 8,
    "dbStorage_writeCacheMaxSizeMb": 64,
    "dbStorage_readAheadCacheMaxSizeMb": 16,
    "dbStorage_rocksDB_blockCacheSize": 64 << 20,
}


class CheckedBookies(Bookies):
    """The tests' bookies, extended to write many ledgers in one command and to run the server's check."""

    JAVA_MAIN_CLASS = "CheckedBookies"
    JAVA_SOURCES = tuple(Path(__file__).parent.glob("java/*.java"))
    JAVA_MEMORY = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g")

    def write_many(self, first_ledger: int, count: int) -> None:
        """Write and close ``count`` ledgers from id ``first_ledger`` on bookies that the server chooses."""
        self._do(
            "write_many",
            first=first_ledger,
            count=count,
            entries=ENTRIES,
            ensemble_size=min(ENSEMBLE, len(self.ids)),
            write_quorum=min(WRITE_QUORUM, len(self.ids)),
            ack_quorum=min(ACK_QUORUM, len(self.ids)),
        )

    def check(self, max_ledgers: int) -> tuple[float, int]:
        """Run the server's check on the first ``max_ledgers`` ledgers.

        Returns the seconds it took and the number of ledgers in which it reports missing copies.
        """
        nanoseconds, incomplete_ledgers = self._do("check", most=max_ledgers)
        return nanoseconds / 1e9, incomplete_ledgers

    def load(self, ledger: int, seconds: float, rate: int, write_every: int) -> dict[str, list[float]]:
        """Add entries to a new ledger and read entries of closed ledgers, at a steady rate.

        Args:
            ledger: The id of the new ledger.
            seconds: How long to send requests.
            rate: Requests per second.
            write_every: One of this many requests adds an entry. The other requests read an entry.

        Returns:
            Seconds that each request took from its scheduled start, under ``reads`` and ``writes``.
        """
        command_answer = self._do("load", ledger=ledger, seconds=seconds, rate=rate, write_every=write_every)
        return {
            request_kind: [latency_ns / 1e9 for latency_ns in command_answer[request_kind]]
            for request_kind in ("reads", "writes")
        }


@contextmanager
def checked_bookies(
    root_directory: Path,
    storage: str,
    ledgers: int,
    bookies: int = BOOKIES,
    settings: Mapping[str, str | int] = {},
) -> Iterator[tuple[CheckedBookies, str]]:
    """Start a cluster with ``ledgers`` closed and flushed ledgers; yield it and its metadata URI."""
    with EmbeddedZooKeeper(root_directory / "zookeeper") as server:
        uri = f"zk+hierarchical://{server.hosts}/ledgers"
        with CheckedBookies(
            uri, root_directory, storage, [None] * bookies, settings={**_SETTINGS, **settings}
        ) as cluster:
            for first_ledger in range(0, ledgers, WRITE_BATCH_LEDGERS):
                cluster.write_many(first_ledger, min(WRITE_BATCH_LEDGERS, ledgers - first_ledger))
                # A flush opens all files that it writes at once, despite openFileLimit.
                cluster.flush()
            yield cluster, uri
