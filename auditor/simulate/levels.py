"""All failures of a level in one pass: each domain alone, the worst sets of several, how far loss is away."""

from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np

from auditor.model.placement import Level, Locations
from auditor.model.simulation import Amount, Bounds, DomainSet, Failure, LevelLoss, Outcome
from auditor.simulate.domains import Domains, SetSums, grown
from auditor.simulate.loss import (
    BYTES,
    ENTRIES,
    LEDGERS,
    VIEWS,
    Fate,
    SilentBookies,
    domain_sets,
    each_domain,
    tally,
)
from auditor.simulate.near_loss import NearSums
from auditor.simulate.windows import (
    MISSING,
    BookieNumbers,
    Longs,
    Windows,
    any_true,
)
from auditor.simulate.worst_sets import WeighedSet, loss, worst_sets


def levels_of(locations: Locations, bookies: list[str]) -> list[Level]:
    """The levels at which domains differ: bookies; racks where a location is known; regions above them."""
    found = [Level.BOOKIE]
    if locations.known:
        found.append(Level.RACK)
        regions = {locations.domain(each, Level.REGION) for each in bookies} - {None}
        racks = {locations.domain(each, Level.RACK) for each in bookies} - {None}
        if len(regions) < len(racks) and len(regions) > 1:
            found.append(Level.REGION)
    return found


class LevelSums:
    """What a pass adds up for one level; ``together`` domains fail at once in the sets that it weighs."""

    def __init__(self, level: Level, locations: Locations, bookies: list[str], together: int = 2) -> None:
        self.domains = Domains(level, locations, bookies)
        self.together = together
        self._sums = np.zeros((len(VIEWS), 0, len(Fate), 3), np.int64)
        self._near = NearSums(self.domains)
        self._sets: dict[bool, SetSums] = {}

    def add(self, windows: Windows, numbers: BookieNumbers, cluster: SilentBookies) -> None:
        """Add windows, all of each of their ledgers."""
        domain = self.domains.of(numbers)
        count = len(self.domains.names)
        rows, blow, group = each_domain(windows, domain)
        self._sums = grown(self._sums, count, axis=1)
        self._sums += tally(rows, blow, group, count, cluster)
        self._near.add(windows, numbers)
        lacking = any_true(windows.copies == MISSING)
        # What lacks nothing is today as it was promised.
        for some, views in ((~lacking, (False, True)), (lacking, (False,)), (lacking, (True,))):
            part = windows.take(some)
            at, members = domain_sets(part, domain, views[0], self.together)
            for today in views:
                sets = self._sets.setdefault(today, SetSums(self.together, max(count, 1)))
                sets.add(members, part.entries[at], part.bytes[at])

    def result(self, bookies: list[str]) -> LevelLoss:
        """The answer, once all windows have been added."""
        names = self.domains.names
        sizes = Counter(self.domains.locations.domain(each, self.domains.level) for each in bookies)
        singles = sorted(
            (
                Failure(str(self.domains.level), (name,), sizes[name], *bounds_of(self._sums[:, number]))
                for number, name in enumerate(names)
            ),
            key=lambda each: (*_badness(each.today), *_badness(each.promise), each.names),
        )
        none = SetSums(self.together, max(len(names), 1))
        promised, sets = (self._sets.get(today, none) for today in (False, True))
        worst = worst_sets(sets, self.together)
        return LevelLoss(
            str(self.domains.level),
            len(names),
            self.domains.unplaced(bookies),
            tuple(singles),
            self._near.distance,
            self._near.result(),
            self.together,
            tuple(self._both(each, promised) for each in worst.sets),
            worst.proved,
            worst.losing,
            comb(len(names), self.together),
        )

    def _both(self, found: WeighedSet, promised: SetSums) -> DomainSet:
        before = loss(promised, found.members)
        names = tuple(self.domains.names[member] for member in found.members)
        return DomainSet(names, before.entries, before.bytes, found.entries, found.bytes)


def bounds_of(sums: Longs) -> tuple[Bounds, Bounds]:
    """Promise and today, from sums by view, fate and unit."""
    promise, promise_possible, today, today_possible = map(_outcome, sums)
    return Bounds(promise, promise_possible), Bounds(today, today_possible)


def _outcome(sums: Longs) -> Outcome:
    lost, ack, write = (
        Amount(*(int(sums[fate, unit]) for unit in (LEDGERS, ENTRIES, BYTES)))
        for fate in (Fate.LOST, Fate.BELOW_ACK_QUORUM, Fate.BELOW_WRITE_QUORUM)
    )
    return Outcome(lost, ack, write, int(sums[Fate.OPEN_END, LEDGERS]))


def _badness(found: Bounds) -> tuple[int, ...]:
    """The worst failures first: by what is lost, unrecoverable, and below its quorums."""
    sure, possible = found.sure, found.possible
    return (
        -sure.lost.bytes, -sure.lost.entries, -sure.unrecoverable, -possible.lost.bytes,
        -sure.below_ack.bytes, -sure.below_write.bytes,
    )  # fmt: skip
