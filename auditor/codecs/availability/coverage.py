"""Arithmetic on the entry sets of one ledger: entries missing on each bookie, and number of copies left.

Arguments and results are sets as canonical groups (`auditor.codecs.availability.fold`), sorted and disjoint.
A group repeats a run (consecutive entries) at a fixed distance, its period. Every result is exact. The cost
depends on the number of groups, not of entries. Above `MAX_RUNS` single runs, `CoverageLimitError` is raised.
This happens if sets with different periods have a common pattern, or a result, of millions of single runs.

For each entry, `sweep` adds up the weights of the sets that contain the entry, without a loop over entries.
The edges of all groups cut the ids into intervals. Within one interval every set is empty, full or periodic.
So the sum repeats with the least common multiple of the periods, and one window of that length describes it.
If the common period is longer than the interval, the whole interval is the window. The cost depends only on
the groups and on the runs in one window.

    ids       low                                high
              |--- window ---|                     |       one interval
    steps     |--|---|-|-----|                             constant value in each step

Most results repeat one run of the window and stay one group, however long the interval. If no single group
can repeat the runs (as for every third and every fifth entry), up to `MAX_RUNS` single runs are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GROUP, GroupBatch, Groups, Longs
from auditor.codecs.availability.maximal import MAX_RUN_ENTRIES
from auditor.errors import CoverageLimitError

MAX_RUNS = 2**21
"""Largest number of runs in one comparison (200 MB, one second); two per set and interval are not counted."""


@dataclass(frozen=True, slots=True)
class SumSteps:
    """For each entry id, the sum of the weights of the sets that contain it, as steps with a constant sum.

    Interval i is ``low[i]:high[i]``. Its first ``window[i]`` entries are its window, and the interval
    repeats this window. Step j is ``start[j]:end[j]``, in the window of interval ``interval[j]``. Its sum is
    ``total[j]``. The steps of a window are in ascending order and cover it without a gap.
    """

    low: Longs
    high: Longs
    window: Longs
    start: Longs
    end: Longs
    interval: Longs
    total: Longs


def sweep(sets: Sequence[GroupBatch], weights: Sequence[int]) -> SumSteps:
    """For each entry, add up the weights of the sets that contain it. Ids must be below 2^63 - 1.

    Each batch in ``sets`` is one set. Raises `CoverageLimitError` for more than `MAX_RUNS` runs.

    >>> every_third = GroupBatch.from_tuples([[(0, 3 * 10**12, 1, 3)]])
    >>> steps = sweep([every_third], [1])
    >>> steps.start.tolist(), steps.end.tolist(), steps.total.tolist()
    ([0, 1], [1, 3], [1, 0])
    """
    weights = [weight for batch, weight in zip(sets, weights, strict=True) if len(batch.first)]
    sets = [batch for batch in sets if len(batch.first)]
    ends = [batch.last + batch.size for batch in sets]
    # Ends are exclusive here: ids stay below 2^63 - 1, so that one past the last still fits.
    edges = np.unique(np.concatenate([np.empty(0, np.int64), *(batch.first for batch in sets), *ends]))
    low, high = edges[:-1], edges[1:]
    active_rows = [_active_rows(batch, end, low) for batch, end in zip(sets, ends, strict=True)]
    window = np.ones_like(low)
    for set_batch, rows in zip(sets, active_rows, strict=True):
        window = _lcm_window(window, np.where(rows < 0, 1, np.maximum(set_batch.period[rows], 1)), high - low)
    # Every window opens and closes with a change of nothing: a step begins there even where no run does.
    change_id_parts, weight_changes = [low, low + window], [np.zeros_like(low), np.zeros_like(low)]
    run_count = 0
    for set_batch, rows, weight in zip(sets, active_rows, weights, strict=True):
        start, end, new_runs = _runs(set_batch, rows, low, window, MAX_RUNS - run_count)
        run_count += new_runs
        change_id_parts += [start, end]
        weight_changes += [np.full_like(start, weight), np.full_like(end, -weight)]
    change_ids = np.concatenate(change_id_parts)
    id_order = np.argsort(change_ids, kind="stable")
    change_ids, sums = change_ids[id_order], np.cumsum(np.concatenate(weight_changes)[id_order])
    # Of several changes at one id the running sum is right only after the last.
    is_last = np.append(change_ids[1:] != change_ids[:-1], np.ones(min(len(change_ids), 1), np.bool_))
    change_ids, sums = change_ids[is_last], sums[is_last]
    interval = np.searchsorted(low, change_ids, side="right") - 1
    is_in_window = change_ids < (low + window)[interval] if len(low) else np.zeros(0, np.bool_)
    starts = np.flatnonzero(is_in_window)
    return SumSteps(
        low, high, window, change_ids[starts], change_ids[starts + 1], interval[starts], sums[starts]
    )


def _active_rows(batch: GroupBatch, run_end: Longs, low: Longs) -> Longs:
    """Return, for the interval at each id in ``low``, the index of the group that spans it, or -1."""
    rows = np.searchsorted(batch.first, low, side="right") - 1
    return np.where(low < run_end[rows], rows, -1)


def _lcm_window(window: Longs, period: Longs, interval_size: Longs) -> Longs:
    """Return the least common multiple of the lengths ``window`` and ``period``, up to ``interval_size``."""
    # Compared before it is multiplied: the product could pass int64.
    lcm_factor = window // np.gcd(window, period)
    return np.where(lcm_factor > interval_size // period, interval_size, lcm_factor * period)


def _runs(batch: GroupBatch, rows: Longs, low: Longs, window: Longs, limit: int) -> tuple[Longs, Longs, int]:
    """Return start and end of each run in the windows, and the number of runs beyond two per window."""
    interval_rows = np.flatnonzero(rows >= 0)
    rows, low, window_end = rows[interval_rows], low[interval_rows], (low + window)[interval_rows]
    first, size, period = batch.first[rows], batch.size[rows], np.maximum(batch.period[rows], 1)
    is_repeated = batch.last[rows] > first
    first_repeat = np.where(is_repeated, (low - first) // period, 0)
    count = np.where(is_repeated, (window_end - 1 - first) // period - first_repeat, 0) + 1
    new_runs = np.maximum(count - 2, 0)
    if float(new_runs.sum(dtype=np.float64)) > limit:
        raise CoverageLimitError(f"more than {MAX_RUNS} runs of entries would have to be compared one by one")
    row = np.repeat(np.arange(len(count)), count)
    repeat_number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    start = first[row] + (first_repeat[row] + repeat_number) * period[row]
    end = np.minimum(start + size[row], window_end[row])
    start = np.maximum(start, low[row])
    is_nonempty = start < end
    return start[is_nonempty], end[is_nonempty], int(new_runs.sum())


def runs_of_steps(steps: SumSteps, is_kept: NDArray[np.bool_]) -> tuple[Longs, Longs, Longs]:
    """Return the start, end and interval of each run of adjacent steps for which ``is_kept`` is True.

    >>> steps = sweep([GroupBatch.from_tuples([[(0, 9, 1, 3)]])], [1])
    >>> [part.tolist() for part in runs_of_steps(steps, steps.total == 0)]
    [[1], [3], [0]]
    """
    step_numbers = np.flatnonzero(is_kept)
    start, end, interval = steps.start[step_numbers], steps.end[step_numbers], steps.interval[step_numbers]
    is_start = np.ones(len(step_numbers), np.bool_)
    is_start[1:] = (start[1:] != end[:-1]) | (interval[1:] != interval[:-1])
    is_end = np.ones(len(step_numbers), np.bool_)
    is_end[:-1] = is_start[1:]
    return start[is_start], end[is_end], interval[is_start]


_GroupColumns = tuple[Longs, Longs, Longs, Longs]


def unroll(steps: SumSteps, is_selected: NDArray[np.bool_]) -> GroupBatch:
    """Return the entries of the selected steps, in all repetitions of their windows, as a folded set.

    Raises `CoverageLimitError` if more than `MAX_RUNS` runs would have to be written out.

    >>> steps = sweep([GroupBatch.from_tuples([[(0, 3 * 10**12, 1, 3)]])], [1])
    >>> unroll(steps, steps.total == 0).groups().tolist()
    [(1, 2999999999998, 2, 3)]
    """
    start, end, interval = runs_of_steps(steps, is_selected)
    low, high, window = steps.low[interval], steps.high[interval], steps.window[interval]
    fills_window = (start == low) & (end == low + window)
    # A run as long as its window touches its own repetition: all of the interval is one run.
    end = np.where(fills_window, high, end)
    occurs_once = fills_window | (low + window == high)
    parts = [_single_run_groups(start[occurs_once], end[occurs_once])]
    start, end, interval = start[~occurs_once], end[~occurs_once], interval[~occurs_once]

    # A run that ends with the window goes on where the next repetition begins with one.
    head_rows = np.flatnonzero(np.append(True, interval[1:] != interval[:-1])[: len(interval)])
    tail_rows = np.append(head_rows[1:], len(interval))[: len(head_rows)] - 1
    head_interval = interval[head_rows]
    is_wrapping = (
        (tail_rows > head_rows)
        & (start[head_rows] == steps.low[head_interval])
        & (end[tail_rows] == (steps.low + steps.window)[head_interval])
    )
    merged_heads, merged_tails = head_rows[is_wrapping], tail_rows[is_wrapping]
    parts.append(_single_run_groups(start[merged_heads], end[merged_heads]))
    end[merged_tails] += end[merged_heads] - start[merged_heads]
    is_kept = np.ones(len(start), np.bool_)
    is_kept[merged_heads] = False
    start, end, interval = start[is_kept], end[is_kept], interval[is_kept]

    # Runs of one size that divide the window evenly are one group of BP-34; all others are written out.
    run_counts = np.bincount(interval, minlength=len(steps.low))
    period = steps.window // np.maximum(run_counts, 1)
    fits_one_group = (period * run_counts == steps.window) & (period <= MAX_RUN_ENTRIES)
    is_same_interval = interval[1:] == interval[:-1]
    is_different = (end - start)[1:] != (end - start)[:-1]
    is_different |= start[1:] - start[:-1] != period[interval[1:]]
    fits_one_group[interval[1:][is_same_interval & is_different]] = False
    is_one_group = fits_one_group[interval]
    is_first = is_one_group & np.append(True, ~is_same_interval)[: len(start)]
    owner = interval[is_first]
    parts.append(_repeat_runs(start[is_first], end[is_first], period[owner], steps.high[owner]))
    is_irregular = ~is_one_group
    owner = interval[is_irregular]
    parts.append(_tile_runs(start[is_irregular], end[is_irregular], steps.window[owner], steps.high[owner]))

    first, last, size, periods = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(first, kind="stable")
    return fold(GroupBatch(first[order], last[order], size[order], periods[order], np.array([0, len(first)])))


def _single_run_groups(start: Longs, end: Longs) -> _GroupColumns:
    return start, start, end - start, np.zeros_like(start)


def _repeat_runs(start: Longs, end: Longs, period: Longs, high: Longs) -> _GroupColumns:
    """Repeat one run per interval up to the interval's end. Cut the last repetition if it does not fit."""
    size = end - start
    run_counts = np.maximum((high - size - start) // period + 1, 0)
    last = start + (run_counts - 1) * period
    has_runs = run_counts > 0
    # A group of one run has no period: that is how the proposal writes it.
    periods = np.where(run_counts > 1, period, 0)
    whole_runs = start[has_runs], last[has_runs], size[has_runs], periods[has_runs]
    is_cut = high - last > period
    cut_runs = _single_run_groups((last + period)[is_cut], high[is_cut])
    first, last, size, period = (np.concatenate(column) for column in zip(whole_runs, cut_runs, strict=True))
    return first, last, size, period


def _tile_runs(start: Longs, end: Longs, window: Longs, high: Longs) -> _GroupColumns:
    """Repeat each run, ``start`` to ``end``, every ``window`` entries until its interval's end ``high``."""
    repeat_counts = (high - 1 - start) // window + 1
    if float(repeat_counts.sum(dtype=np.float64)) > MAX_RUNS:
        raise CoverageLimitError(f"more than {MAX_RUNS} runs of entries cannot be written as groups")
    row = np.repeat(np.arange(len(repeat_counts)), repeat_counts)
    repeat_number = np.arange(len(row)) - np.repeat(np.cumsum(repeat_counts) - repeat_counts, repeat_counts)
    id_shift = repeat_number * window[row]
    return _single_run_groups(start[row] + id_shift, np.minimum(end[row] + id_shift, high[row]))


_HIGH_HALF_SHIFT = 32


def difference(groups: Groups, excluded_groups: Groups) -> Groups:
    """Return the entries of ``groups`` that are not in ``excluded_groups``.

    >>> difference(np.array([(0, 9, 2, 3)], GROUP), np.array([(3, 3, 4, 0)], GROUP)).tolist()
    [(0, 0, 2, 0), (7, 7, 1, 0), (9, 9, 2, 0)]
    """
    if not len(groups) or not len(excluded_groups):
        return groups  # 1 us, not 400: of a bookie that is down, each replica lacks all that it should hold
    steps = sweep([GroupBatch.from_groups(groups), GroupBatch.from_groups(excluded_groups)], [1, 2])
    return unroll(steps, steps.total == 1).groups()


def intersection(groups: Groups, other_groups: Groups) -> Groups:
    """Return the entries that are in both sets.

    >>> intersection(np.array([(0, 9, 2, 3)], GROUP), np.array([(3, 3, 4, 0)], GROUP)).tolist()
    [(3, 3, 2, 0), (6, 6, 1, 0)]
    """
    return at_least([groups, other_groups], 2)


def union(sets: Sequence[Groups]) -> Groups:
    """Return the entries that are in any of the sets.

    >>> union([np.array([(0, 9, 2, 3)], GROUP), np.array([(2, 8, 1, 3)], GROUP)]).tolist()
    [(0, 0, 11, 0)]
    """
    return at_least(sets, 1)


def at_least(sets: Sequence[Groups], min_sets: int) -> Groups:
    """Return the entries that are in at least ``min_sets`` of the sets. ``min_sets`` must be 1 or more.

    >>> at_least([np.array([(first, first, 3, 0)], GROUP) for first in range(3)], 3).tolist()
    [(2, 2, 1, 0)]
    """
    steps = sweep([GroupBatch.from_groups(groups) for groups in sets], [1] * len(sets))
    return unroll(steps, steps.total >= min_sets).groups()


def clip(groups: Groups, first: int, last: int) -> Groups:
    """Return the entries of the set from ``first`` to ``last``, both inclusive.

    >>> clip(np.array([(0, 9, 2, 3)], GROUP), 4, 9).tolist()
    [(4, 4, 1, 0), (6, 6, 2, 0), (9, 9, 1, 0)]
    """
    range_group = [(first, first, last - first + 1, 0)] if first <= last else []
    steps = sweep([GroupBatch.from_groups(groups), GroupBatch.from_tuples([range_group])], [1, 1])
    return unroll(steps, steps.total == 2).groups()


def worst_copy_counts(missing: Sequence[Groups], unknown: Sequence[Groups]) -> tuple[int, int]:
    """Return two maxima over all entries: the number of missing copies, and of missing or unknown copies.

    Each set in ``missing`` contains the entries that one bookie lacks. Each set in ``unknown`` contains the
    entries that one unread bookie may lack. The two maxima may belong to different entries.

    >>> a, b, c = (np.array([(first, first + 9, 1, 3)], GROUP) for first in (0, 3, 1))
    >>> worst_copy_counts([a, b], [c])
    (2, 2)
    """
    sets = [GroupBatch.from_groups(groups) for groups in (*missing, *unknown)]
    if len(sets) == 1:
        copies = min(len(sets[0].first), 1)
        return copies * len(missing), copies
    # One sweep for both sums: missing copies count in both halves, unknown ones in the high half.
    weights = [1 + (1 << _HIGH_HALF_SHIFT)] * len(missing) + [1 << _HIGH_HALF_SHIFT] * len(unknown)
    sums = sweep(sets, weights).total
    low_half = sums & ((1 << _HIGH_HALF_SHIFT) - 1)
    return int(low_half.max(initial=0)), int((sums >> _HIGH_HALF_SHIFT).max(initial=0))


def count(groups: Groups) -> int:
    """Return the number of entries in the set.

    >>> count(np.array([(0, 9, 2, 3)], GROUP))
    8
    """
    return int(GroupBatch.from_groups(groups).entries().sum())


def count_between(groups: Groups, edges: Sequence[int]) -> list[int]:
    """Count the entries between consecutive edges, from each edge (inclusive) to the next (exclusive).

    >>> count_between(np.array([(0, 9, 2, 3)], GROUP), [0, 4, 10, 2**62])
    [3, 4, 1]
    """
    first, last, size, period = (groups[name].astype(np.int64) for name in GROUP.fields or ())
    run_distance = np.maximum(period, 1)
    run_counts = (last - first) // run_distance + 1
    counts_before = []
    for edge in edges:
        # No run reaches the next, so only the last run before the edge can be cut. np.clip would be slower.
        started_runs = np.minimum(np.maximum((edge - 1 - first) // run_distance + 1, 0), run_counts)
        newest_start = first + (started_runs - 1) * run_distance
        entry_counts = (started_runs - 1) * size + np.minimum(size, edge - newest_start)
        counts_before.append(int(np.where(started_runs > 0, entry_counts, 0).sum()))
    return [end - start for start, end in pairwise(counts_before)]


def last_entry(groups: Groups) -> int:
    """Return the largest entry, or -1 if the set is empty.

    >>> last_entry(np.array([(0, 9, 2, 3)], GROUP))
    10
    """
    return int(groups["last_start"][-1]) + int(groups["size"][-1]) - 1 if len(groups) else -1


def most_shared_entry(sets: Sequence[Groups]) -> int | None:
    """Return the lowest entry that the largest number of sets contains, or None if all sets are empty.

    Raises `CoverageLimitError` as `auditor.codecs.availability.coverage.sweep` does.

    >>> every_third = np.array([(0, 9, 1, 3)], GROUP)
    >>> most_shared_entry([every_third, np.array([(3, 3, 4, 0)], GROUP)]), most_shared_entry([])
    (3, None)
    """
    steps = sweep([GroupBatch.from_groups(groups) for groups in sets], [1] * len(sets))
    if not len(steps.total) or not steps.total.max():
        return None
    return int(steps.start[int(steps.total.argmax())])


def even_sample(groups: Groups, max_entries: int) -> list[int]:
    """Return up to ``max_entries`` evenly spaced entries of a set, including the first and the last.

    >>> even_sample(np.array([(0, 9, 2, 3)], GROUP), 3), even_sample(np.array([(7, 7, 2, 0)], GROUP), 9)
    ([0, 4, 10], [7, 8])
    """
    first, last, size, period = (groups[name].astype(np.int64) for name in GROUP.fields or ())
    period = np.maximum(period, 1)
    entries = ((last - first) // period + 1) * size
    total = int(entries.sum())
    sums = np.cumsum(entries)
    count = min(total, max_entries)
    # Python's numbers: a rank times a count may be beyond 64 bits.
    ranks = np.array([number * (total - 1) // max(count - 1, 1) for number in range(count)], np.int64)
    rows = np.searchsorted(sums, ranks, side="right")
    group_rank = ranks - (sums - entries)[rows]
    sample_entries = first[rows] + group_rank // size[rows] * period[rows] + group_rank % size[rows]
    return [int(entry) for entry in sample_entries]


def contains(groups: Groups, entries: Longs) -> NDArray[np.bool_]:
    """Return, for each entry id, whether it is in the set.

    >>> contains(np.array([(0, 6, 2, 3), (20, 20, 1, 0)], GROUP), np.array([1, 2, 7, 20, 21])).tolist()
    [True, False, True, True, False]
    """
    if not len(groups):
        return np.zeros(len(entries), np.bool_)
    batch = GroupBatch.from_groups(groups)
    rows = np.searchsorted(batch.first, entries, side="right") - 1
    # Groups of a folded set do not reach over each other: the last that begins before an entry decides.
    has_group = rows >= 0
    rows = np.maximum(rows, 0)
    offset = entries - batch.first[rows]
    period = np.maximum(batch.period[rows], 1)
    is_in_run = np.where(batch.last[rows] > batch.first[rows], offset % period, offset) < batch.size[rows]
    return has_group & is_in_run & (entries < batch.last[rows] + batch.size[rows])
