"""The canonical form of a set of entries, computed for many sets at once with the greedy fold of BP-34.

A set is first split into its maximal runs of consecutive entries. A run joins the group before it under two
conditions. (1) The run has the same size as the runs of the group. (2) If the group already has several
runs, the distance from its last run to this run equals the group's period. If the group has only one run so
far, this distance becomes the period. A run that cannot join opens a new group. By these rules, the
proposal's two examples become one group and four groups. Equal sets have equal bytes, whatever groups they
were made from.

The size and the period of a group are int32. A run longer than 2^31 - 1 is cut into pieces of that size and
a remainder. Groups in canonical form touch only where such a run was cut. Two runs do not join if their
distance is above 2^31 - 1, or is at most their size.

The server's own class (``AvailabilityOfEntriesOfLedger``, seen in 4.17.2) was meant to fold too, but never
does. It writes one group per run.

`auditor.codecs.availability.maximal` explains how sets are folded without a loop over runs.

`IncrementalFold` folds one set that arrives in ascending pieces. It needs memory only for groups. A new piece
can change only the last group. There is one exception. If the last group is a single run and the new piece
extends it, the group before can change too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GROUP, GroupBatch, Longs
from auditor.codecs.availability.maximal import (
    MAX_RUN_ENTRIES,
    every_second_number,
    find_opening_runs,
    first_group_rows,
    join_runs,
    opening_run_numbers,
)
from auditor.errors import CoverageLimitError


def fold(batch: GroupBatch) -> GroupBatch:
    """Fold sets of groups into the canonical form.

    The groups of a set must be sorted, and each must end before the next begins. Groups may touch, and
    their sizes may exceed int32. Pass one set per bookie, with its entries of all segments of a ledger.
    Raises `CoverageLimitError` if runs are so long that their pieces would fill the memory.

    >>> fold(GroupBatch.from_tuples([[(0, 0, 1, 0), (2, 2, 1, 0), (4, 4, 1, 0)]])).last.tolist()
    [4]
    """
    batch = join_runs(batch)
    first, last, size, period = batch.first, batch.last, batch.size, batch.period
    if not len(first):
        return batch
    has_several_runs = last > first
    # Within a group only its first two runs can fail to continue: two columns, one row per group.
    # What lies between the last run of the group before and the first of this one: the period that both would
    # have.
    run_distance = np.zeros_like(first)
    np.subtract(first[1:], last[:-1], out=run_distance[1:])
    # Whether a run can follow the one before at all: of one size, in one set, at a distance that is no
    # overlap and that an int32 holds. The second run of a group always can.
    can_join_group = np.ones((len(first), 2), np.bool_)
    can_join_group[0, 0] = False
    can_join_group[1:, 0] = (
        (size[1:] == size[:-1]) & (run_distance[1:] > size[1:]) & (run_distance[1:] <= MAX_RUN_ENTRIES)
    )
    can_join_group[first_group_rows(batch.offsets), 0] = False
    # A first run opens a group where it breaks the period so far, a second one where the period is another
    # than the distance that led to the first.
    is_opener = np.empty_like(can_join_group)
    is_opener[0, 0] = True
    previous_distance = np.where(has_several_runs, period, run_distance)
    is_opener[1:, 0] = ~can_join_group[1:, 0] | (run_distance[1:] != previous_distance[:-1])
    is_opener[:, 1] = has_several_runs & (run_distance != period)
    # Flat indexes of the two columns: the row is `index >> 1`, and `index & 1` says that it is the group's
    # second run.
    opener_indices = np.flatnonzero(is_opener)
    run_counts = np.where(has_several_runs, (last - first) // np.maximum(period, 1), 0) + 1
    ends = np.cumsum(run_counts)
    # Runs numbered over the whole batch, as if groups were unrolled, which they never are.
    run_numbers = (ends - run_counts)[opener_indices >> 1] + (opener_indices & 1)
    # An opener right behind another becomes the second run of its group, if it can follow; every other one of
    # a row of such, for a group has one second run.
    is_second_run = can_join_group.ravel()[opener_indices]
    is_second_run[1:] &= run_numbers[1:] - run_numbers[:-1] == 1
    opens_group = np.ones(len(opener_indices), np.bool_)
    opens_group[every_second_number(np.flatnonzero(is_second_run))] = False
    opener_rows = np.flatnonzero(opens_group)
    opener_indices, run_numbers = opener_indices[opener_rows], run_numbers[opener_rows]
    group_rows, is_second_run = opener_indices >> 1, (opener_indices & 1).astype(np.bool_)
    # A group ends with the run before the next group's first.
    previous_last = np.where(is_second_run, first[group_rows], last[group_rows - 1])
    first = first[group_rows] + np.where(is_second_run, period[group_rows], 0)
    last = np.append(previous_last[1:], last[-1])
    # Of one run the period comes out as 0.
    period = (last - first) // np.maximum(np.diff(run_numbers, append=ends[-1]) - 1, 1)
    offsets = np.searchsorted(opener_indices, 2 * batch.offsets).astype(np.int64, copy=False)
    return GroupBatch(first, last, size[group_rows], period, offsets)


def fold_runs(start: NDArray[np.int64], size: NDArray[np.int64], offsets: NDArray[np.int64]) -> GroupBatch:
    """Compress each set of ascending runs into BP-34 groups in canonical form (`GroupBatch`).

    Set i consists of the runs ``offsets[i]:offsets[i + 1]``. Runs of a set may be adjacent.

    >>> fold_runs(np.array([1, 4, 7]), np.array([2, 2, 2]), np.array([0, 3])).period.tolist()
    [3]
    """
    start, size = np.asarray(start, np.int64), np.asarray(size, np.int64)
    return fold(GroupBatch(start, start, size, np.zeros_like(start), np.asarray(offsets, np.int64)))


def fold_entries(entries: NDArray[np.int64], offsets: NDArray[np.int64]) -> GroupBatch:
    """Fold sets of ascending entry ids without duplicates.

    Set i consists of the ids ``entries[offsets[i]:offsets[i + 1]]``.

    >>> fold_entries(np.array([1, 2, 4, 5, 7]), np.array([0, 5])).last.tolist()
    [4, 7]
    """
    entries, offsets = np.asarray(entries, np.int64), np.asarray(offsets, np.int64)
    if not len(entries):
        return fold_runs(entries, entries, offsets)
    opener_rows, size, first = map(
        np.concatenate, zip(*find_opening_runs(entries, first_group_rows(offsets)), strict=True)
    )
    batch = _build_groups(opener_rows, size, first, entries, offsets, is_per_run=False)
    return batch if int(batch.size.max()) <= MAX_RUN_ENTRIES else fold(batch)


def fold_slots(index_slots: NDArray[np.int64], ledger_bounds: NDArray[np.int64]) -> GroupBatch:
    """Fold the slots of ledger index files into sets of entries.

    Slot e of a ledger is nonzero if the bookie holds entry e. The slots of ledger i are
    ``index_slots[ledger_bounds[i]:ledger_bounds[i + 1]]``. Byte order does not matter, because the function
    only compares slots with zero.

    >>> fold_slots(np.array([0, 1028, 1061, 0, 1094, 1123]), np.array([0, 6])).last.tolist()
    [4]
    """
    ledger_bounds = np.asarray(ledger_bounds, np.int64)
    first_slot, end_slot = int(ledger_bounds[0]), int(ledger_bounds[-1])
    is_present = np.zeros(end_slot - first_slot + 2, np.bool_)
    np.not_equal(index_slots[first_slot:end_slot], 0, out=is_present[1:-1])
    ledger_bounds = ledger_bounds - first_slot
    set_starts = first_group_rows(ledger_bounds)
    starts_inside_runs = set_starts[is_present[set_starts] & is_present[set_starts + 1]]
    run_edges = np.flatnonzero(is_present[1:] != is_present[:-1])
    if len(starts_inside_runs):
        # A run that goes on over the edge of a ledger ends there, and another starts.
        run_edges = np.sort(
            np.concatenate((run_edges, starts_inside_runs, starts_inside_runs)), kind="stable"
        )
    start, end = np.ascontiguousarray(run_edges[0::2]), run_edges[1::2]
    batch = _fold_maximal_runs(start, end - start, np.searchsorted(start, ledger_bounds))
    first_ledger_slots = np.repeat(ledger_bounds[:-1], np.diff(batch.offsets))
    return GroupBatch(
        batch.first - first_ledger_slots,
        batch.last - first_ledger_slots,
        batch.size,
        batch.period,
        batch.offsets,
    )


def _fold_maximal_runs(start: Longs, size: Longs, offsets: Longs) -> GroupBatch:
    """Fold sets of runs that do not touch each other.

    The result is that of `fold_runs`, but the computation takes fewer passes over the data.
    """
    if not len(start) or int(size.max()) > MAX_RUN_ENTRIES:
        return fold_runs(start, size, offsets)
    opener_rows = opening_run_numbers(start, size, first_group_rows(offsets))
    return _build_groups(opener_rows, size[opener_rows], start[opener_rows], start, offsets, is_per_run=True)


def _build_groups(
    opener_rows: Longs, size: Longs, first: Longs, item_starts: Longs, offsets: Longs, is_per_run: bool
) -> GroupBatch:
    """Return the BP-34 groups that open at ``opener_rows`` in ``item_starts``.

    If ``is_per_run`` is True, ``item_starts`` has one item per run, otherwise one item per entry id. ``size``
    and ``first`` describe the first run of each group. Set i has the items ``offsets[i]:offsets[i + 1]``.
    """
    first_run_length = np.ones_like(size) if is_per_run else size
    # A group has more than one run if more items come before the next opener than the first run has.
    next_openers = np.append(opener_rows[1:], len(item_starts))
    repeating_rows = np.flatnonzero(next_openers - opener_rows > first_run_length)
    first_run_length = first_run_length[repeating_rows]
    last, period = first.copy(), np.zeros_like(first)
    last[repeating_rows] = item_starts[next_openers[repeating_rows] - first_run_length]
    period[repeating_rows] = (
        item_starts[opener_rows[repeating_rows] + first_run_length] - first[repeating_rows]
    )
    return GroupBatch(
        first, last, size, period, np.searchsorted(opener_rows, offsets).astype(np.int64, copy=False)
    )


def distinct_pairs(ledger_ids: Longs, entry_ids: Longs) -> tuple[Longs, Longs]:
    """Return every (ledger, entry) pair once, ordered by ledger, then by entry.

    >>> distinct_pairs(np.array([7, 5, 7]), np.array([2, 9, 2]))[0].tolist()
    [5, 7]
    """
    pair_order = np.lexsort((entry_ids, ledger_ids))
    ledgers, entries = ledger_ids[pair_order], entry_ids[pair_order]
    is_new_pair = np.ones(len(ledgers), bool)
    is_new_pair[1:] = (ledgers[1:] != ledgers[:-1]) | (entries[1:] != entries[:-1])
    return ledgers[is_new_pair], entries[is_new_pair]


def ledger_sets(ledger_ids: Longs, entry_ids: Longs) -> tuple[Longs, GroupBatch]:
    """Return the ledger ids in ascending order, and the set of entries of each ledger in canonical form.

    >>> ids, sets = ledger_sets(np.array([7, 5, 7]), np.array([1, 0, 0]))
    >>> ids.tolist(), sets.size.tolist()
    ([5, 7], [1, 2])
    """
    ledgers, entries = distinct_pairs(ledger_ids, entry_ids)
    ids, ledger_starts = np.unique(ledgers, return_index=True)
    return ids, fold_entries(entries, np.append(ledger_starts, len(entries)).astype(np.int64))


MAX_GROUPS = 8 << 20
"""Largest number of groups of one set: 192 MiB. `IncrementalFold` fails for a more irregular set."""


class IncrementalFold:
    """Incremental fold of one set of entries, which arrives in ascending pieces, into canonical groups.

    A run of consecutive entries that continues in the next piece stays one run.

    >>> gathered = IncrementalFold()
    >>> for piece in ([(0, 0, 2, 0)], [(2, 2, 3, 0)]):
    ...     gathered.add(GroupBatch.from_tuples([piece]))
    >>> gathered.result().size.tolist()
    [5]
    """

    def __init__(self) -> None:
        self._closed_groups: list[bytes] = []
        self._last_groups = b""
        self._group_count = 0

    def add(self, folded_set: GroupBatch) -> None:
        """Add a folded set. All its entries must be greater than those added earlier.

        Raises `CoverageLimitError` if all sets together have more than `MAX_GROUPS` groups.
        """
        groups = folded_set.tobytes()
        if self._last_groups and groups:
            groups = fold(_parse_one_set(self._last_groups + groups)).tobytes()
        elif not groups:
            return
        closed_group_bytes = max(len(groups) - 2 * GROUP.itemsize, 0)
        self._closed_groups.append(groups[:closed_group_bytes])
        self._last_groups = groups[closed_group_bytes:]
        self._group_count += closed_group_bytes // GROUP.itemsize
        if self._group_count + len(self._last_groups) // GROUP.itemsize > MAX_GROUPS:
            raise CoverageLimitError(f"more than {MAX_GROUPS} groups of entries")

    def result(self) -> GroupBatch:
        """Return all entries that were added, as one folded set."""
        return _parse_one_set(b"".join((*self._closed_groups, self._last_groups)))


def _parse_one_set(group_bytes: bytes) -> GroupBatch:
    return GroupBatch.frombytes(group_bytes, np.array([0, len(group_bytes)]))
