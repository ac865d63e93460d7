"""The worst of all sets of N domains, from the sets that entries lie in: none that holds nothing is met.

What a set loses is the sum over its subsets. Of two domains the worst are exact: each is a pair that entries
lie in, or two of the worst single domains. Of more, sets grow from the heaviest that entries lie in by
whatever adds most, so that what is named is what was found, not proved to be the worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from auditor.simulate.domains import SetSums
from auditor.simulate.windows import Longs

SHOWN = 10
_SEEDS = 200
"""Sets that grow, at most."""


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


def loss(sums: SetSums, members: frozenset[int]) -> WeighedSet:
    """What is lost with a set: what lies in each of its subsets."""
    most = min(sums.most, len(members))
    parts = [part for size in range(1, most + 1) for part in combinations(sorted(members), size)]
    entries, bytes = (int(each) for each in sum(map(sums.weight, parts), np.zeros(2, np.int64)))
    return WeighedSet(tuple(sorted(members)), entries, bytes)


def worst_sets(sums: SetSums, size: int, shown: int = SHOWN) -> list[WeighedSet]:
    """The worst sets of so many domains that were found; none that loses nothing.

    >>> sums = SetSums(2, domains=4)
    >>> sums.add(np.array([[0, 1], [2, -1]]), np.array([5, 1]), np.array([50, 20]))
    >>> [(each.members, each.bytes) for each in worst_sets(sums, 2, shown=2)]
    [((0, 1), 50), ((0, 2), 20)]
    """
    rows = sums.sets()
    totals = _with_singles(sums, rows)
    heaviest = np.lexsort((np.arange(len(rows)), -totals[:, 0], -totals[:, 1]))[: max(_SEEDS, shown)]
    alone = [each.members[0] for each in _singles(sums)[: shown + size]]
    candidates = {frozenset(each) for each in combinations(alone, min(size, len(alone)))}
    candidates |= {frozenset(each for each in row if each >= 0) for row in rows[heaviest].tolist()}
    grown = {_grown(sums, rows, each, size, alone) for each in candidates}
    found = [loss(sums, each) for each in grown]
    return sorted((each for each in found if each.entries or each.bytes), key=lambda each: each.rank)[:shown]


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
        others = near - members or set(range(sums.domains)) - members
        members |= {min(others, key=lambda other: (*loss(sums, members | {other}).rank, other))}
    return members
