"""All failures of a level in one pass: each domain alone, the worst sets of several, how far loss is away."""

from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np

from auditor.model.placement import Level, Locations
from auditor.model.simulation import Amount, Bounds, DomainSet, Failure, LevelLoss, Outcome
from auditor.simulate.domains import NO_DOMAIN, UNPLACED, Domains, SetSums, grown
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
from auditor.simulate.windows import (
    MISSING,
    UNKNOWN,
    BookieNumbers,
    Bools,
    Longs,
    Windows,
    any_true,
    count_true,
    distinct_values,
)
from auditor.simulate.worst_sets import losing_sets, loss, worst_sets

NAMES_SHOWN = 20
"""Domains whose loss alone loses an entry are named up to so many."""


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
        self._distance: Counter[int] = Counter()
        self._near = np.zeros(3, np.int64)
        self._perhaps_near = 0
        self._sets: dict[bool, SetSums] = {}

    def add(self, windows: Windows, numbers: BookieNumbers, cluster: SilentBookies) -> None:
        """Add windows, all of each of their ledgers."""
        domain = self.domains.of(numbers)
        count = len(self.domains.names)
        rows, blow, group = each_domain(windows, domain)
        self._sums = grown(self._sums, count, axis=1)
        self._sums += tally(rows, blow, group, count, cluster)
        self._add_distance(windows, domain)
        lacking = any_true(windows.copies == MISSING)
        # What lacks nothing is today as it was promised.
        for some, views in ((~lacking, (False, True)), (lacking, (False,)), (lacking, (True,))):
            part = windows.take(some)
            at, members = domain_sets(part, domain, views[0], self.together)
            for today in views:
                sets = self._sets.setdefault(today, SetSums(self.together, max(count, 1)))
                sets.add(members, part.entries[at], part.bytes[at])

    def _add_distance(self, windows: Windows, domain: Longs) -> None:
        """Count ledgers by the fewest domains whose loss loses an entry, today."""
        known = windows.take(~windows.open_end)
        places = domain[known.bookies].astype(np.int64)
        places[known.copies == MISSING] = NO_DOMAIN
        unplaced = count_true(places == UNPLACED)
        # At best each unplaced bookie is a domain of its own, and unknown copies are there.
        best = _different(places) + unplaced
        places[known.copies == UNKNOWN] = NO_DOMAIN
        left = any_true(places != NO_DOMAIN)
        worst = np.maximum(_different(places), left)
        least = np.full(len(windows.times), -1, np.int64)
        least_at_worst = least.copy()
        for each, distances in ((least, best), (least_at_worst, worst)):
            each[known.ledger] = np.iinfo(np.int64).max
            np.minimum.at(each, known.ledger, distances)
        near = np.zeros(len(windows.times), bool)
        near[known.ledger[best == 1]] = True
        for distance in distinct_values(least[least >= 0]).tolist():
            self._distance[distance] += int(windows.times[least == distance].sum())
        self._near += [
            int(windows.times[near].sum()),
            int(known.entries[best == 1].sum()),
            int(known.bytes[best == 1].sum()),
        ]
        perhaps = np.zeros(len(windows.times), bool)
        perhaps[known.ledger[(worst <= 1) & (best > 1)]] = True
        self._perhaps_near += int(windows.times[perhaps & ~near].sum())

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
        near = [each.names[0] for each in singles if each.today.sure.lost.ledgers]
        sets = self._sets.get(True, SetSums(self.together, max(len(names), 1)))
        return LevelLoss(
            str(self.domains.level),
            len(names),
            self.domains.unplaced(bookies),
            tuple(singles),
            dict(sorted(self._distance.items())),
            Amount(*map(int, self._near)),
            tuple(near[:NAMES_SHOWN]),
            self._perhaps_near,
            self.together,
            tuple(self._worst(sets)),
            losing_sets(sets, self.together),
            comb(len(names), self.together),
        )

    def _worst(self, sets: SetSums) -> list[DomainSet]:
        promised = self._sets.get(False, sets)
        found = []
        for each in worst_sets(sets, self.together):
            before = loss(promised, frozenset(each.members))
            names = tuple(self.domains.names[member] for member in each.members)
            found.append(DomainSet(names, before.entries, before.bytes, each.entries, each.bytes))
        return found


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


def _different(places: Longs) -> Longs:
    """How many different known domains each row has."""
    ordered = np.sort(places, axis=1)
    new: Bools = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return count_true(new & (ordered >= 0))
