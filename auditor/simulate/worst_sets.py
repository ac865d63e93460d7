"""The worst of all sets of N domains, from the sets that entries lie in: none that holds nothing is met.

What a set loses is the sum over its subsets. Of two domains the worst are exact: each is a pair that entries
lie in, or two of the worst single domains. Of more, sets grow from the heaviest that entries lie in by
whatever adds most, so that what is named is what was found, not proved to be the worst.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from auditor.simulate.domains import SetSums
from auditor.simulate.windows import Longs

SHOWN = 10
_SEEDS = 200
"""Sets that grow, at most."""
_WEIGHED = 1 << 18
"""Sets of three domains and more that are weighed one and all, at most: seconds."""


@dataclass(frozen=True, slots=True)
class WeighedSet:
    """A set of domains, and what is lost with it."""

    members: tuple[int, ...]
    entries: int
    bytes: int

    @property
    def rank(self) -> tuple[int, int, tuple[int, ...]]:
        """The worst first."""
        return -self.bytes, -self.entries, self.members


@dataclass(frozen=True, slots=True)
class WorstSets:
    """The worst sets that were found, ``proved`` if there is no worse one; none of them loses nothing.

    ``losing`` is how many sets lose an entry, None where that was not counted.
    """

    sets: tuple[WeighedSet, ...]
    proved: bool
    losing: int | None


def loss(sums: SetSums, members: Iterable[int]) -> WeighedSet:
    """What is lost with a set: what lies in each of its subsets."""
    row = sorted(members)
    entries, bytes = map(int, sums.losses(np.array([row]))[0])
    return WeighedSet(tuple(row), entries, bytes)


def worst_sets(sums: SetSums, size: int, shown: int = SHOWN, most: int = _WEIGHED) -> WorstSets:
    """The worst sets of so many domains; all are weighed if they are ``most`` at most.

    >>> sums = SetSums(2, domains=4)
    >>> sums.add(np.array([[0, 1], [2, -1]]), np.array([5, 1]), np.array([50, 20]))
    >>> [(each.members, each.bytes) for each in worst_sets(sums, 2, shown=2).sets]
    [((0, 1), 50), ((0, 2), 20)]
    """
    if sums.domains < size:
        return WorstSets((), True, 0)
    if size > 2 and comb(sums.domains, size) <= most:
        every = np.array([*combinations(range(sums.domains), size)], np.int64).reshape(-1, size)
        losses = sums.losses(every)
        worst = np.lexsort((-losses[:, 0], -losses[:, 1]))[:shown]
        found = [loss(sums, row) for row in every[worst].tolist()]
        return WorstSets(_losing(found, shown), True, int((losses[:, 0] > 0).sum()))
    rows = sums.sets()
    totals = _with_singles(sums, rows)
    heaviest = np.lexsort((np.arange(len(rows)), -totals[:, 0], -totals[:, 1]))[: max(_SEEDS, shown)]
    alone = [each.members[0] for each in _singles(sums)[: shown + size]]
    candidates = {frozenset(each) for each in combinations(alone, min(size, len(alone)))}
    candidates |= {frozenset(each for each in row if each >= 0) for row in rows[heaviest].tolist()}
    grown = {_grown(sums, rows, each, size, alone) for each in candidates}
    return WorstSets(_losing([loss(sums, each) for each in grown], shown), size <= 2, losing_sets(sums, size))


def _losing(found: list[WeighedSet], shown: int) -> tuple[WeighedSet, ...]:
    return tuple(sorted((each for each in found if each.entries), key=lambda each: each.rank)[:shown])


def losing_sets(sums: SetSums, size: int) -> int | None:
    """How many sets of one or two domains lose an entry; None of larger ones, which are not counted."""
    rows = sums.sets()
    alone = rows[(rows >= 0).sum(axis=1) == 1, 0] if size <= 2 else None
    if alone is None or size == 1:
        return None if alone is None else len(alone)
    others = ((rows >= 0).sum(axis=1) == 2) & ~np.isin(rows, alone).any(axis=1)
    return int(others.sum()) + comb(sums.domains, 2) - comb(sums.domains - len(alone), 2)


def matrix(sums: SetSums, shown: int) -> tuple[list[int], list[list[int]]]:
    """The domains that lose most, alone or with another, and bytes lost by row and column of them."""
    weight = np.zeros(sums.domains + 1, np.int64)
    rows = sums.sets()
    for place in range(rows.shape[1]):
        np.add.at(weight, rows[:, place], sums.sums[:, 1])
    most = np.argsort(-weight[:-1], kind="stable")[:shown].tolist()
    return most, [[loss(sums, frozenset([one, other])).bytes for other in most] for one in most]


def _singles(sums: SetSums) -> list[WeighedSet]:
    return sorted((loss(sums, frozenset([each])) for each in range(sums.domains)), key=lambda each: each.rank)


def _with_singles(sums: SetSums, rows: Longs) -> Longs:
    """What each row loses with its single domains: of pairs that is all."""
    alone = (rows >= 0).sum(axis=1) == 1
    of_one = np.zeros((sums.domains + 1, 2), np.int64)
    of_one[rows[alone, 0]] = sums.sums[alone]
    together: Longs = sums.sums + np.where(alone[:, None], 0, of_one[rows].sum(axis=1))
    return together


def _grown(
    sums: SetSums, rows: Longs, members: frozenset[int], size: int, alone: list[int]
) -> frozenset[int]:
    """A set with what adds most, one domain after the other; one that entries lie in already may be whole."""
    while len(members) < min(size, sums.domains):
        touching = rows[np.isin(rows, list(members)).any(axis=1)]
        near = {each for each in np.unique(touching).tolist() if each >= 0} | {*alone}
        others = sorted(near - members or set(range(sums.domains)) - members)
        losses = sums.losses(np.array([sorted(members | {other}) for other in others]))
        members |= {others[np.lexsort((-losses[:, 0], -losses[:, 1]))[0]]}
    return members
