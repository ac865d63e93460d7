"""A live cluster with everything that an audit should see, and its true state.

Bookies ``a``, ``b`` and ``c`` run, and ``d`` was stopped for good. There are about thirty small ledgers. The
bookies' own storages reported their entries. The later damage to indexes is known.

The ledger "ensemble change" differs from run to run. Two of three bookies have confirmed the entry in flight.
A race in BookKeeper decides whether it reaches a third before the bookie is replaced.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.corpora.brute_force import World
from tests.corpora.plain_readers import PlainIndex, read_metadata
from tests.live.metadata import ETCD, OXIA, Metadata, metadata_store
from tests.servers.bookies.driver import Bookies, StoredEntries

HEADER_BYTES, SLOT_BYTES = 1024, 8
UNREGISTERED_LIMIT_S = 180.0


class Kind(NamedTuple):
    """One kind of cluster; ``first`` is the lowest ledger id."""

    storage: str
    layout: str
    first: int
    ledger_dirs: int
    index_apart: bool

    @property
    def name(self) -> str:
        return f"{self.storage}-{self.layout}"

    def bookies(self, uri: str, root: Path, names: Sequence[str | None]) -> Bookies:
        """Return bookies of this kind, not started yet. On etcd their ids are their addresses."""
        names = [None if self.layout == ETCD else name for name in names]
        return Bookies(
            uri, root, self.storage, names, ledger_dirs=self.ledger_dirs, index_apart=self.index_apart
        )


KINDS = (
    Kind("InterleavedLedgerStorage", "hierarchical", 0, ledger_dirs=1, index_apart=False),
    Kind("SortedLedgerStorage", "flat", 1_000, ledger_dirs=2, index_apart=True),
    Kind("DbLedgerStorage", "longhierarchical", 2**40, ledger_dirs=2, index_apart=False),
    Kind("InterleavedLedgerStorage", ETCD, 2**33, ledger_dirs=1, index_apart=False),
    # Its first ledgers lie in the tree of short ids, the others in that of long ones.
    Kind("InterleavedLedgerStorage", OXIA, 2**31 - 16, ledger_dirs=1, index_apart=False),
)
NAMES = ("bk-a.rack1", None, "bk-c.rack2", None)
QUORUMS = ((1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2), (3, 3, 2), (4, 2, 1), (4, 3, 2), (4, 4, 3))


@dataclass
class LiveCluster:
    """A running cluster. ``damaged`` has the readable rest of damaged indexes, by ledger and bookie."""

    kind: Kind
    metadata: Metadata
    bookies: Bookies
    holdings: StoredEntries = field(default_factory=dict)
    damaged: dict[tuple[int, str], PlainIndex] = field(default_factory=dict)
    ledgers: dict[str, int] = field(default_factory=dict)

    @property
    def stopped(self) -> str:
        """Return the id of the stopped bookie."""
        return self.bookies.ids[3]

    @property
    def has_rocksdb(self) -> bool:
        return self.kind.storage == "DbLedgerStorage"

    def id(self, name: str) -> int:
        """Return the id of a ledger by its name in the scenario; a new name gets a new id."""
        return self.ledgers.setdefault(name, self.kind.first + len(self.ledgers))

    def index_file(self, bookie: str, ledger: int) -> Path:
        """Return the only .idx file of a ledger on a bookie."""
        [path] = self.bookies.place(bookie).glob(f"*/current/*/*/{ledger:x}.idx")
        return path

    def read_holdings(self) -> None:
        """Read from the running bookies which entries they hold."""
        self.holdings |= self.bookies.stored_entries()

    def world(self) -> World:
        """Return the true state, for the brute force: the store's metadata and the bookies' reports."""
        indexes = {
            (ledger, bookie): PlainIndex(entries)
            for bookie, ledgers in self.holdings.items()
            for ledger, entries in ledgers.items()
        }
        ledgers = {id: read_metadata(data) for id, data in self.metadata.ledgers().items()}
        return World(ledgers, set(), indexes | self.damaged, set(self.bookies.ids))


@contextmanager
def live_cluster(kind: Kind, root: Path) -> Iterator[LiveCluster]:
    """Start a cluster, write and damage all ledgers of the scenario, and yield the running cluster."""
    with metadata_store(kind.layout, root) as metadata, kind.bookies(metadata.uri, root, NAMES) as bookies:
        cluster = LiveCluster(kind, metadata, bookies)
        _write_healthy_ledgers(cluster)
        _write_unclosed_ledgers(cluster)
        _write_incomplete_ledgers(cluster)
        _write_extra_ledgers(cluster)
        _write_ledgers_to_damage(cluster)
        bookies.flush()
        cluster.read_holdings()
        _lose_entries_on_running_bookie(cluster)
        _stop_and_damage(cluster)
        yield cluster


def _write_healthy_ledgers(cluster: LiveCluster) -> None:
    bookies = cluster.bookies
    for number, (ensemble, write, ack) in enumerate(QUORUMS * 2):
        members = [bookies.ids[(number + n) % 4] for n in range(ensemble)]
        entries = (0, 1, 7, 40)[number % 4]
        bookies.write(cluster.id(f"healthy {number}"), members, write, ack, entries)


def _write_unclosed_ledgers(cluster: LiveCluster) -> None:
    a, b, c, _ = cluster.bookies.ids
    bookies = cluster.bookies
    bookies.create(cluster.id("open"), [a, b, c], 2, 2)
    bookies.append(cluster.id("open"), 7)
    bookies.create(cluster.id("open without entries"), [a, b, c], 3, 2)
    lagging = cluster.id("open and lagging")
    bookies.create(lagging, [a, b, c], 3, 2)
    bookies.append(lagging, 5)
    for bookie in (a, b):
        bookies.add(lagging, bookie, range(5, 8))


def _write_incomplete_ledgers(cluster: LiveCluster) -> None:
    a, b, c, _ = cluster.bookies.ids
    bookies = cluster.bookies

    def write_without(name: str, without: dict[str, set[int]], last: int = 8) -> None:
        """Write a ledger (3, 3, 2); some bookies never get some of its entries."""
        bookies.record(cluster.id(name), [a, b, c], 3, 2, last)
        for bookie in (a, b, c):
            if present := set(range(last + 1)) - without.get(bookie, set()):
                bookies.add(cluster.id(name), bookie, present)

    write_without("lost", {a: {4}, b: {4}, c: {4}})
    write_without("one copy left", {a: {3}, b: {3, 6}})
    write_without("two copies left", {c: {0}})
    write_without("nothing on one bookie", {b: set(range(9))})
    write_without("every other entry", {c: set(range(0, 60, 2))}, last=59)


def _write_extra_ledgers(cluster: LiveCluster) -> None:
    a, b, c, _ = cluster.bookies.ids
    bookies = cluster.bookies
    for name in ("deleted", "deleted too"):
        bookies.write(cluster.id(name), [a, b, c], 2, 2, 6)
        bookies.delete(cluster.id(name))
    bookies.add(cluster.id("never in metadata"), c, range(3))
    bookies.write(cluster.id("over-replicated"), [a, b], 2, 2, 6)
    bookies.add(cluster.id("over-replicated"), c, range(6))
    bookies.write(cluster.id("past the end"), [a, b, c], 2, 2, 6)
    bookies.add(cluster.id("past the end"), b, [6, 9])
    # The writer replaces a bookie that is gone by the one that is left; later the first gets entries again.
    changed = cluster.id("ensemble change")
    bookies.create(changed, [a, b, c], 3, 2)
    bookies.append(changed, 5)
    bookies.stop(b)
    bookies.append(changed, 5)
    bookies.close(changed)
    bookies.start(b)
    bookies.add(changed, b, [8])


def _write_ledgers_to_damage(cluster: LiveCluster) -> None:
    a, b, _, d = cluster.bookies.ids
    for name in ("index lost", "first half lost"):
        cluster.bookies.write(cluster.id(name), [a, b], 2, 1, 12)
    for name in ("gone on the stopped bookie", "cut", "half a header", "empty"):
        cluster.bookies.write(cluster.id(name), [b, d], 2, 2, 12)


def _lose_entries_on_running_bookie(cluster: LiveCluster) -> None:
    """Remove entries while the bookie is stopped. After its restart it reports only the rest."""
    a, bookies = cluster.bookies.ids[0], cluster.bookies
    whole, half = cluster.id("index lost"), cluster.id("first half lost")
    bookies.stop(a)
    if cluster.has_rocksdb:
        bookies.forget_entries(a, whole, range(12))
        bookies.forget_entries(a, half, range(6))
    else:
        cluster.index_file(a, whole).unlink()
        with cluster.index_file(a, half).open("r+b") as file:
            file.seek(HEADER_BYTES)
            file.write(bytes(6 * SLOT_BYTES))
    bookies.start(a)
    cluster.read_holdings()


def _stop_and_damage(cluster: LiveCluster) -> None:
    d, bookies = cluster.stopped, cluster.bookies
    bookies.stop(d)
    # On etcd a registration outlives its bookie until the lease runs out.
    deadline = time.monotonic() + UNREGISTERED_LIMIT_S
    while cluster.metadata.registered(d):
        assert time.monotonic() < deadline, f"{d} is still registered"
        time.sleep(1)  # each look is a program that starts
    del cluster.holdings[d][cluster.id("gone on the stopped bookie")]
    if cluster.has_rocksdb:
        bookies.forget_entries(d, cluster.id("gone on the stopped bookie"), range(12))
        bookies.forget_ledger(d, cluster.id("cut"))
        cluster.damaged[cluster.id("cut"), d] = PlainIndex(frozenset(), readable=False)
        return
    cluster.index_file(d, cluster.id("gone on the stopped bookie")).unlink()
    lengths = {"cut": HEADER_BYTES + 5 * SLOT_BYTES + 3, "half a header": HEADER_BYTES // 2, "empty": 0}
    for name, length in lengths.items():
        with cluster.index_file(d, cluster.id(name)).open("r+b") as file:
            file.truncate(length)
        slots = max(0, length - HEADER_BYTES) // SLOT_BYTES
        cluster.damaged[cluster.id(name), d] = PlainIndex(frozenset(range(slots)), readable=False)
