"""The entries of a segment that each member of its ensemble should hold, computed without a loop.

    entry e lies on ensemble indexes (e + w) mod E for w = 0 .. Qw - 1     E ensemble size, Qw write quorum

So the bookie at index b holds entry e if (e - o) mod E < Qw, where o = (b - Qw + 1) mod E. The modulus is
taken of the absolute entry id, not of the distance from the segment's start
(``RoundRobinDistributionSchedule``). The entries of one index in a segment form at most three groups: the
rest of a run at the segment's start, full runs, and part of a run at the segment's end.

A bookie has a position in each ensemble that names it. The entries of all its positions in a ledger are
folded into one set. So one comparison is enough for several segments. If members of an ensemble lost a whole
segment, the number of lost copies of entry e depends only on e mod E. The search for the worst entry
therefore looks only at the residues that the segment's entries have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GroupBatch, Longs, offsets_of


def stripe(
    first_entry: NDArray[np.int64],
    last_entry: NDArray[np.int64],
    index: NDArray[np.int64],
    ensemble_size: NDArray[np.int64],
    write_quorum: NDArray[np.int64],
) -> GroupBatch:
    """Return the entries of many (segment, ensemble index) pairs, one set (not yet canonical) per pair.

    The arguments are arrays that are broadcast together. ``first_entry`` and ``last_entry`` are inclusive
    and below 2^63 - 1. A segment with ``last_entry < first_entry`` is empty. The caller ensures that 1 <=
    write quorum <= ensemble size and 0 <= index < ensemble size.

    >>> batch = stripe(np.array([0]), np.array([9]), np.array([1]), np.array([3]), np.array([2]))
    >>> list(zip(batch.first.tolist(), batch.last.tolist(), batch.size.tolist(), batch.period.tolist()))
    [(0, 6, 2, 3), (9, 9, 1, 0)]
    """
    start, end, member, ensemble, quorum = np.broadcast_arrays(
        *(
            np.atleast_1d(np.asarray(input_array, np.int64))
            for input_array in (first_entry, last_entry, index, ensemble_size, write_quorum)
        )
    )
    # Everything is counted from the segment's first entry, so that ids near 2^63 do not overflow.
    last_offset = end - start
    is_unstriped = quorum == ensemble
    first_run_offset = (member - quorum + 1 - start) % ensemble
    # Of the run under way at the segment's first entry; none at 0 or below.
    entries_of_open_run = quorum - ensemble + first_run_offset
    last_full_start = last_offset - first_run_offset - (quorum - 1)
    last_full_index = np.where(last_full_start >= 0, last_full_start // ensemble, -1)
    tail_start = first_run_offset + last_full_index * ensemble
    has_tail = last_offset - tail_start >= ensemble
    tail_start = np.where(has_tail, tail_start + ensemble, 0)
    head_size = np.where(is_unstriped, last_offset + 1, np.minimum(entries_of_open_run, last_offset + 1))

    is_nonempty, is_striped = last_offset >= 0, (last_offset >= 0) & ~is_unstriped
    has_head_run, has_full_runs, has_tail_run = (
        is_nonempty & (is_unstriped | (entries_of_open_run > 0)),
        is_striped & (last_full_index >= 0),
        is_striped & has_tail,
    )
    positions = np.flatnonzero(np.stack((has_head_run, has_full_runs, has_tail_run), axis=1))
    zero_offsets = np.zeros_like(start)
    full_runs_end_offset = first_run_offset + np.maximum(last_full_index, 0) * ensemble
    return GroupBatch(
        _select_runs(positions, start, start + first_run_offset, start + tail_start),
        _select_runs(positions, start, start + full_runs_end_offset, start + tail_start),
        _select_runs(positions, head_size, quorum, last_offset - tail_start + 1),
        _select_runs(positions, zero_offsets, np.where(last_full_index > 0, ensemble, 0), zero_offsets),
        offsets_of(has_head_run.astype(np.int64) + has_full_runs + has_tail_run),
    )


def _select_runs(positions: Longs, head_values: Longs, full_values: Longs, tail_values: Longs) -> Longs:
    """Interleave the three arrays row by row (head, full, tail), and return the items at ``positions``."""
    return np.stack((head_values, full_values, tail_values), axis=1).ravel()[positions]


@dataclass(frozen=True, slots=True)
class EnsemblePositions:
    """Positions of bookies in the ensembles of segments, as arrays of the same length.

    Rows are sorted by ledger, then by segment.
    """

    ledger: Longs  # row of the ledger in its batch
    member: Longs  # number that stands for the bookie
    first: Longs  # first entry of the segment
    last: Longs  # last entry that is judged; below ``first`` if no entry is judged
    index: Longs  # position in the ensemble
    ensemble_size: Longs
    write_quorum: Longs


@dataclass(frozen=True, slots=True)
class ExpectedReplicas:
    """The set of entries that each bookie should hold of each ledger.

    There is one set per (ledger, bookie) pair, in ascending order of ledgers. ``groups`` is in canonical
    form.
    """

    ledger: Longs
    member: Longs
    groups: GroupBatch


def fold_ensemble_positions(ensemble_positions: EnsemblePositions) -> ExpectedReplicas:
    """Return, for each (ledger, bookie) pair, the entries of all its ensemble positions as one canonical set.

    >>> def column(*values): return np.array(values, np.int64)
    >>> positions = EnsemblePositions(column(0, 0, 0), column(7, 8, 9), column(0, 0, 0), column(9, 9, 9),
    ...             column(0, 1, 2), column(3, 3, 3), column(2, 2, 2))
    >>> replicas = fold_ensemble_positions(positions)
    >>> replicas.member.tolist(), replicas.groups.first.tolist()
    ([7, 8, 9], [0, 2, 0, 9, 1])
    """
    entry_sets = stripe(
        ensemble_positions.first,
        ensemble_positions.last,
        ensemble_positions.index,
        ensemble_positions.ensemble_size,
        ensemble_positions.write_quorum,
    )
    if not len(ensemble_positions.ledger):
        return ExpectedReplicas(ensemble_positions.ledger, ensemble_positions.member, entry_sets)
    member_count = int(ensemble_positions.member.max()) + 1
    ledger_member_keys, ledger_member_numbers = np.unique(
        ensemble_positions.ledger * member_count + ensemble_positions.member, return_inverse=True
    )
    groups = fold(entry_sets.merge(ledger_member_numbers.astype(np.int64), len(ledger_member_keys)))
    return ExpectedReplicas(ledger_member_keys // member_count, ledger_member_keys % member_count, groups)


def most_missing_copies(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    ensemble_size: NDArray[np.int64],
    write_quorum: NDArray[np.int64],
    is_missing: NDArray[np.bool_],
    may_be_missing: NDArray[np.bool_],
) -> tuple[Longs, Longs]:
    """Return two maxima over each segment's entries: missing copies, and missing or possibly missing copies.

    ``is_missing`` and ``may_be_missing`` flag the members of the ensemble that lack, or may lack, a whole
    segment. The arguments have one row per segment, which contains the entries ``first`` to ``last``, both
    inclusive. For an empty segment, the result is 0. ``is_missing`` and ``may_be_missing`` have the shape (n,
    widest ensemble) and are indexed by ensemble index. Columns beyond the size of a row's ensemble are
    unused.

    >>> gone = np.array([[True, True, False]])
    >>> one = np.array([1])
    >>> [worst.tolist() for worst in most_missing_copies(0 * one, 9 * one, 3 * one, 2 * one, gone, ~gone)]
    [[2], [2]]
    """
    first, last, ensemble, quorum = (
        np.asarray(column, np.int64)[:, None] for column in (first, last, ensemble_size, write_quorum)
    )
    entry_residue = np.arange(is_missing.shape[1])
    is_present = (entry_residue < ensemble) & ((entry_residue - first) % ensemble <= last - first)
    return (
        _max_copies(is_missing, ensemble, quorum, is_present),
        _max_copies(is_missing | may_be_missing, ensemble, quorum, is_present),
    )


def entries_short_of_copies(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    ensemble_size: NDArray[np.int64],
    write_quorum: NDArray[np.int64],
    is_missing: NDArray[np.bool_],
    min_missing: NDArray[np.int64],
) -> tuple[GroupBatch, NDArray[np.bool_]]:
    """Return, for each segment, the entries with ``min_missing`` or more missing copies, as an unfolded set.

    The arguments are those of `most_missing_copies`. ``min_missing`` must be 1 or more. The first result
    has one set per row. The second result tells for each row whether this set is valid. A set is not valid
    if the residues of its entries, modulo the ensemble size, form several cyclic runs.

    >>> one, gone = np.array([1]), np.array([[True, True, False]])
    >>> sets, exact = entries_short_of_copies(0 * one, 9 * one, 3 * one, 2 * one, gone, 2 * one)
    >>> sets.groups().tolist(), exact.tolist()
    ([(0, 9, 1, 3)], [True])
    """
    ensemble, quorum = (np.asarray(column, np.int64)[:, None] for column in (ensemble_size, write_quorum))
    entry_residue = np.arange(is_missing.shape[1])
    is_short_of_copies = (_count_copies(is_missing, ensemble, quorum) >= min_missing[:, None]) & (
        entry_residue < ensemble
    )
    is_run_start = is_short_of_copies & ~np.take_along_axis(
        is_short_of_copies, (entry_residue - 1) % ensemble, axis=1
    )
    short_run_length = is_short_of_copies.sum(axis=1)
    # One run of residues is what a member of a write quorum of its length would hold.
    last_member = (is_run_start.argmax(axis=1) + short_run_length - 1) % ensemble_size
    end = np.where(short_run_length > 0, last, first - 1)
    entry_sets = stripe(first, end, last_member, ensemble_size, np.maximum(short_run_length, 1))
    return entry_sets, is_run_start.sum(axis=1) <= 1


def _max_copies(
    is_lost: NDArray[np.bool_], ensemble: Longs, quorum: Longs, is_present: NDArray[np.bool_]
) -> Longs:
    max_copies: Longs = np.where(is_present, _count_copies(is_lost, ensemble, quorum), 0).max(
        axis=1, initial=0
    )
    return max_copies


def _count_copies(is_lost: NDArray[np.bool_], ensemble: Longs, quorum: Longs) -> Longs:
    """Count the lost copies in the write set of each residue (entry id modulo ensemble size).

    Rows and columns are those of `most_missing_copies`. Each count is the difference between two running sums
    over the ensemble. The sums cover the ensemble twice, because write sets wrap around.
    """
    row_count, column_count = is_lost.shape
    is_lost_twice = np.take_along_axis(is_lost, np.arange(2 * column_count) % ensemble, axis=1)
    running_sums = np.zeros((row_count, 2 * column_count + 1), np.int64)
    np.cumsum(is_lost_twice, axis=1, out=running_sums[:, 1:])
    lost_copies: Longs = (
        np.take_along_axis(running_sums, np.arange(column_count) + quorum, axis=1)
        - running_sums[:, :column_count]
    )
    return lost_copies
