"""Where a long row of entry ids changes its pattern: what is left of it to be folded.

A run of consecutive ids *continues* when its size, and its distance from the run before, equal those of the
run before. Only the others, the *changes*, matter to the fold. They are looked for block by block, so that
what is computed stays in the processor's cache and memory follows the changes, not the ids.

A block that goes on as the one before it ended is passed over. One that is nothing but the middle of a run is
known by its two ends, since ids ascend and none comes twice; one that repeats a run is known by comparing
every id with the one a run before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.availability.maximal import LONGEST

BLOCK = 1 << 17
"""Ids that are looked at together: 1 MiB of them."""


class PatternChanges(NamedTuple):
    """The runs that do not continue: position of the first id in the row, number of ids, the first id itself.

    ``head`` says which are the first of their set.
    """

    at: Longs
    size: Longs
    first: Longs
    head: NDArray[np.bool_]


def changes(entries: Longs, heads: Longs) -> Iterator[PatternChanges]:
    """Find the changes in at least one ascending id; a set begins at the positions ``heads``, and one at 0.

    >>> [found.at.tolist() for found in changes(np.array([1, 2, 4, 5, 7, 8, 10]), np.array([0]))]
    [[0, 2], [6]]
    """
    known = np.zeros(1, np.int64)  # where the last three runs begin; the very last may not be over
    room = np.empty(min(BLOCK, len(entries)), np.int64)
    for low in range(1, len(entries), BLOCK):
        high = min(low + BLOCK, len(entries))
        passed = _state_at(entries, heads, known, high)
        if passed is not None:
            known = passed
            continue
        distance = np.subtract(entries[low:high], entries[low - 1 : high - 1], out=room[: high - low])
        begins = distance != 1
        begins[_within(heads, low, high) - low] = True
        at = np.concatenate((known, np.flatnonzero(begins) + low))
        yield _changes_among(entries, heads, at, len(known) - 1)
        known = at[-3:]
    yield _changes_among(entries, heads, np.append(known, len(entries)), len(known) - 1)


def breaks_pattern(distance: Longs, size: Longs) -> NDArray[np.bool_]:
    """Which of these runs do not continue, by their sizes and their distances from the one before each.

    >>> breaks_pattern(np.array([3, 3, 4]), np.array([2, 2, 2, 2])).tolist()
    [True, True, False, True]
    """
    rows = np.ones(len(size), np.bool_)
    np.not_equal(distance[1:], distance[:-1], out=rows[2:])
    rows[1:] |= size[1:] != size[:-1]
    if len(distance) and int(distance.max()) > LONGEST:
        rows[1:] |= distance > LONGEST
    return rows


def _changes_among(entries: Longs, heads: Longs, at: Longs, seen: int) -> PatternChanges:
    """The changes among the runs that begin ``at``; the last is open, the first ``seen`` were told before."""
    size = at[1:] - at[:-1]
    first = entries[at[:-1]]
    rows = breaks_pattern(first[1:] - first[:-1], size)
    head = np.zeros(len(size), np.bool_)
    head[np.searchsorted(at, _within(heads, int(at[0]), int(at[-1])))] = True
    rows |= head
    # Runs of the block before are here only so that these have something to be compared with.
    rows[:seen] = False
    row = np.flatnonzero(rows)
    return PatternChanges(at[row], size[row], first[row], head[row])


def _state_at(entries: Longs, heads: Longs, known: Longs, high: int) -> Longs | None:
    """What is ``known`` at ``high`` if no run changes on the way there; None if one does, or a set begins."""
    open_run, last = int(known[-1]), high - 1
    if len(_within(heads, open_run + 1, high)):
        return None
    # Ids ascend: where the last is as far from the first as their places are, none is missing in between.
    if entries[last] - entries[open_run] == last - open_run:
        return known
    if len(known) < 3 or len(_within(heads, int(known[0]) + 1, high)):
        return None
    before, size = int(known[1]), int(known[2] - known[1])
    distance = entries[open_run] - entries[before]
    if size != before - known[0] or distance != entries[before] - entries[known[0]] or distance > LONGEST:
        return None
    # The pattern goes on only if the last entry is where it says; that is one comparison, before one of each.
    runs, rest = divmod(last - open_run, size)
    if entries[last] != entries[before + rest] + distance * (runs + 1):
        return None
    repeats = entries[open_run:high] - entries[open_run - size : high - size] == distance
    return known + runs * size if repeats.all() else None


def _within(heads: Longs, low: int, high: int) -> Longs:
    start, end = np.searchsorted(heads, (low, high))
    return heads[start:end]
