"""The true state of a live cluster at one moment, found by reading every entry from every bookie."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

from tests.clusters.living import LivingBookies
from tests.clusters.store import Snapshot
from tests.corpora.brute_force import World, judge, members, stale, surplus, write_set
from tests.corpora.plain_readers import PlainIndex

BEYOND_THE_END = 3
OPEN_LEDGERS_TO = 70
"""Number of entries to read of the last segment of an open ledger.

`BEYOND_THE_END` is the number of entries to read behind the last entry of a closed ledger.
"""

SERVED, NO_LEDGER, UNKNOWN = "1", "-", "?"


@dataclass(frozen=True)
class Look:
    """One reading of the whole cluster.

    ``served`` maps each ledger and bookie to a letter per entry, as `LivingHarness` returns them.
    """

    began: float
    ended: float
    store: Snapshot
    served: dict[int, dict[str, str]]

    def letter(self, ledger: int, bookie: str, entry: int) -> str | None:
        """Return the bookie's answer for an entry. None if the bookie was not asked or did not answer."""
        letters = self.served.get(ledger, {}).get(bookie, "")
        answer = letters[entry] if entry < len(letters) else UNKNOWN
        return None if answer == UNKNOWN else answer

    def holds_any(self, ledger: int, bookie: str) -> bool:
        """Return whether the bookie has the ledger or may have it, even without entries."""
        return self.served.get(ledger, {}).get(bookie, UNKNOWN).strip(NO_LEDGER) != ""

    @cached_property
    def world(self) -> World:
        """The same state as input for the tests' brute-force computation."""
        indexes = {
            (ledger, bookie): PlainIndex(
                frozenset(entry for entry, letter in enumerate(letters) if letter == SERVED),
                readable=UNKNOWN not in letters,
            )
            for ledger, by_bookie in self.served.items()
            for bookie, letters in by_bookie.items()
        }
        bookies = {bookie for by_bookie in self.served.values() for bookie in by_bookie}
        return World(self.store.ledgers, set(), indexes, bookies, {}, set())

    @cached_property
    def classes(self) -> dict[int, str]:
        """The replication class of each closed ledger for which every member answered for every entry."""
        return {
            ledger: judge(self.world, ledger).name
            for ledger in self.store.closed()
            if ledger in self.served
            and all(self.world.knows(ledger, bookie) for bookie in members(self.store.ledgers[ledger]))
        }

    @cached_property
    def stale_on(self) -> set[tuple[int, str]]:
        return set(stale(self.world))

    @cached_property
    def surplus_on(self) -> set[tuple[int, str]]:
        return set(surplus(self.world))

    def acknowledged_past_end(self, ledger: int) -> bool:
        """Return whether an entry after the end of a closed ledger is on an ack quorum of its bookies."""
        plain = self.store.ledgers[ledger]
        assert plain.last is not None
        ensemble = plain.segments[-1][1]
        return any(
            sum(entry in self.world.held(ledger, bookie) for bookie in write_set(plain, ensemble, entry))
            >= plain.ack_quorum
            for entry in range(plain.last + 1, plain.last + 1 + BEYOND_THE_END)
        )


def look(cluster: LivingBookies) -> Look:
    """Read the metadata store, then all entries of its ledgers."""
    began = time.time()
    store = cluster.store.snapshot()
    last_entries = {
        id: (
            ledger.segments[-1][0] + OPEN_LEDGERS_TO if ledger.last is None else ledger.last + BEYOND_THE_END
        )
        for id, ledger in store.ledgers.items()
    }
    served = cluster.read(last_entries) if last_entries else {}
    return Look(began, time.time(), store, served)
