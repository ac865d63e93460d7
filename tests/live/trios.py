"""Nine bookies of one cluster, three of each storage. Each trio has its own ledgers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.live.metadata import ETCD, OXIA, metadata_store
from tests.live.scenario import KINDS, LiveCluster
from tests.servers.bookies.driver import Bookies

TRIOS = [kind for kind in KINDS if kind.layout not in (ETCD, OXIA)]
"""What the bookies of each are like; the metadata is laid out as for the first."""

LISTED = tuple(trio for trio, kind in enumerate(TRIOS) if kind.storage != "DbLedgerStorage")
"""Trios that say what they hold; DbLedgerStorage lists no entries."""

FIRST, STEP = 2**20, 100
"""The least ledger of the first trio, and how far it is to the like one of the next."""


def for_all_trios(ledgers: Mapping[int, int], trios: tuple[int, ...] = (0, 1, 2)) -> dict[int, int]:
    """Return ledgers of the first trio and the corresponding ones of others, with their entries."""
    return {ledger + STEP * trio: entries for trio in trios for ledger, entries in ledgers.items()}


class Trios(Bookies):
    MEMORY = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")

    def trio(self, number: int) -> list[str]:
        return self.ids[3 * number : 3 * number + 3]

    def trio_of(self, ledger: int) -> list[str]:
        """Return the trio that has a ledger."""
        return self.trio((ledger - FIRST) // STEP)

    def hold(self, ledgers: Mapping[int, int], lacking: bool = False) -> None:
        """Write closed ledgers of these sizes. ``lacking``: the third bookie never gets the last entry."""
        for ledger, number in ledgers.items():
            self.record(ledger, self.trio_of(ledger), 3, 2, number - 1)
            for bookie, count in zip(self.trio_of(ledger), (number, number, number - lacking), strict=True):
                if count:
                    self.add(ledger, bookie, range(count))


class TriosCluster(LiveCluster):
    bookies: Trios


@contextmanager
def trios_cluster(root: Path) -> Iterator[TriosCluster]:
    """Start the cluster without ledgers, and yield it."""
    own: list[dict[str, str | int]] = [
        {"storage": kind.storage, "ledger_dirs": kind.ledger_dirs, "index_apart": kind.index_apart}
        for kind in TRIOS
        for _ in range(3)
    ]
    with (
        metadata_store(TRIOS[0].layout, root) as metadata,
        Trios(metadata.uri, root, TRIOS[0].storage, [None] * len(own), own=own) as bookies,
    ):
        yield TriosCluster(TRIOS[0], metadata, bookies)
