"""What indexes hold today: copies of windows that a read bookie lacks, and those of which nothing is known.

The table judged has a row for each ledger with an unequal replica. Most such replicas lack all that they
should have, which is a whole column of a window; of one that lacks a part, the windows are cut into pieces of
entries that the same bookies lack. An index that was read in part leaves all of its copies of that ledger
unknown. A copy that is missing with a doubt is unknown: it may be there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GroupBatch
from auditor.model.columns import LEDGER
from auditor.model.states import BookieRead, UnknownCopy
from auditor.runs.directory import RunDirectory
from auditor.simulate.windows import (
    MISSING,
    UNKNOWN,
    BookieNumbers,
    Bools,
    Ints,
    Longs,
    SegmentColumns,
    Windows,
)
from auditor.tables.judge_replicas import Groups, groups_of


class CopiesToday:
    """Copies that are not surely there, of all ledgers of a run: some 50 bytes each that is an exception.

    ``seen`` are the bookies of which some index or an answer was read: all copies of others are unknown.
    """

    def __init__(self, run: RunDirectory, numbers: BookieNumbers) -> None:
        self.seen = _seen(run)
        self._numbers = numbers
        parts = list(self._exceptions(run))
        ids, bookies, states, counts, groups = zip(*parts, strict=True) if parts else ([],) * 5
        self._ids = np.concatenate([np.zeros((0, 2), np.int64), *ids])
        self._bookies = np.concatenate([np.zeros(0, np.int32), *bookies])
        self._states = np.concatenate([np.zeros(0, np.int8), *states])
        self._counts = np.concatenate([np.zeros(0, np.int64), *counts])
        self._groups = _joined(groups)
        self._of_scope: dict[int, tuple[Longs, Longs]] = {}
        for scope in np.unique(self._ids[:, 0]).tolist():
            rows = np.flatnonzero(self._ids[:, 0] == scope)
            order = rows[np.argsort(self._ids[rows, 1], kind="stable")]
            self._of_scope[scope] = (self._ids[order, 1], order)

    def of(self, windows: Windows) -> Windows:
        """The same windows with what is known of their copies; some are cut into pieces."""
        blank = np.array([*(name not in self.seen for name in self._numbers.names), False])
        copies = np.where(blank[windows.bookies], np.int8(UNKNOWN), windows.copies)
        ledger, pair = self._pairs(windows)
        row, pair = _each_window(windows, ledger, pair)
        hit = windows.bookies[row] == self._bookies[pair, None]
        row, pair, hit = row[hit.any(axis=1)], pair[hit.any(axis=1)], hit[hit.any(axis=1)]
        held = np.zeros(len(self._bookies), np.int64)
        np.add.at(held, pair, windows.entries[row])
        whole = (held == self._counts)[pair] | (self._counts < 0)[pair]
        whole &= ~windows.open_end[row]
        at, seat = np.nonzero(hit & whole[:, None])
        copies[row[at], seat] = np.maximum(copies[row[at], seat], self._states[pair[at]])
        windows = replace(windows, copies=copies)
        part = ~whole & ~windows.open_end[row]
        return self._in_pieces(windows, row[part], pair[part], hit[part]) if part.any() else windows

    def in_doubt(self, segments: SegmentColumns) -> Bools:
        """Which ledgers have a copy, open ends left out, that is not surely there."""
        blank = np.array([name not in self.seen for name in self._numbers.names], bool)
        found = segments.any_of_members(blank[segments.members])
        for scope, (ids, _) in self._of_scope.items():
            place = np.minimum(np.searchsorted(ids, segments.ids[:, 1]), len(ids) - 1)
            found |= (segments.ids[:, 0] == scope) & (ids[place] == segments.ids[:, 1])
        return found

    def _pairs(self, windows: Windows) -> tuple[Longs, Longs]:
        """Ledgers of the windows that have exceptions, and which: both one element an exception."""
        if windows.ids is None:
            raise ValueError("copies are asked of ledgers with ids")
        ledgers, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for scope, (ids, order) in self._of_scope.items():
            mine = np.flatnonzero(windows.ids[:, 0] == scope)
            low, high = (np.searchsorted(ids, windows.ids[mine, 1], side) for side in ("left", "right"))
            ledgers.append(np.repeat(mine, high - low))
            found.append(order[_ranges(low, high)])
        return np.concatenate(ledgers), np.concatenate(found)

    def _in_pieces(self, windows: Windows, row: Longs, pair: Longs, hit: Bools) -> Windows:
        """Windows some copies of which lack a part: one row for each set of entries that lack the same."""
        lacking: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
        for window, which, seats in zip(row.tolist(), pair.tolist(), hit, strict=True):
            for seat in np.flatnonzero(seats).tolist():
                lacking[window].append((seat, int(self._states[which]), self._groups[which].as_py()))
        rows, entries, states = [], [], []
        bounds = windows.bounds
        assert bounds is not None
        for window, sets in lacking.items():
            first, last, size = map(int, bounds[window])
            cut = _pieces(first, last, int(windows.residue[window]), size, tuple(each[2] for each in sets))
            for lacks, count in cut:
                rows.append(window)
                entries.append(count)
                known = windows.copies[window].copy()
                for (seat, state, _), here in zip(sets, lacks, strict=True):
                    known[seat] = max(known[seat], state) if here else known[seat]
                states.append(known)
        pieces = replace(
            windows.take(np.array(rows, np.intp)),
            entries=np.array(entries, np.int64),
            copies=np.array(states, np.int8),
        )
        others = np.ones(len(windows), bool)
        others[list(lacking)] = False
        kept = windows.take(others)
        both = replace(
            kept, **{name: np.concatenate([getattr(kept, name), getattr(pieces, name)]) for name in _COLUMNS}
        )
        return both.take(np.argsort(both.ledger, kind="stable"))

    def _exceptions(
        self, run: RunDirectory
    ) -> Iterator[tuple[Longs, Ints, NDArray[np.int8], Longs, pa.Array]]:
        """Ids, bookies, states, counts (below 0: all of its copies) and groups, of batches of judged."""
        import pyarrow.compute as pc

        for batch in run.batches("tables/judged", [*LEDGER, "missing", "unknown", "doubts"]):
            ids = np.stack([batch[name].to_numpy() for name in LEDGER], axis=1)
            doubted = pc.greater(pc.list_value_length(batch["doubts"]), 0).fill_null(False)
            for name, state in (("missing", MISSING), ("unknown", UNKNOWN)):
                parent = pc.list_parent_indices(batch[name]).to_numpy()
                its = batch[name].flatten()
                numbers = self._numbers.of(its.field("bookie_id"))
                states = np.full(len(its), state, np.int8)
                kept = np.ones(len(its), bool)
                if state == MISSING:
                    states[doubted.to_numpy(zero_copy_only=False)[parent]] = UNKNOWN
                    groups, counts = its.field("groups"), its.field("count").to_numpy()
                else:
                    groups, counts = pa.nulls(len(its), pa.binary()), np.full(len(its), -1)
                    # Said once, of the bookie.
                    said = pc.is_in(its.field("bookie_id"), pa.array(sorted(self.seen), pa.string()))
                    told = pc.and_(pc.invert(said), pc.equal(its.field("why"), UnknownCopy.UNREAD.value))
                    kept = ~told.to_numpy(zero_copy_only=False)
                yield (
                    ids[parent][kept], numbers[kept], states[kept], counts[kept],
                    groups.filter(pa.array(kept)),
                )  # fmt: skip


_COLUMNS = (
    "ledger", "bookies", "copies", "write_quorum", "ack_quorum", "entries", "bytes", "open_end", "residue",
    "bounds",
)  # fmt: skip


def _seen(run: RunDirectory) -> frozenset[str]:
    """Bookies of which something was read; one that answered when it was asked has its rows in judged."""
    import pyarrow.compute as pc

    rows = run.read("tables/bookies", ["bookie_id", "read"])
    seen = set(rows.filter(pc.not_equal(rows["read"], BookieRead.UNREAD.value))["bookie_id"].to_pylist())
    if "answers" in run.names("tables"):
        for batch in run.batches("tables/answers", ["bookie_id"]):
            seen |= set(batch["bookie_id"].unique().to_pylist())
    return frozenset(seen)


def _joined(groups: Sequence[pa.Array]) -> pa.ChunkedArray:
    return pa.chunked_array(list(groups), pa.binary()).combine_chunks()


def _ranges(low: Longs, high: Longs) -> Longs:
    """All numbers of some half-open ranges, one range after the other."""
    length = high - low
    found: Longs = np.arange(int(length.sum())) + np.repeat(low - np.cumsum(length) + length, length)
    return found


def _each_window(windows: Windows, ledger: Longs, pair: Longs) -> tuple[Longs, Longs]:
    """Every window of each ledger, with the exception that it may be concerned by."""
    low, high = (np.searchsorted(windows.ledger, ledger, side) for side in ("left", "right"))
    return _ranges(low, high), np.repeat(pair, high - low)


@lru_cache(maxsize=4096)
def _pieces(
    first: int, last: int, residue: int, ensemble: int, lacking: tuple[bytes, ...]
) -> tuple[tuple[tuple[bool, ...], int], ...]:
    """The entries of a window by which of some sets they are in, and how many they are.

    >>> lacks = np.array([(2, 2, 3, 0)], [("f", ">i8"), ("l", ">i8"), ("s", ">i4"), ("p", ">i4")]).tobytes()
    >>> _pieces(0, 9, 0, 3, (lacks,))
    (((True,), 1), ((False,), 3))
    """
    cells: list[tuple[tuple[bool, ...], Groups]] = [((), _entries(first, last, residue, ensemble))]
    for value in lacking:
        lost = groups_of(value)
        split = []
        for lacks, entries in cells:
            split.append(((*lacks, True), coverage.intersection(entries, lost)))
            split.append(((*lacks, False), coverage.difference(entries, lost)))
        cells = [(lacks, entries) for lacks, entries in split if len(entries)]
    return tuple((lacks, coverage.count(entries)) for lacks, entries in cells)


def _entries(first: int, last: int, residue: int, ensemble: int) -> Groups:
    if residue < 0:
        runs = [(first, first, last - first + 1, 0)]
    else:
        start = first + (residue - first) % ensemble
        end = last - (last - residue) % ensemble
        runs = [(start, end, 1, ensemble if end > start else 0)]
    return groups_of(fold(GroupBatch.of([runs])).tobytes())
