"""From the runs of one window back to groups over the whole interval, in canonical form.

Most results repeat one run and stay one group, however long the interval. Where a window holds runs that no
single group can repeat (every third entry together with every fifth, say), the canonical form needs a group
for nearly every run: those are written out, within a bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GroupBatch, Longs
from auditor.codecs.availability.maximal import LONGEST
from auditor.codecs.availability.sweep import MOST_RUNS, Steps, runs_of_steps
from auditor.errors import CoverageLimitError

_Parts = tuple[Longs, Longs, Longs, Longs]


def unroll(steps: Steps, keep: NDArray[np.bool_]) -> GroupBatch:
    """The entries of the steps to keep, in every repetition of their windows: one folded set.

    Raises `CoverageLimitError` if more than `MOST_RUNS` runs would have to be written out.

    >>> from auditor.codecs.availability.sweep import sweep
    >>> steps = sweep([GroupBatch.of([[(0, 3 * 10**12, 1, 3)]])], [1])
    >>> unroll(steps, steps.value == 0).groups().tolist()
    [(1, 2999999999998, 2, 3)]
    """
    start, end, interval = runs_of_steps(steps, keep)
    low, high, window = steps.low[interval], steps.high[interval], steps.window[interval]
    whole = (start == low) & (end == low + window)
    # A run as long as its window touches its own repetition: all of the interval is one run.
    end = np.where(whole, high, end)
    once = whole | (low + window == high)
    parts = [_singles(start[once], end[once])]
    start, end, interval = start[~once], end[~once], interval[~once]

    # A run that ends with the window goes on where the next repetition begins with one.
    head = np.flatnonzero(np.append(True, interval[1:] != interval[:-1])[: len(interval)])
    foot = np.append(head[1:], len(interval))[: len(head)] - 1
    of = interval[head]
    wraps = (foot > head) & (start[head] == steps.low[of]) & (end[foot] == (steps.low + steps.window)[of])
    into, out_of = head[wraps], foot[wraps]
    parts.append(_singles(start[into], end[into]))
    end[out_of] += end[into] - start[into]
    stays = np.ones(len(start), np.bool_)
    stays[into] = False
    start, end, interval = start[stays], end[stays], interval[stays]

    # Runs of one size that divide the window evenly are one group of BP-34; all others are written out.
    runs = np.bincount(interval, minlength=len(steps.low))
    period = steps.window // np.maximum(runs, 1)
    one_group = (period * runs == steps.window) & (period <= LONGEST)
    same = interval[1:] == interval[:-1]
    differs = (end - start)[1:] != (end - start)[:-1]
    differs |= start[1:] - start[:-1] != period[interval[1:]]
    one_group[interval[1:][same & differs]] = False
    regular = one_group[interval]
    opens = regular & np.append(True, ~same)[: len(start)]
    parts.append(_repeat_runs(start[opens], end[opens], period[interval[opens]], steps.high[interval[opens]]))
    rest = ~regular
    owner = interval[rest]
    parts.append(_repetitions(start[rest], end[rest], steps.window[owner], steps.high[owner]))

    first, last, size, of_period = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(first, kind="stable")
    offsets = np.array([0, len(first)])
    return fold(GroupBatch(first[order], last[order], size[order], of_period[order], offsets))


def _singles(start: Longs, end: Longs) -> _Parts:
    return start, start, end - start, np.zeros_like(start)


def _repeat_runs(start: Longs, end: Longs, period: Longs, high: Longs) -> _Parts:
    """One run an interval, repeated up to the interval's end: full runs, and what fits of one more."""
    size = end - start
    full = np.maximum((high - size - start) // period + 1, 0)
    last = start + (full - 1) * period
    has = full > 0
    # A group of one run has no period: that is how the proposal writes it.
    body = (start[has], last[has], size[has], np.where(full > 1, period, 0)[has])
    cut = high - last > period
    tail = _singles((last + period)[cut], high[cut])
    first, last, size, period = (np.concatenate(column) for column in zip(body, tail, strict=True))
    return first, last, size, period


def _repetitions(start: Longs, end: Longs, window: Longs, high: Longs) -> _Parts:
    """Every repetition of every run, up to the interval's end."""
    times = (high - 1 - start) // window + 1
    if float(times.sum(dtype=np.float64)) > MOST_RUNS:
        raise CoverageLimitError(f"a result of more than {MOST_RUNS} runs that fold into no fewer groups")
    row = np.repeat(np.arange(len(times)), times)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
    shift = rank * window[row]
    return _singles(start[row] + shift, np.minimum(end[row] + shift, high[row]))
