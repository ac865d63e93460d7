"""A cluster of real bookies with ledgers of many shapes, and the true state of each ledger.

Topics of a Pulsar cluster own the ledgers. Some ledgers are open and have an active writer. Some were
deleted by their application, and some belong to a deleted topic. One may belong to a second Pulsar cluster.
No audit reads the metadata store of that cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarManagedLedgerInfo
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from proofs.obedient.disks import Disks
from tests.clusters.store import Store
from tests.plan.cluster import SETTINGS, OperatedBookies, claim
from tests.servers.bookies.driver import HOST

STORAGES = ("DbLedgerStorage", "SortedLedgerStorage")
ENTRY_BYTES = 12
"""Size of each payload in bytes."""
TOPICS = ("public/default/persistent/one", "public/default/persistent/two", "tenant/live/persistent/three")
DELETED_TOPIC = "public/default/persistent/deleted"
SECOND_CLUSTER_TOPIC = "east/default/persistent/live"
COMPACTION: dict[str, str | int] = {
    "minorCompactionThreshold": "0.2",
    "majorCompactionThreshold": "0.8",
    "minorCompactionInterval": 90_000,
    "majorCompactionInterval": 180_000,
}
"""Settings that enable compaction, at intervals so long that it runs only if an instruction triggers it."""


@dataclass
class TrialLedger:
    """The true state of one ledger.

    Args:
        id: The ledger id.
        ensemble: The bookies of its first segment.
        entries: Number of entries that were acknowledged to its writer.
        topic: The topic that its metadata claims as owner.
        is_open: Whether a writer has it open.
        is_unowned: Whether its metadata exist although nobody needs the ledger any more.
        is_deleted: Whether its application deleted it.
    """

    id: int
    ensemble: list[str]
    entries: int
    topic: str
    is_open: bool = False
    is_unowned: bool = False
    is_deleted: bool = False


@dataclass
class TrialCluster:
    """The bookies, their metadata store, the true state of their ledgers, and the events so far."""

    bookies: OperatedBookies
    store: Store
    random: Random
    root: Path
    has_workers: bool
    ledgers: dict[int, TrialLedger] = field(default_factory=dict)
    lost_writers: dict[int, str] = field(default_factory=dict)
    """Errors of writers that cannot write any more, by ledger id."""
    lost_topics: tuple[str, ...] = ()
    """Topics whose ledger lists were deleted although their ledgers are in use."""

    def next_id(self) -> int:
        return max(self.ledgers, default=0) + 1

    def closed(self) -> list[TrialLedger]:
        """Return the ledgers that are closed and in use."""
        return [ledger for ledger in self.ledgers.values() if not (ledger.is_open or _is_given_up(ledger))]

    def restart(self, bookie: str) -> None:
        """Restart a bookie, so that garbage collection can delete its earlier entry logs."""
        self.bookies.stop(bookie)
        self.bookies.start(bookie)

    def write_on(self) -> None:
        """Add an entry with every active writer. If a writer fails, keep its error."""
        for ledger in self.ledgers.values():
            if ledger.is_open and ledger.id not in self.lost_writers:
                try:
                    self.bookies.append(ledger.id, 1)
                except RuntimeError as error:
                    self.lost_writers[ledger.id] = str(error)
                else:
                    ledger.entries += 1

    def needed(self, disks: Disks) -> Disks:
        """Return the entries on disks that were acknowledged and belong to ledgers in use."""
        return {
            entry: places
            for entry, places in disks.items()
            if (ledger := self.ledgers.get(entry.ledger)) is not None
            and not _is_given_up(ledger)
            and entry.entry < ledger.entries
        }

    def save_metadata(self) -> None:
        """Write each ledger's metadata to a file, as BookKeeper's ``ledgermetadata -dumptofile`` does."""
        for ledger in self.ledgers.values():
            if not ledger.is_deleted:
                data, _ = self.store.client.get(self.store.path(ledger.id))
                (self.root / f"{ledger.id}.metadata").write_bytes(data)

    def write_owners(self) -> None:
        """Write the ledger list of each topic, as a broker does."""
        for topic in (name for name in TOPICS if name not in self.lost_topics):
            info = PulsarManagedLedgerInfo()
            for ledger in self.ledgers.values():
                if ledger.topic == topic and not _is_given_up(ledger):
                    ledger_info = info.ledgerInfo.add(ledgerId=ledger.id)
                    if not ledger.is_open:
                        ledger_info.entries, ledger_info.size = ledger.entries, ledger.entries * ENTRY_BYTES
            path = f"/managed-ledgers/{topic}"
            self.store.client.ensure_path(path)
            self.store.client.set(path, info.SerializeToString())


def _is_given_up(ledger: TrialLedger) -> bool:
    return ledger.is_deleted or ledger.is_unowned


@contextmanager
def trial_cluster(root: Path, seed: int) -> Iterator[TrialCluster]:
    """Run a new cluster of four to six bookies. Garbage collection can delete most of their entry logs."""
    random = Random(seed)
    count = random.choice((4, 5, 5, 6))
    has_workers = random.random() < 0.7
    settings: dict[str, Any] = {
        **SETTINGS,
        **COMPACTION,
        "autoRecoveryDaemonEnabled": str(has_workers).lower(),
        "lostBookieRecoveryDelay": random.choice((0, 3_600)),
        # After a shorter period (ms), BookKeeper itself would fence an idle writer of a lost bookie.
        "openLedgerRereplicationGracePeriod": 600_000,
    }
    storages = [random.choice(STORAGES) for _ in range(count)]
    with (
        EmbeddedZooKeeper(root / "zookeeper", tick_time_ms=500) as server,
        Store(server.hosts) as store,
        OperatedBookies(
            store.uri, root, STORAGES[0], [None] * count,
            settings=settings, hosts=[HOST] * count, own=[{"storage": storage} for storage in storages],
        ) as bookies,
    ):  # fmt: skip
        for bookie, storage in zip(bookies.ids, storages, strict=True):
            if storage == "SortedLedgerStorage":
                (bookies.place(bookie) / "sorted").touch()
        cluster = TrialCluster(bookies, store, random, bookies.root, has_workers)
        _write_ledgers(cluster)
        yield cluster


def _write_ledgers(cluster: TrialCluster) -> None:
    random = cluster.random
    for _ in range(random.randint(8, 14)):
        write_ledger(cluster, random.choice(TOPICS))
    for _ in range(random.randint(0, 3)):
        write_ledger(cluster, DELETED_TOPIC).is_unowned = True
    if random.random() < 0.2:
        write_ledger(cluster, SECOND_CLUSTER_TOPIC)
    for _ in range(random.randint(0, 2)):
        write_ledger(cluster, random.choice(TOPICS), is_open=True)
    for _ in range(random.randint(0, 3)):
        ledger = write_ledger(cluster, random.choice(TOPICS))
        ledger.is_deleted = True
        cluster.bookies.delete(ledger.id)
    cluster.bookies.flush()
    cluster.write_owners()
    for bookie in cluster.bookies.ids:
        cluster.restart(bookie)
    if random.random() < 0.5:
        write_ledger(cluster, random.choice(TOPICS))
        cluster.write_owners()
    if random.random() < 0.7:
        cluster.bookies.flush()
    cluster.write_on()
    cluster.save_metadata()


def write_ledger(cluster: TrialCluster, topic: str, *, is_open: bool = False) -> TrialLedger:
    """Write a ledger of a random shape whose metadata claim a topic as owner; return its state."""
    random, bookies = cluster.random, cluster.bookies
    size = 2 if is_open else random.choice((1, 2, 2, 3, 3, 4))
    write_quorum = random.randint(min(2, size), min(3, size))
    ack_quorum = random.randint(max(1, write_quorum - 1), write_quorum)
    ensemble = random.sample(bookies.ids, size)
    ledger = TrialLedger(cluster.next_id(), ensemble, random.randint(5, 30), topic, is_open)
    cluster.ledgers[ledger.id] = ledger
    bookies.create(ledger.id, ensemble, write_quorum, ack_quorum)
    bookies.append(ledger.id, ledger.entries)
    if not is_open:
        bookies.close(ledger.id)
    claim(cluster.store, ledger.id, topic)
    return ledger
