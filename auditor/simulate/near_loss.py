"""How far loss is away: the fewest domains whose loss loses an entry; at one there is work for tonight."""

from __future__ import annotations

from collections import Counter

import numpy as np

from auditor.model.adherence import first_of_each
from auditor.model.placement import Level, Locations
from auditor.model.simulation import Amount, NearLoss
from auditor.runs.directory import RunDirectory
from auditor.simulate.domains import NO_DOMAIN, UNPLACED, Domains, grown
from auditor.simulate.read import RunWindows
from auditor.simulate.windows import (
    MISSING,
    UNKNOWN,
    BookieNumbers,
    Bools,
    Longs,
    SegmentColumns,
    Windows,
    any_true,
    count_true,
    distinct_values,
)

NAMES_SHOWN = 20
"""Domains whose loss alone loses an entry are named up to so many."""


def near_loss(run: RunDirectory, locations: Locations) -> tuple[NearLoss, ...]:
    """What is one failure from loss, bookies and, where locations are known, racks; in one pass.

    Windows are made of few ledgers only: where a copy is not surely there, or two neighbours of an ensemble
    are in one domain.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    levels = (Level.BOOKIE, Level.RACK) if locations.known else (Level.BOOKIE,)
    domains: list[Domains] = []

    def may_be_near(segments: SegmentColumns) -> Bools:
        """Ledgers with all copies of a window in one domain: then neighbours of its ensemble are too."""
        found = segments.any_of_ledger(segments.write_quorum == 1)
        for each in domains:
            of = each.of(windows.numbers)
            alike = segments.neighbours_alike(of) | (of == UNPLACED)[segments.members]
            found |= segments.any_of_members(alike)
        return found

    windows = RunWindows(run, merge=False, among=may_be_near)
    domains += [Domains(level, locations, windows.numbers.names) for level in levels]
    sums = [NearSums(each) for each in domains]
    for part in windows:
        for each in sums:
            each.add(part, windows.numbers)
    return tuple(each.result() for each in sums)


class NearSums:
    """What a pass adds up for one level: ``distance`` counts ledgers by the fewest domains."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._distance: Counter[int] = Counter()
        self._near = np.zeros(3, np.int64)
        self._bytes_of = np.zeros((0, 2), np.int64)
        self._perhaps = 0

    @property
    def distance(self) -> dict[int, int]:
        """Ledgers by how many domains have to fail, today; 0: an entry is lost already."""
        return dict(sorted(self._distance.items()))

    def result(self) -> NearLoss:
        """What is one failure away."""
        heavy = np.lexsort((-self._bytes_of[:, 1], -self._bytes_of[:, 0]))
        names = [self._domains.names[place] for place in heavy.tolist() if self._bytes_of[place, 1]]
        return NearLoss(
            str(self._domains.level),
            Amount(*map(int, self._near)),
            len(names),
            tuple(names[:NAMES_SHOWN]),
            self._perhaps,
        )

    def add(self, windows: Windows, numbers: BookieNumbers) -> None:
        """Add windows, all of each of their ledgers."""
        domain = self._domains.of(numbers)
        self._bytes_of = grown(self._bytes_of, len(self._domains.names), axis=0)
        known = windows.take(~windows.open_end)
        places = domain[known.bookies].astype(np.int64)
        places[known.copies == MISSING] = NO_DOMAIN
        unplaced = count_true(places == UNPLACED)
        # At best each unplaced bookie is a domain of its own, and unknown copies are there.
        best = _different(places) + unplaced
        alone = np.flatnonzero(best == 1)
        # The only copies left lie in the one domain that is known of them.
        where = places[alone].max(axis=1, initial=NO_DOMAIN)
        named = where >= 0
        np.add.at(self._bytes_of[:, 0], where[named], known.bytes[alone[named]])
        np.add.at(self._bytes_of[:, 1], where[named], known.entries[alone[named]])
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
        self._perhaps += int(windows.times[perhaps & ~near].sum())


def _different(places: Longs) -> Longs:
    """How many different known domains each row has."""
    return count_true(first_of_each(np.sort(places, axis=1)))
