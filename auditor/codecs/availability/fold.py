"""The canonical form of a set of entries: the greedy fold of BP-34, for many sets at once.

A set is first taken apart into its maximal runs of consecutive entries. A run joins the group before it when
it has that group's size and either the group has one run so far (their distance becomes the period) or the
distance from the last run is the period. Otherwise it opens a new group. So the proposal's examples come out
as one group and as four, and equal sets have equal bytes, however they were put together.

A group's numbers are int32: a run longer than 2^31 - 1 is cut into pieces of that size and a rest (the only
groups that touch), and a distance that is larger, or not above the size, never joins.

The server's own class (``AvailabilityOfEntriesOfLedger``, seen in 4.17.2) means to do the same and never
does: it writes one group a run.

`auditor.codecs.availability.maximal` says how it is done without a loop over runs.

`IncrementalFold` keeps one set folded that comes in pieces, ascending, so that memory follows its groups. Of
what was gathered only the last two groups can change with what comes: the last one, and, where that is a
single run that the next piece makes longer, the one before it, which the longer run may join. A piece is
folded already; it is folded again from its start until both ways come to the same group, most often at once.

`repeating_groups` takes slots apart where they repeat, so that no run of a striped ledger is looked at alone:
a bookie holds a run of every period. One comparison of the slots with themselves, a
period later, shows where that breaks off; between two breaks all follows from the first period. What is found
this way are groups already, though not yet folded: runs beside a break stand alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GROUP, GroupBatch, Longs
from auditor.codecs.availability.maximal import (
    LONGEST,
    every_other,
    maximal,
    openers,
    opening_runs,
    set_heads,
)
from auditor.errors import CoverageLimitError

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
    # Within a group only its first two runs can fail to continue: two columns, one row per group.
    # What lies between the last run of the group before and the first of this one: the period that both would
    # have.
    distance = np.zeros_like(first)
    np.subtract(first[1:], last[:-1], out=distance[1:])
    # Whether a run can follow the one before at all: of one size, in one set, at a distance that is no
    # overlap and that an int32 holds. The second run of a group always can.
    joins = np.ones((len(first), 2), np.bool_)
    joins[0, 0] = False
    joins[1:, 0] = (size[1:] == size[:-1]) & (distance[1:] > size[1:]) & (distance[1:] <= LONGEST)
    joins[set_heads(batch.offsets), 0] = False
    # A first run opens a group where it breaks the period so far, a second one where the period is another
    # than the distance that led to the first.
    opens = np.empty_like(joins)
    opens[0, 0] = True
    before = np.where(several, period, distance)
    opens[1:, 0] = ~joins[1:, 0] | (distance[1:] != before[:-1])
    opens[:, 1] = several & (distance != period)
    # Flat places of the two columns: the row is `at >> 1`, and `at & 1` says that it is the group's second
    # run.
    at = np.flatnonzero(opens)
    runs = np.where(several, (last - first) // np.maximum(period, 1), 0) + 1
    ends = np.cumsum(runs)
    # Runs numbered over the whole batch, as if groups were unrolled, which they never are.
    number = (ends - runs)[at >> 1] + (at & 1)
    # An opener right behind another becomes the second run of its group, if it can follow; every other one of
    # a row of such, for a group has one second run.
    second = joins.ravel()[at]
    second[1:] &= number[1:] - number[:-1] == 1
    begins = np.ones(len(at), np.bool_)
    begins[every_other(np.flatnonzero(second))] = False
    starts = np.flatnonzero(begins)
    at, number = at[starts], number[starts]
    row, second = at >> 1, (at & 1).astype(np.bool_)
    # A group ends with the run before the next group's first.
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
    if not len(entries):
        return fold_runs(entries, entries, offsets)
    at, size, first = map(np.concatenate, zip(*openers(entries, set_heads(offsets)), strict=True))
    batch = _groups(at, size, first, entries, offsets, by_run=False)
    return batch if int(batch.size.max()) <= LONGEST else fold(batch)


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
    bounds = bounds - low
    heads = set_heads(bounds)
    cut = heads[held[heads] & held[heads + 1]]
    groups = None if len(cut) else repeating_groups(held, heads)
    if groups is not None:
        batch = fold(GroupBatch(*groups, np.searchsorted(groups[0], bounds)))
    else:
        edges = np.flatnonzero(held[1:] != held[:-1])
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
    at = opening_runs(start, size, set_heads(offsets))
    return _groups(at, size[at], start[at], start, offsets, by_run=True)


def _groups(at: Longs, size: Longs, first: Longs, starts: Longs, offsets: Longs, by_run: bool) -> GroupBatch:
    """The groups that open at places ``at`` of ``starts``, which are runs if ``by_run``, else ids.

    From a run to the next it is one place ``by_run``, else as many as the run has ids.
    """
    step = np.ones_like(size) if by_run else size
    # Groups of more than one run: more places lie up to the next opener than the first run takes.
    ends = np.append(at[1:], len(starts))
    several = np.flatnonzero(ends - at > step)
    step = step[several]
    last, period = first.copy(), np.zeros_like(first)
    last[several] = starts[ends[several] - step]
    period[several] = starts[at[several] + step] - first[several]
    return GroupBatch(first, last, size, period, np.searchsorted(at, offsets).astype(np.int64, copy=False))


def _assemble(first: Longs, last: Longs, size: Longs, runs: Longs, offsets: NDArray[np.intp]) -> GroupBatch:
    """Groups from where they begin and end; with one run the period comes out as 0."""
    period = (last - first) // np.maximum(runs - 1, 1)
    return GroupBatch(first, last, size, period, offsets.astype(np.int64, copy=False))


def distinct(ledger_ids: Longs, entry_ids: Longs) -> tuple[Longs, Longs]:
    """Every pair once, by ledger and then entry.

    >>> distinct(np.array([7, 5, 7]), np.array([2, 9, 2]))[0].tolist()
    [5, 7]
    """
    order = np.lexsort((entry_ids, ledger_ids))
    ledgers, entries = ledger_ids[order], entry_ids[order]
    new = np.ones(len(ledgers), bool)
    new[1:] = (ledgers[1:] != ledgers[:-1]) | (entries[1:] != entries[:-1])
    return ledgers[new], entries[new]


def ledger_sets(ledger_ids: Longs, entry_ids: Longs) -> tuple[Longs, GroupBatch]:
    """The ledgers, ascending, and the entries of each in the canonical form.

    >>> ids, sets = ledger_sets(np.array([7, 5, 7]), np.array([1, 0, 0]))
    >>> ids.tolist(), sets.size.tolist()
    ([5, 7], [1, 2])
    """
    ledgers, entries = distinct(ledger_ids, entry_ids)
    ids, starts = np.unique(ledgers, return_index=True)
    return ids, fold_entries(entries, np.append(starts, len(entries)).astype(np.int64))


MAX_GROUPS = 8 << 20
"""Groups of one set, 192 MiB of them: an index so irregular is not kept."""

SEAM = 16
"""Groups of a piece that are folded again at first; eight times as many whenever that was not enough."""

Columns = tuple[Longs, Longs, Longs, Longs]
"""First start, last start, size and period of some groups."""


class IncrementalFold:
    """The groups of one set so far; a run that goes on from piece to piece is joined.

    >>> gathered = IncrementalFold()
    >>> for piece in ([(0, 0, 2, 0)], [(2, 2, 3, 0)]):
    ...     gathered.add(GroupBatch.of([piece]))
    >>> gathered.result().size.tolist()
    [5]
    """

    def __init__(self) -> None:
        self._settled: list[Columns] = []
        self._open = _columns(GroupBatch.of([[]]))
        self._count = 0

    def add(self, piece: GroupBatch) -> None:
        """Add a folded set that comes after all that was added before. Raises `CoverageLimitError`."""
        groups = _columns(piece)
        if len(self._open[0]) and len(piece.first):
            groups = _join(self._open, groups)
        elif not len(piece.first):
            return
        cut = max(len(groups[0]) - 2, 0)
        if cut:
            self._settled.append(_part(groups, 0, cut))
        self._open = _part(groups, cut, len(groups[0]))
        self._count += cut
        if self._count + len(self._open[0]) > MAX_GROUPS:
            raise CoverageLimitError(f"more than {MAX_GROUPS} groups of entries")

    def result(self) -> GroupBatch:
        """All of it as one set."""
        first, last, size, period = map(np.concatenate, zip(*self._settled, self._open, strict=True))
        return GroupBatch(first, last, size, period, np.array([0, len(first)], np.int64))


def _join(before: Columns, piece: Columns) -> Columns:
    """Fold the groups before a folded piece and the piece into one."""
    count, seam = len(piece[0]), SEAM
    while True:
        seam = min(seam, count)
        first, last, size, period = _both(before, _part(piece, 0, seam))
        head = _columns(fold(GroupBatch(first, last, size, period, np.array([0, len(first)], np.int64))))
        # What joins a group depends on nothing but the group: after the same one all goes on alike.
        if seam == count or all(own[-1] == alone[seam - 1] for own, alone in zip(head, piece, strict=True)):
            return _both(head, _part(piece, seam, count))
        seam *= 8


def _both(one: Columns, other: Columns) -> Columns:
    first, last, size, period = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    return first, last, size, period


def _part(columns: Columns, start: int, stop: int) -> Columns:
    first, last, size, period = columns
    return first[start:stop], last[start:stop], size[start:stop], period[start:stop]


def _columns(batch: GroupBatch) -> Columns:
    return batch.first, batch.last, batch.size, batch.period
