"""Takes slots apart into groups where they repeat, so that no run of a striped ledger is looked at alone.

A bookie holds a run of every period of a striped ledger. One comparison of the slots with themselves, a
period later, shows where that breaks off; between two breaks all follows from the first period. What is found
this way are groups already, though not yet folded: runs beside a break stand alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs

SAMPLE = 4096
"""Slots that are looked at for a period."""

LONGEST_PERIOD = 64

Held = NDArray[np.bool_]
Groups = tuple[Longs, Longs, Longs, Longs]
"""First start, last start, size and period of some groups."""


def repeating_groups(held: Held, heads: Longs) -> Groups | None:
    """The groups of slots, or None where little repeats, and to look at every run is as good.

    Slot i is ``held[i + 1]``: one item more at either end is false. Sets begin at the slots ``heads``, and no
    run goes on from set to set. Groups come in order, each ends before the next begins, and is of one set.

    >>> [part.tolist() for part in repeating_groups(np.arange(100) % 3 == 2, np.array([0])) or ()]
    [[1, 4, 97], [1, 94, 97], [1, 1, 1], [0, 3, 0]]
    """
    period = _period(held[:SAMPLE])
    if period is None:
        return None
    breaks = held[period:] != held[:-period]
    breaks[heads[heads + 1 >= period] + 1 - period] = True
    at = np.flatnonzero(breaks) + period
    if len(at) * 16 > len(held):
        return None
    start, end = np.append(period, at + 1), np.append(at, len(held))
    long = end - start >= 4 * period
    start, end = start[long], end[long]
    window = held[start[:, None] + np.arange(-1, period)]
    rises = window[:, 1:] & ~window[:, :-1]
    count = rises.sum(axis=1)
    # Without a rise all is alike from start to end; with two in a period it is not one group.
    start = np.where(count == 1, start + rises.argmax(axis=1), start)[count < 2]
    size, end, single = window[count < 2, 1:].sum(axis=1), end[count < 2], count[count < 2] == 1
    times = np.where(single, (end - start) // period, 0)
    end = np.where(single, start + times * period, end)
    lone = _lone_runs(held, np.append(1, end), np.append(start, len(held)))
    if lone is None:
        return None
    first = np.concatenate((lone[0], start[single]))
    last = np.concatenate((lone[0], (end - period)[single]))
    size = np.concatenate((lone[1], size[single]))
    periods = np.append(np.zeros_like(lone[0]), np.full(np.count_nonzero(single), period))
    order = np.argsort(first, kind="stable")
    return first[order] - 1, last[order] - 1, size[order], periods[order]


def _period(sample: Held) -> int | None:
    """The distance that most runs have from the one before."""
    distances = np.diff(np.flatnonzero(sample[1:] > sample[:-1]))
    if len(distances) < 8:
        return None
    counts = np.bincount(distances)
    period = int(counts.argmax())
    return period if counts[period] * 4 > len(distances) * 3 and period <= LONGEST_PERIOD else None


def _lone_runs(held: Held, start: Longs, end: Longs) -> tuple[Longs, Longs] | None:
    """Start and size of the runs between ``start[i]`` and ``end[i]``; None if that is much of it all."""
    length = end - start
    total = int(length.sum())
    if total * 4 > len(held):
        return None
    at = np.repeat(start - np.cumsum(length) + length, length) + np.arange(total)
    edges = at[held[at] != held[at - 1]]
    return edges[0::2], edges[1::2] - edges[0::2]
