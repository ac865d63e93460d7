"""Maximal runs, in which none touches another, and where groups open among them.

What the striping of one segment gives, or of several, or a server's unfolded groups, may be cut anywhere.
Before sets are folded, runs that touch become one run; runs longer than 2^31 - 1 are cut into pieces of that
size and a rest. Cost follows groups, not runs: of a group only its first and last run can touch another.

`opening_runs` says which runs open a group: all that is left of them to be folded. A run *continues* when its
size, and its distance from the run before, equal those of the run before. Such a run never opens a group. Of
the others, from one that opens a group the next that does is the next, or, when that one follows directly and
joins as second run, the one after it; so in a chain of direct followers the openers alternate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch, Longs, offsets_of
from auditor.errors import CoverageLimitError

LONGEST = 2**31 - 1
"""The most that an int32 field of a group holds: a run's size, a period."""

MOST_PIECES = 2**22
"""How many pieces the long runs of one batch may be cut into: 100 MB of groups, 2^53 entries."""


def maximal(batch: GroupBatch) -> GroupBatch:
    """The same sets with touching runs joined and long runs cut.

    >>> maximal(GroupBatch.of([[(0, 0, 2, 0), (2, 6, 1, 2)]])).size.tolist()
    [3, 1]
    """
    batch = _without_solid_groups(batch)
    touch = _touches(batch)
    if touch.any():
        batch = _join_chains(_split_groups(batch, touch))
    return _cut_long_runs(batch) if (batch.size > LONGEST).any() else batch


def set_heads(offsets: Longs) -> Longs:
    """The first group of each set that has one.

    >>> set_heads(np.array([0, 2, 2, 3])).tolist()
    [0, 2]
    """
    return offsets[:-1][offsets[:-1] < offsets[1:]]


def _without_solid_groups(batch: GroupBatch) -> GroupBatch:
    """A group whose runs touch each other is one run."""
    solid = (batch.last > batch.first) & (batch.period == batch.size)
    if not solid.any():
        return batch
    length = batch.last - batch.first + batch.size
    return GroupBatch(
        batch.first,
        np.where(solid, batch.first, batch.last),
        np.where(solid, length, batch.size),
        np.where(solid, 0, batch.period),
        batch.offsets,
    )


def _touches(batch: GroupBatch) -> NDArray[np.bool_]:
    """Whether each group begins where the one before it, of the same set, ends."""
    touch = np.zeros(len(batch.first), np.bool_)
    touch[1:] = batch.first[1:] == batch.last[:-1] + batch.size[:-1]
    # What lies before the first group of a set is another set's.
    touch[set_heads(batch.offsets)] = False
    return touch


def _split_groups(batch: GroupBatch, touch: NDArray[np.bool_]) -> GroupBatch:
    """Split the run that touches off each group of several: at most head, body and tail."""
    several = batch.last > batch.first
    head = several & touch
    tail = several & np.append(touch[1:], False)
    # A group of two runs that both touch something is all head and tail.
    bodiless = head & tail & (batch.last - batch.first == batch.period)
    parts = 1 + head + tail - bodiless
    row, rank, offsets = _spread(parts, batch.offsets)
    first, last, size, period = (each[row] for each in (batch.first, batch.last, batch.size, batch.period))
    # Few touch, most often: what is done to their parts is done to these alone.
    at = np.flatnonzero((head | tail)[row])
    row, rank = row[at], rank[at]
    is_head = head[row] & (rank == 0)
    is_tail = tail[row] & (rank == parts[row] - 1)
    first[at] += np.where(is_tail, last[at] - first[at], np.where(head[row] & ~is_head, period[at], 0))
    last[at] = np.where(is_head, batch.first[row], last[at] - np.where(tail[row] & ~is_tail, period[at], 0))
    period[at] = np.where(last[at] > first[at], period[at], 0)
    return GroupBatch(first, last, size, period, offsets)


def _join_chains(batch: GroupBatch) -> GroupBatch:
    """Make one run of each chain of touching runs; whatever touches is a single run by now."""
    keeps = ~_touches(batch)
    kept = np.flatnonzero(keeps)
    return GroupBatch(
        batch.first[kept],
        batch.last[kept],
        np.add.reduceat(batch.size, kept),
        batch.period[kept],
        offsets_of(keeps.astype(np.int64))[batch.offsets],
    )


def _cut_long_runs(batch: GroupBatch) -> GroupBatch:
    """Cut runs that are longer than an int32 into pieces of the longest size and a rest."""
    parts = (batch.size - 1) // LONGEST + 1
    long = parts > 1
    # Added up as floats: the sum of int64 could wrap around to a small number.
    if float(parts[long].sum(dtype=np.float64)) > MOST_PIECES:
        worst = int(batch.size.max())
        raise CoverageLimitError(f"a run of {worst} entries, more than {MOST_PIECES} pieces of {LONGEST}")
    row, rank, offsets = _spread(parts, batch.offsets)
    cut = long[row]
    first = batch.first[row] + rank * LONGEST
    return GroupBatch(
        first,
        np.where(cut, first, batch.last[row]),
        np.minimum(batch.size[row] - rank * LONGEST, LONGEST),
        batch.period[row],
        offsets,
    )


def _spread(parts: Longs, offsets: Longs) -> tuple[Longs, Longs, Longs]:
    """Make ``parts[i]`` rows of row i: from which row each came, which part of it it is, the new offsets."""
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(parts, out=ends[1:])
    row = np.repeat(np.arange(len(parts)), parts)
    return row, np.arange(len(row)) - ends[row], ends[offsets]


def opening_runs(first: Longs, size: Longs, heads: Longs) -> Longs:
    """Which of some runs, by their first ids and sizes, open a group; ``heads`` are the first of their set.

    >>> opening_runs(np.array([0, 3, 6, 10]), np.array([2, 2, 2, 2]), np.array([0])).tolist()
    [0, 3]
    """
    distance = first[1:] - first[:-1]
    # Of each run but the very first: whether it can follow the one before at all, and whether it continues.
    joins = size[1:] == size[:-1]
    if len(distance) and int(distance.max()) > LONGEST:
        joins &= distance <= LONGEST
    joins[heads[heads > 0] - 1] = False
    continues = np.zeros_like(joins)
    np.equal(distance[1:], distance[:-1], out=continues[1:])
    continues &= joins
    # A second run comes right behind one that opens a group, so not behind one that continues.
    joins[1:] &= ~continues[:-1]
    joins &= ~continues
    opens = np.ones(len(first), np.bool_)
    np.logical_not(continues, out=opens[1:])
    opens[every_other(np.flatnonzero(joins)) + 1] = False
    return np.flatnonzero(opens)


def every_other(numbers: Longs) -> Longs:
    """Of each unbroken chain of ascending numbers the first, the third, and so on.

    >>> every_other(np.array([2, 3, 4, 7, 8])).tolist()
    [2, 4, 7]
    """
    chained = np.zeros(len(numbers), np.bool_)
    np.equal(numbers[1:] - numbers[:-1], 1, out=chained[1:])
    begin = np.maximum.accumulate(np.where(chained, 0, numbers))
    every: Longs = numbers[(numbers - begin) & 1 == 0]
    return every
