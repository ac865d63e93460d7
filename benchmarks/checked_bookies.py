"""Five real bookies with healthy ledgers, and the server's own check of them, in one Java process.

The bookies are the tests' (BookKeeper 4.17.2 from Maven Central), with page memory and threads enough for the
server's check, which is all that they do while it is measured. The check is `AuditorReplicasCheckTask`, as
the server runs it, in the process of the bookies and over loopback: nothing is faster for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from tests.servers.bookies.driver import Bookies

BOOKIES, ENTRIES = 5, 50
ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2
AT_ONCE = 1_000
"""Ledgers that are written with one command: each must be answered within the driver's limit."""

_SETTINGS: dict[str, str | int] = {
    "journalSyncData": "false",  # it is the reading that is measured
    "pageLimit": 16_000,  # more pages than a bookie has ledgers: all of them stay in memory
    "openFileLimit": 1_500,  # to write, and as many to read; five bookies share one process's descriptors
    "numReadWorkerThreads": 8,
    "dbStorage_writeCacheMaxSizeMb": 64,
    "dbStorage_readAheadCacheMaxSizeMb": 16,
    "dbStorage_rocksDB_blockCacheSize": 64 << 20,
}


class CheckedBookies(Bookies):
    """The tests' bookies, which also write many ledgers at once and check them as the server does."""

    MAIN = "CheckedBookies"
    JAVA = tuple(Path(__file__).parent.glob("java/*.java"))
    MEMORY = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g")

    def write_many(self, first: int, count: int) -> None:
        """Write and close ledgers with ids in a row, on bookies that the server chooses."""
        self._do(
            "write_many",
            first=first,
            count=count,
            entries=ENTRIES,
            ensemble_size=min(ENSEMBLE, len(self.ids)),
            write_quorum=min(WRITE_QUORUM, len(self.ids)),
            ack_quorum=min(ACK_QUORUM, len(self.ids)),
        )

    def check(self, most: int) -> tuple[float, int]:
        """The server's check of the first ``most`` ledgers: its seconds, and how many it found lacking."""
        nanoseconds, lacking = self._do("check", most=most)
        return nanoseconds / 1e9, lacking

    def load(self, ledger: int, seconds: float, rate: int, write_every: int) -> dict[str, list[float]]:
        """Add to a new ledger and read the closed ones, steadily; seconds that each took since it was due.

        One request of ``write_every`` is an entry to add.
        """
        answer = self._do("load", ledger=ledger, seconds=seconds, rate=rate, write_every=write_every)
        return {kind: [took / 1e9 for took in answer[kind]] for kind in ("reads", "writes")}


@contextmanager
def checked_bookies(
    root: Path, storage: str, ledgers: int, bookies: int = BOOKIES, settings: Mapping[str, str | int] = {}
) -> Iterator[tuple[CheckedBookies, str]]:
    """A running cluster with so many closed ledgers, flushed, and its metadata URI."""
    with EmbeddedZooKeeper(root / "zookeeper") as server:
        uri = f"zk+hierarchical://{server.hosts}/ledgers"
        with CheckedBookies(
            uri, root, storage, [None] * bookies, settings={**_SETTINGS, **settings}
        ) as cluster:
            for first in range(0, ledgers, AT_ONCE):
                cluster.write_many(first, min(AT_ONCE, ledgers - first))
                # A flush opens all that it writes at once, whatever the limit of open files is.
                cluster.flush()
            yield cluster, uri
