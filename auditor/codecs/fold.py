"""The canonical form of a set of entries: the greedy fold of BP-34, for many sets at once.

A set is first taken apart into its maximal runs of consecutive entries. A run joins the group before it when
it has that group's size and either the group has one run so far (their distance becomes the period) or the
distance from the last run is the period. Otherwise it opens a new group. So the proposal's examples come out
as one group and as four, and equal sets have equal bytes, however they were put together.

A group's numbers are int32: a run longer than 2^31 - 1 is cut into pieces of that size and a rest (the only
groups that touch), and a distance that is larger, or not above the size, never joins.

The server's own class (``AvailabilityOfEntriesOfLedger``, seen in 4.17.2) means to do the same and never
does: it writes one group a run.

How it is done without a loop over runs: a run *continues* when its size and distance equal those of the run
before. Such a run never opens a group. Of the others, from one that opens a group the next that does is the
next, or, when that one follows directly and joins as second run, the one after it; so in a chain of direct
followers the openers alternate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.groups import GROUP, GroupBatch, Longs
from auditor.codecs.maximal import LONGEST, maximal, set_heads

__all__ = ["GROUP", "GroupBatch", "fold", "fold_entries", "fold_runs", "fold_slots"]


def fold(batch: GroupBatch) -> GroupBatch:
    """Fold sets of groups into the canonical form.

    The groups of a set are sorted, and each ends before the next begins; they may touch, and sizes may pass
    int32. One set a ledger and bookie, however many segments went into it. Raises `CoverageLimitError` for
    runs so long that their pieces would fill the memory.

    >>> fold(GroupBatch.of([[(0, 0, 1, 0), (2, 2, 1, 0), (4, 4, 1, 0)]])).last.tolist()
    [4]
    """
    batch = maximal(batch)
    first, last, size, period = batch.first, batch.last, batch.size, batch.period
    if not len(first):
        return batch
    several = last > first
    # Within a group only its first two runs can fail to continue: two columns, one row a group.
    distance = np.zeros_like(first)
    np.subtract(first[1:], last[:-1], out=distance[1:])
    joins = np.ones((len(first), 2), np.bool_)
    joins[0, 0] = False
    joins[1:, 0] = (size[1:] == size[:-1]) & (distance[1:] > size[1:]) & (distance[1:] <= LONGEST)
    joins[set_heads(batch.offsets), 0] = False
    opens = np.empty_like(joins)
    opens[0, 0] = True
    before = np.where(several, period, distance)
    opens[1:, 0] = ~joins[1:, 0] | (distance[1:] != before[:-1])
    opens[:, 1] = several & (distance != period)
    at = np.flatnonzero(opens)
    runs = np.where(several, (last - first) // np.maximum(period, 1), 0) + 1
    ends = np.cumsum(runs)
    number = (ends - runs)[at >> 1] + (at & 1)
    starts = _openers(number, joins.ravel()[at])
    at, number = at[starts], number[starts]
    row, second = at >> 1, (at & 1).astype(np.bool_)
    before_it = np.where(second, first[row], last[row - 1])
    return _assemble(
        first=first[row] + np.where(second, period[row], 0),
        last=np.append(before_it[1:], last[-1]),
        size=size[row],
        runs=np.diff(number, append=ends[-1]),
        offsets=np.searchsorted(at, 2 * batch.offsets),
    )


def fold_runs(start: NDArray[np.int64], size: NDArray[np.int64], offsets: NDArray[np.int64]) -> GroupBatch:
    """Fold sets of ascending runs, which may touch: set i owns runs ``offsets[i]:offsets[i + 1]``.

    >>> fold_runs(np.array([1, 4, 7]), np.array([2, 2, 2]), np.array([0, 3])).period.tolist()
    [3]
    """
    start, size = np.asarray(start, np.int64), np.asarray(size, np.int64)
    return fold(GroupBatch(start, start, size, np.zeros_like(start), np.asarray(offsets, np.int64)))


def fold_entries(entries: NDArray[np.int64], offsets: NDArray[np.int64]) -> GroupBatch:
    """Fold sets of ascending entry ids, each id once: set i owns ``entries[offsets[i]:offsets[i + 1]]``.

    >>> fold_entries(np.array([1, 2, 4, 5, 7]), np.array([0, 5])).last.tolist()
    [4, 7]
    """
    entries, offsets = np.asarray(entries, np.int64), np.asarray(offsets, np.int64)
    breaks = np.ones(len(entries), np.bool_)
    np.not_equal(entries[1:] - entries[:-1], 1, out=breaks[1:])
    breaks[set_heads(offsets)] = True
    at = np.flatnonzero(breaks)
    return _fold_maximal_runs(entries[at], np.diff(at, append=len(entries)), np.searchsorted(at, offsets))


def fold_slots(slots: NDArray[np.int64], bounds: NDArray[np.int64]) -> GroupBatch:
    """Fold the slots of ledger index files: slot e of a ledger is not 0 when the bookie holds entry e.

    Ledger i owns ``slots[bounds[i]:bounds[i + 1]]``. Byte order does not matter, only zero or not.

    >>> fold_slots(np.array([0, 1028, 1061, 0, 1094, 1123]), np.array([0, 6])).last.tolist()
    [4]
    """
    bounds = np.asarray(bounds, np.int64)
    low, high = int(bounds[0]), int(bounds[-1])
    held = np.zeros(high - low + 2, np.bool_)
    np.not_equal(slots[low:high], 0, out=held[1:-1])
    edges = np.flatnonzero(held[1:] != held[:-1])
    bounds = bounds - low
    heads = set_heads(bounds)
    cut = heads[held[heads] & held[heads + 1]]
    if len(cut):
        # A run that goes on over the edge of a ledger ends there, and another starts.
        edges = np.sort(np.concatenate((edges, cut, cut)), kind="stable")
    start, end = np.ascontiguousarray(edges[0::2]), edges[1::2]
    batch = _fold_maximal_runs(start, end - start, np.searchsorted(start, bounds))
    origin = np.repeat(bounds[:-1], np.diff(batch.offsets))
    return GroupBatch(batch.first - origin, batch.last - origin, batch.size, batch.period, batch.offsets)


def _fold_maximal_runs(start: Longs, size: Longs, offsets: Longs) -> GroupBatch:
    """The fold where no runs touch, each its own group: the same rules with fewer passes."""
    if not len(start) or int(size.max()) > LONGEST:
        return fold_runs(start, size, offsets)
    heads = set_heads(offsets)
    distance = np.diff(start)
    continues = np.zeros(len(start), np.bool_)
    np.equal(distance[1:], distance[:-1], out=continues[2:])
    continues[1:] &= size[1:] == size[:-1]
    if len(distance) and int(distance.max()) > LONGEST:
        continues[1:] &= distance <= LONGEST
    continues[heads] = False
    number = np.flatnonzero(~continues)
    before = number - 1  # of the very first run this is the last one, and a set's first run never joins
    joins = (size[number] == size[before]) & (start[number] - start[before] <= LONGEST)
    joins[np.searchsorted(number, heads)] = False
    number = number[_openers(number, joins)]
    return _assemble(
        first=start[number],
        last=start[np.append(number[1:], len(start)) - 1],
        size=size[number],
        runs=np.diff(number, append=len(start)),
        offsets=np.searchsorted(number, offsets),
    )


def _openers(number: Longs, joins: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the runs that do not continue, given by their number, those that open a group."""
    follows = np.zeros(len(number), np.bool_)
    follows[1:] = (number[1:] - number[:-1] == 1) & joins[1:]
    index = np.arange(len(number))
    chain = np.maximum.accumulate(np.where(follows, 0, index))
    opens: NDArray[np.bool_] = (index - chain) & 1 == 0
    return opens


def _assemble(first: Longs, last: Longs, size: Longs, runs: Longs, offsets: NDArray[np.intp]) -> GroupBatch:
    """Groups from where they begin and end; with one run the period comes out as 0."""
    period = (last - first) // np.maximum(runs - 1, 1)
    return GroupBatch(first, last, size, period, offsets.astype(np.int64, copy=False))
