"""Domains that fail as one: bookies, racks, zones or regions by number, and sums that grow with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from auditor.errors import UsageError
from auditor.model.amounts import first_names
from auditor.model.placement import Level, Locations
from auditor.simulate.windows import BookieNumbers, Bools, Longs

UNPLACED = -1
NO_DOMAIN = -2


class Domains:
    """The domains of one level, numbered by name as bookies turn up."""

    def __init__(self, level: Level, locations: Locations, bookies: Sequence[str] = ()) -> None:
        self.level = level
        self.locations = locations
        names = {locations.domain(bookie, level) for bookie in bookies}
        self._numbers = BookieNumbers(sorted(name for name in names if name is not None))

    @property
    def names(self) -> list[str]:
        """By number."""
        return self._numbers.names

    def of(self, numbers: BookieNumbers) -> Longs:
        """The domain of each bookie by number; `UNPLACED` without one, and last `NO_DOMAIN` for no bookie."""
        import pyarrow as pa

        found = [self.locations.domain(bookie, self.level) for bookie in numbers.names]
        placed = np.array([name is not None for name in found], bool)
        domains = np.full(len(found) + 1, UNPLACED, np.int64)
        domains[-1] = NO_DOMAIN
        domains[:-1][placed] = self._numbers.of(pa.array([name for name in found if name], pa.string()))
        return domains

    def unplaced(self, bookies: Sequence[str]) -> tuple[str, ...]:
        """Those of some bookies whose domain is unknown."""
        return tuple(sorted(name for name in bookies if self.locations.domain(name, self.level) is None))

    def named(self, names: Sequence[str]) -> list[str]:
        """The domains that a user means; a rack may lack its slash.

        Raises:
            UsageError: there is none of that name; with those that there are.
        """
        if not names:
            raise UsageError(f"--lose {self.level}: name one, or several with commas between them")
        known = {name.strip("/"): name for name in self.names}
        found = []
        for name in names:
            if name not in self.names and name.strip("/") not in known:
                there = f"there is no such {self.level}; known: {first_names(self.names, 5)}"
                why = there if self.names else "the run knows no location; give --racks FILE"
                raise UsageError(f"--lose {self.level} {name}: {why}")
            found.append(name if name in self.names else known[name.strip("/")])
        return found


def members_of(names: Sequence[str], domains: Domains, numbers: BookieNumbers) -> tuple[Bools, Bools]:
    """Which bookies, by number, are in some domains, and which may be as nobody knows their place."""
    wanted = [domains.names.index(name) for name in names]
    of = domains.of(numbers)
    return np.isin(of, wanted), of == UNPLACED


def grown(sums: Longs, size: int, axis: int) -> Longs:
    """The same sums with zeros up to this size along one axis.

    >>> grown(np.ones((1, 2), np.int64), 3, axis=1).tolist()
    [[1, 1, 0]]
    """
    missing = max(size - sums.shape[axis], 0)
    return np.pad(sums, [(0, missing if place == axis else 0) for place in range(sums.ndim)])


class SetSums:
    """Entries and bytes by the set of domains that they lie in: as many rows as there are different sets.

    Raises:
        UsageError: sets of so many of so many domains have no number of 64 bits.
    """

    def __init__(self, most: int, domains: int) -> None:
        self.most, self.domains = most, domains
        self._base = domains + 1
        if self._base**most >= 1 << 63:
            raise UsageError(f"--any {most}: too many sets of {domains:,} domains; ask for fewer")
        self._keys = np.zeros(0, np.int64)
        self.sums = np.zeros((0, 2), np.int64)

    def add(self, sets: Longs, entries: Longs, bytes: Longs) -> None:
        """Add rows of ascending domains, filled with -1."""
        every = np.concatenate([self._keys, self._key(sets)])
        sums = np.concatenate([self.sums, np.stack([entries, bytes], axis=1)])
        self._keys, place = np.unique(every, return_inverse=True)
        self.sums = np.zeros((len(self._keys), 2), np.int64)
        np.add.at(self.sums, place, sums)

    def sets(self) -> Longs:
        """Every set that was added, ascending and filled with -1; a row of ``sums`` each."""
        rest, places = self._keys, []
        for _ in range(self.most):
            rest, place = np.divmod(rest, self._base)
            places.append(place - 1)
        return np.stack(places[::-1], axis=1)

    def losses(self, sets: Longs) -> Longs:
        """Entries and bytes lost with each row of ascending domains: what lies in each of its subsets."""
        found = np.zeros((len(sets), 2), np.int64)
        for size in range(1, min(self.most, sets.shape[1]) + 1):
            for part in combinations(range(sets.shape[1]), size):
                rows = np.full((len(sets), self.most), -1, np.int64)
                rows[:, :size] = sets[:, part]
                keys = self._key(rows)
                place = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
                there = self._keys[place] == keys if len(self._keys) else np.zeros(len(keys), bool)
                found[there] += self.sums[place[there]]
        return found

    def _key(self, sets: Longs) -> Longs:
        keys = np.zeros(len(sets), np.int64)
        for place in range(self.most):
            keys = keys * self._base + sets[:, place] + 1
        return keys
