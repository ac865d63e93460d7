"""Joins touching runs into maximal runs, and finds the runs that open a group in the canonical form.

A group can end in the middle of a run if it comes from striping or from a server that does not fold. So
before sets are folded, runs that touch become one run. Runs longer than 2^31 - 1 are cut into pieces of that
size and a remainder. The cost depends on the number of groups, not on the number of runs: only the first and
last run of a group can touch another group.

`opening_run_numbers` finds the runs that open a group in a long array of entry ids. Folding needs no other
result. A run of consecutive ids *continues* under two conditions. (1) Its size equals that of the previous
run. (2) Its distance from the previous run equals the previous run's distance from the run before. A run that
continues never opens a group. Every other run opens a group, with one exception: directly after a run that
opened a group, the next run may join this group as its second run. The next run that does not continue then
opens a group again. In some chains of runs, each run could join the run before it as the second run of a
group. In such a chain, every second run opens a group.

The search goes block by block. So the data stays in the processor's cache, and memory is needed for groups,
not for ids. A block that only continues the pattern of the block before it is skipped. There are two cases.
(1) The block is the middle of a single run. Ids ascend and are unique, so a comparison of the block's two
ends proves this. (2) The block repeats a run. A comparison of every id with the id one run earlier proves
this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch, Longs, offsets_of
from auditor.errors import CoverageLimitError

MAX_RUN_ENTRIES = 2**31 - 1
"""Largest value of an int32 field of a group: a run's size, a period."""

MAX_CUT_RUNS = 2**22
"""Largest number of pieces that the long runs of one batch are cut into: 100 MB of groups, 2^53 entries."""


def join_runs(batch: GroupBatch) -> GroupBatch:
    """Return the same sets, with touching runs joined and long runs cut.

    >>> join_runs(GroupBatch.from_tuples([[(0, 0, 2, 0), (2, 6, 1, 2)]])).size.tolist()
    [3, 1]
    """
    batch = _merge_touching_runs(batch)
    touches_previous = _touches_previous(batch)
    if touches_previous.any():
        batch = _join_chains(_split_groups(batch, touches_previous))
    return _cut_long_runs(batch) if (batch.size > MAX_RUN_ENTRIES).any() else batch


def first_group_rows(offsets: Longs) -> Longs:
    """Return the index of the first group of each nonempty set.

    >>> first_group_rows(np.array([0, 2, 2, 3])).tolist()
    [0, 2]
    """
    return offsets[:-1][offsets[:-1] < offsets[1:]]


def _merge_touching_runs(batch: GroupBatch) -> GroupBatch:
    """Replace each group whose runs touch each other with one run."""
    has_touching_runs = (batch.last > batch.first) & (batch.period == batch.size)
    if not has_touching_runs.any():
        return batch
    run_length = batch.last - batch.first + batch.size
    return GroupBatch(
        batch.first,
        np.where(has_touching_runs, batch.first, batch.last),
        np.where(has_touching_runs, run_length, batch.size),
        np.where(has_touching_runs, 0, batch.period),
        batch.offsets,
    )


def _touches_previous(batch: GroupBatch) -> NDArray[np.bool_]:
    """Return, for each group, whether it begins where the previous group of the same set ends."""
    touches_previous = np.zeros(len(batch.first), np.bool_)
    touches_previous[1:] = batch.first[1:] == batch.last[:-1] + batch.size[:-1]
    # What lies before the first group of a set is another set's.
    touches_previous[first_group_rows(batch.offsets)] = False
    return touches_previous


def _split_groups(batch: GroupBatch, touches_previous: NDArray[np.bool_]) -> GroupBatch:
    """In groups of several runs, split off each first or last run that touches another group.

    The result has at most three parts for each group: a head, a body and a tail.
    """
    has_several_runs = batch.last > batch.first
    has_head = has_several_runs & touches_previous
    has_tail = has_several_runs & np.append(touches_previous[1:], False)
    # A group of two runs that both touch something is all head and tail.
    has_no_middle_run = has_head & has_tail & (batch.last - batch.first == batch.period)
    part_counts = 1 + has_head + has_tail - has_no_middle_run
    source_rows, part_numbers, offsets = _repeat_rows(part_counts, batch.offsets)
    first, last, size, period = (
        column[source_rows] for column in (batch.first, batch.last, batch.size, batch.period)
    )
    # Few touch, most often: what is done to their parts is done to these alone.
    part_rows = np.flatnonzero((has_head | has_tail)[source_rows])
    source_rows, part_numbers = source_rows[part_rows], part_numbers[part_rows]
    is_head = has_head[source_rows] & (part_numbers == 0)
    is_tail = has_tail[source_rows] & (part_numbers == part_counts[source_rows] - 1)
    first[part_rows] += np.where(
        is_tail,
        last[part_rows] - first[part_rows],
        np.where(has_head[source_rows] & ~is_head, period[part_rows], 0),
    )
    last[part_rows] = np.where(
        is_head,
        batch.first[source_rows],
        last[part_rows] - np.where(has_tail[source_rows] & ~is_tail, period[part_rows], 0),
    )
    period[part_rows] = np.where(last[part_rows] > first[part_rows], period[part_rows], 0)
    return GroupBatch(first, last, size, period, offsets)


def _join_chains(batch: GroupBatch) -> GroupBatch:
    """Join each chain of touching runs into one run.

    At this point, only groups of one run touch other groups.
    """
    starts_chain = ~_touches_previous(batch)
    chain_first_rows = np.flatnonzero(starts_chain)
    return GroupBatch(
        batch.first[chain_first_rows],
        batch.last[chain_first_rows],
        np.add.reduceat(batch.size, chain_first_rows),
        batch.period[chain_first_rows],
        offsets_of(starts_chain.astype(np.int64))[batch.offsets],
    )


def _cut_long_runs(batch: GroupBatch) -> GroupBatch:
    """Cut each run that is longer than `MAX_RUN_ENTRIES` into pieces of this size and a remainder."""
    part_counts = (batch.size - 1) // MAX_RUN_ENTRIES + 1
    is_long = part_counts > 1
    # Added up as floats: the sum of int64 could wrap around to a small number.
    if float(part_counts[is_long].sum(dtype=np.float64)) > MAX_CUT_RUNS:
        longest_run = int(batch.size.max())
        raise CoverageLimitError(
            f"runs of up to {longest_run} entries need more than {MAX_CUT_RUNS} pieces of {MAX_RUN_ENTRIES}"
        )
    source_rows, part_numbers, offsets = _repeat_rows(part_counts, batch.offsets)
    is_cut = is_long[source_rows]
    first = batch.first[source_rows] + part_numbers * MAX_RUN_ENTRIES
    return GroupBatch(
        first,
        np.where(is_cut, first, batch.last[source_rows]),
        np.minimum(batch.size[source_rows] - part_numbers * MAX_RUN_ENTRIES, MAX_RUN_ENTRIES),
        batch.period[source_rows],
        offsets,
    )


def _repeat_rows(part_counts: Longs, offsets: Longs) -> tuple[Longs, Longs, Longs]:
    """Repeat row i ``part_counts[i]`` times.

    Return the source row and the part number of each new row, and the new offsets.
    """
    ends = np.zeros(len(part_counts) + 1, np.int64)
    np.cumsum(part_counts, out=ends[1:])
    source_rows = np.repeat(np.arange(len(part_counts)), part_counts)
    return source_rows, np.arange(len(source_rows)) - ends[source_rows], ends[offsets]


BLOCK_ENTRIES = 1 << 17
"""Number of ids that are processed together: 1 MiB."""


class OpeningRuns(NamedTuple):
    """The first run of each group.

    ``positions`` are the positions of the runs' first ids in the array of ids. ``size`` are the lengths of
    the runs. ``first`` are their first ids.
    """

    positions: Longs
    size: Longs
    first: Longs


def find_opening_runs(entries: Longs, set_starts: Longs) -> Iterator[OpeningRuns]:
    """Find where groups open in an array of ascending ids. The array must not be empty.

    ``set_starts`` are the positions at which sets begin. The first of these positions is 0.

    >>> opening_runs = find_opening_runs(np.array([1, 2, 4, 5, 7, 8, 10]), np.array([0]))
    >>> [runs.positions.tolist() for runs in opening_runs]
    [[0], [6]]
    """
    run_starts = np.zeros(1, np.int64)  # where the last three runs begin; the very last may not be over
    newest_opener = -1  # where the last group opens that was found
    buffer_length = min(BLOCK_ENTRIES, len(entries))
    distances, run_start_buffer = np.empty(buffer_length, np.int64), np.empty(buffer_length, np.bool_)
    for block_start in range(1, len(entries), BLOCK_ENTRIES):
        block_end = min(block_start + BLOCK_ENTRIES, len(entries))
        next_run_starts = _run_starts_after(entries, set_starts, run_starts, block_end)
        if next_run_starts is not None:
            run_starts = next_run_starts
            continue
        distance = np.subtract(
            entries[block_start:block_end],
            entries[block_start - 1 : block_end - 1],
            out=distances[: block_end - block_start],
        )
        is_run_start = np.not_equal(distance, 1, out=run_start_buffer[: block_end - block_start])
        is_run_start[_set_starts_between(set_starts, block_start, block_end) - block_start] = True
        starts = np.concatenate((run_starts - block_start, np.flatnonzero(is_run_start)))
        starts += block_start
        block_openers = _select_opening_runs(entries, set_starts, starts, len(run_starts) - 1, newest_opener)
        newest_opener = int(block_openers.positions[-1]) if len(block_openers.positions) else newest_opener
        run_starts = starts[-3:]
        yield block_openers
    yield _select_opening_runs(
        entries, set_starts, np.append(run_starts, len(entries)), len(run_starts) - 1, newest_opener
    )


def opening_run_numbers(
    first: Longs, size: Longs, set_starts: Longs, decided_run_count: int = 0, may_join_last: bool = True
) -> Longs:
    """Return the indexes of the runs that open a group.

    ``first`` and ``size`` are the first ids and the lengths of the runs. ``set_starts`` are the indexes of
    the runs at which sets begin. For the first ``decided_run_count`` runs, earlier calls have decided whether
    they open a group, so they are not returned. If ``may_join_last`` is True, the last decided run opened a
    group, and the next run may join this group.

    >>> opening_run_numbers(np.array([0, 3, 6, 10]), np.array([2, 2, 2, 2]), np.array([0])).tolist()
    [0, 3]
    """
    distance = first[1:] - first[:-1]
    # Of each run but the very first: whether it can follow the one before at all, and whether it continues.
    can_be_second_run = size[1:] == size[:-1]
    if len(distance) and int(distance.max()) > MAX_RUN_ENTRIES:
        can_be_second_run &= distance <= MAX_RUN_ENTRIES
    can_be_second_run[set_starts[set_starts > 0] - 1] = False
    continues_pattern = np.zeros_like(can_be_second_run)
    np.equal(distance[1:], distance[:-1], out=continues_pattern[1:])
    continues_pattern &= can_be_second_run
    # A second run comes right behind one that opens a group, so not behind one that continues.
    can_be_second_run[1:] &= ~continues_pattern[:-1]
    can_be_second_run &= ~continues_pattern
    if decided_run_count:
        can_be_second_run[: decided_run_count - 1] = False
        can_be_second_run[decided_run_count - 1 : decided_run_count] &= may_join_last
    opens_group = np.ones(len(first), np.bool_)
    np.logical_not(continues_pattern, out=opens_group[1:])
    opens_group[every_second_number(np.flatnonzero(can_be_second_run)) + 1] = False
    opens_group[:decided_run_count] = False
    return np.flatnonzero(opens_group)


def every_second_number(numbers: Longs) -> Longs:
    """Return the first, third, fifth, ... number of each chain of consecutive numbers.

    >>> every_second_number(np.array([2, 3, 4, 7, 8])).tolist()
    [2, 4, 7]
    """
    is_chained = np.zeros(len(numbers), np.bool_)
    np.equal(numbers[1:] - numbers[:-1], 1, out=is_chained[1:])
    chain_starts = np.maximum.accumulate(np.where(is_chained, 0, numbers))
    alternate_numbers: Longs = numbers[(numbers - chain_starts) & 1 == 0]
    return alternate_numbers


def _select_opening_runs(
    entries: Longs, set_starts: Longs, starts: Longs, decided_run_count: int, newest_opener: int
) -> OpeningRuns:
    """Return the runs that open a group, among the runs that begin at ``starts``.

    The last item of ``starts`` is not a start, but the end of the last run. For the first
    ``decided_run_count`` runs, it is already known whether they open a group. ``newest_opener`` is the
    position at which the last group found so far opens, or -1 if no group was found.
    """
    size, starts = starts[1:] - starts[:-1], starts[:-1]
    first = entries[starts]
    set_rows = np.searchsorted(starts, _set_starts_between(set_starts, int(starts[0]), int(starts[-1]) + 1))
    opener_rows = opening_run_numbers(
        first,
        size,
        set_rows,
        decided_run_count,
        may_join_last=decided_run_count > 0 and newest_opener == int(starts[decided_run_count - 1]),
    )
    return OpeningRuns(starts[opener_rows], size[opener_rows], first[opener_rows])


def _run_starts_after(entries: Longs, set_starts: Longs, run_starts: Longs, block_end: int) -> Longs | None:
    """Return the starts of the last runs before ``block_end``, which is the end of a block of ids.

    The block must only continue or repeat the runs at ``run_starts``. Returns None if it has any other run,
    or if a set begins between these runs and ``block_end``.
    """
    starts, last = run_starts.tolist(), block_end - 1
    last_run_start = starts[-1]
    # Ids ascend: where the last is as far from the first as their places are, none is missing in between.
    if entries[last] - entries[last_run_start] == last - last_run_start:
        return None if len(_set_starts_between(set_starts, last_run_start + 1, block_end)) else run_starts
    if len(starts) < 3 or last_run_start - starts[1] != starts[1] - starts[0]:
        return None
    size, distance = last_run_start - starts[1], int(entries[last_run_start] - entries[starts[1]])
    if distance != entries[starts[1]] - entries[starts[0]] or distance > MAX_RUN_ENTRIES:
        return None
    # The pattern goes on only if the last entry is where it says; that is one comparison, before one of each.
    runs, remainder = divmod(last - last_run_start, size)
    if entries[last] != entries[starts[1] + remainder] + distance * (runs + 1):
        return None
    if len(_set_starts_between(set_starts, starts[0] + 1, block_end)):
        return None
    repeats_run = (
        entries[last_run_start:block_end] - entries[last_run_start - size : block_end - size] == distance
    )
    return run_starts + runs * size if repeats_run.all() else None


def _set_starts_between(set_starts: Longs, block_start: int, block_end: int) -> Longs:
    return set_starts[set_starts.searchsorted(block_start) : set_starts.searchsorted(block_end)]
