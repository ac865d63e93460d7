"""The windows of a finished run's ledgers, batch by batch, with the state of their copies in the indexes.

A window is the entries on one set of bookies (`auditor.simulate.windows`). The table ``judged`` has a row for
each ledger with an unequal replica. Most such replicas lack all their entries, so that whole windows lack a
copy. If a replica lacks only a part, its windows are cut into pieces. All entries of a piece are lacked by
the same bookies. If an index was read in part, all its copies of that ledger are unknown. A missing copy with
a doubt is unknown, because it may exist.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GroupBatch
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LISTED, BookieRead, UnknownCopy
from auditor.runs.directory import RunDirectory
from auditor.simulate.windows import (
    COLUMNS,
    MISSING,
    UNKNOWN,
    BookieNumbers,
    Bools,
    Ints,
    Longs,
    SegmentColumns,
    Windows,
    merged,
    segment_columns,
    windows_of,
    with_bytes,
)
from auditor.simulate.writes import IsolationNumbers
from auditor.tables.judge_replicas import Groups, groups_of


class CopiesToday:
    """The copies that are missing or unknown, for all ledgers of a run. A copy takes some 50 bytes.

    ``seen_bookies`` have an index or an answer that was read. All copies on other bookies are unknown. With
    ``missing_only``, copies that are unknown because of their ledger's index count as held. That keeps the
    number of copies small for a cluster with an unread bookie.
    """

    def __init__(self, run: RunDirectory, numbers: BookieNumbers, missing_only: bool = False) -> None:
        self.seen_bookies = _seen(run)
        self._states_kept = (MISSING,) if missing_only else (MISSING, UNKNOWN)
        self._numbers = numbers
        parts = list(self._exceptions(run))
        ids, bookies, states, counts, groups = zip(*parts, strict=True) if parts else ([],) * 5
        self._ids = np.concatenate([np.zeros((0, 2), np.int64), *ids])
        self._bookies = np.concatenate([np.zeros(0, np.int32), *bookies])
        self._states = np.concatenate([np.zeros(0, np.int8), *states])
        self._counts = np.concatenate([np.zeros(0, np.int64), *counts])
        self._groups = pa.chunked_array(list(groups), pa.binary()).combine_chunks()
        self._of_scope: dict[int, tuple[Longs, Longs]] = {}
        for scope in np.unique(self._ids[:, 0]).tolist():
            rows = np.flatnonzero(self._ids[:, 0] == scope)
            order = rows[np.argsort(self._ids[rows, 1], kind="stable")]
            self._of_scope[scope] = (self._ids[order, 1], order)

    def of(self, windows: Windows) -> Windows:
        """Return the windows with the state of their copies. Some windows are cut into pieces."""
        blank = np.array([*(name not in self.seen_bookies for name in self._numbers.names), False])
        copies = np.where(blank[windows.bookies], np.int8(UNKNOWN), windows.copies)
        ledger, pair = self._pairs(windows)
        low, high = (np.searchsorted(windows.ledger, ledger, side) for side in ("left", "right"))
        row, pair = _ranges(low, high), np.repeat(pair, high - low)
        hit = windows.bookies[row] == self._bookies[pair, None]
        row, pair, hit = row[hit.any(axis=1)], pair[hit.any(axis=1)], hit[hit.any(axis=1)]
        entry_counts = np.zeros(len(self._bookies), np.int64)
        np.add.at(entry_counts, pair, windows.entries[row])
        whole = (entry_counts == self._counts)[pair] | (self._counts < 0)[pair]
        whole &= ~windows.open_end[row]
        hit_rows, seat = np.nonzero(hit & whole[:, None])
        copies[row[hit_rows], seat] = np.maximum(copies[row[hit_rows], seat], self._states[pair[hit_rows]])
        windows = replace(windows, copies=copies)
        part = ~whole & ~windows.open_end[row]
        return self._in_pieces(windows, row[part], pair[part], hit[part]) if part.any() else windows

    def in_doubt(self, segments: SegmentColumns) -> Bools:
        """Return which ledgers have a missing or unknown copy. Open ends are not considered."""
        blank = np.array([name not in self.seen_bookies for name in self._numbers.names], bool)
        has_doubt = segments.any_of_members(blank[segments.members])
        for scope, (ids, _) in self._of_scope.items():
            place = np.minimum(np.searchsorted(ids, segments.ids[:, 1]), len(ids) - 1)
            has_doubt |= (segments.ids[:, 0] == scope) & (ids[place] == segments.ids[:, 1])
        return has_doubt

    def _pairs(self, windows: Windows) -> tuple[Longs, Longs]:
        """Return the missing and unknown copies of the windows' ledgers.

        The two arrays have one element per copy: the number of the ledger, and the number of the copy.
        """
        if windows.ids is None:
            raise ValueError("copies are asked of ledgers with ids")
        ledgers, exceptions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for scope, (ids, order) in self._of_scope.items():
            scope_ledgers = np.flatnonzero(windows.ids[:, 0] == scope)
            low, high = (
                np.searchsorted(ids, windows.ids[scope_ledgers, 1], side) for side in ("left", "right")
            )
            ledgers.append(np.repeat(scope_ledgers, high - low))
            exceptions.append(order[_ranges(low, high)])
        return np.concatenate(ledgers), np.concatenate(exceptions)

    def _in_pieces(self, windows: Windows, row: Longs, pair: Longs, hit: Bools) -> Windows:
        """Return the windows, with those cut of which a copy is partly missing.

        Each piece has the entries that the same bookies lack.
        """
        lacking: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
        for window, which, seats in zip(row.tolist(), pair.tolist(), hit, strict=True):
            for seat in np.flatnonzero(seats).tolist():
                lacking[window].append((seat, int(self._states[which]), self._groups[which].as_py()))
        rows, entries, states = [], [], []
        bounds = windows.bounds
        assert bounds is not None
        for window, sets in lacking.items():
            first, last, size = map(int, bounds[window])
            cut = _pieces(first, last, int(windows.residue[window]), size, tuple(lack[2] for lack in sets))
            for lacks, count in cut:
                rows.append(window)
                entries.append(count)
                copies = windows.copies[window].copy()
                for (seat, state, _), is_lacking in zip(sets, lacks, strict=True):
                    copies[seat] = max(copies[seat], state) if is_lacking else copies[seat]
                states.append(copies)
        pieces = replace(
            windows.take(np.array(rows, np.intp)),
            entries=np.array(entries, np.int64),
            copies=np.array(states, np.int8),
        )
        is_whole = np.ones(len(windows), bool)
        is_whole[list(lacking)] = False
        unchanged = windows.take(is_whole)
        merged_windows = replace(
            unchanged,
            **{name: np.concatenate([getattr(unchanged, name), getattr(pieces, name)]) for name in _COLUMNS},
        )
        return merged_windows.take(np.argsort(merged_windows.ledger, kind="stable"))

    def _exceptions(
        self, run: RunDirectory
    ) -> Iterator[tuple[Longs, Ints, NDArray[np.int8], Longs, pa.Array]]:
        """Yield the missing and unknown copies in ``judged``, by batch.

        They are ids, bookies, states, counts of entries (below 0: all entries) and groups.
        """
        for batch in run.batches("tables/judged", [*LEDGER, "missing", "unknown", "doubts"]):
            ids = np.stack([batch[name].to_numpy() for name in LEDGER], axis=1)
            doubted = pc.greater(pc.list_value_length(batch["doubts"]), 0).fill_null(False)
            for state in self._states_kept:
                name = "missing" if state == MISSING else "unknown"
                parent = pc.list_parent_indices(batch[name]).to_numpy()
                copies = batch[name].flatten()
                numbers = self._numbers.of(copies.field("bookie_id"))
                states = np.full(len(copies), state, np.int8)
                is_exception = np.ones(len(copies), bool)
                if state == MISSING:
                    states[doubted.to_numpy(zero_copy_only=False)[parent]] = UNKNOWN
                    groups, counts = copies.field("groups"), copies.field("count").to_numpy()
                else:
                    groups, counts = pa.nulls(len(copies), pa.binary()), np.full(len(copies), -1)
                    # Said once, of the bookie.
                    is_seen = pc.is_in(
                        copies.field("bookie_id"), pa.array(sorted(self.seen_bookies), pa.string())
                    )
                    is_unread = pc.and_(
                        pc.invert(is_seen), pc.equal(copies.field("why"), UnknownCopy.UNREAD.value)
                    )
                    is_exception = ~is_unread.to_numpy(zero_copy_only=False)
                yield (
                    ids[parent][is_exception], numbers[is_exception], states[is_exception],
                    counts[is_exception], groups.filter(pa.array(is_exception)),
                )  # fmt: skip


_COLUMNS = (
    "ledger", "bookies", "copies", "write_quorum", "ack_quorum", "entries", "bytes", "open_end", "residue",
    "bounds",
)  # fmt: skip


def _seen(run: RunDirectory) -> frozenset[str]:
    """Return bookies with any data that was read, or an answer to a request for a listing."""
    rows = run.read("tables/bookies", ["bookie_id", "read"])
    bookies = set(rows.filter(pc.not_equal(rows["read"], BookieRead.UNREAD.value))["bookie_id"].to_pylist())
    if "answers" in run.names("tables"):
        for batch in run.batches("tables/answers", ["bookie_id"]):
            bookies |= set(batch["bookie_id"].unique().to_pylist())
    return frozenset(bookies)


def _ranges(low: Longs, high: Longs) -> Longs:
    """Return all numbers from ``low`` to before ``high``, range after range."""
    length = high - low
    numbers: Longs = np.arange(int(length.sum())) + np.repeat(low - np.cumsum(length) + length, length)
    return numbers


@lru_cache(maxsize=4096)
def _pieces(
    first: int, last: int, residue: int, ensemble: int, lacking: tuple[bytes, ...]
) -> tuple[tuple[tuple[bool, ...], int], ...]:
    """Cut the entries of a window by the sets in ``lacking``, and count the entries of each piece.

    The flags of a piece say which of the sets contain its entries.

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


AT_ONCE = 1 << 18
"""Number of windows from which on a batch is yielded. Smaller batches are merged first."""


@dataclass
class LedgersRead:
    """Counts of a pass over the ledgers of a run. The windows of ``undecided`` ledgers are unknown.

    ``shapes`` counts ledgers by ensemble size, write quorum, ack quorum, whether open, and isolation number.
    """

    ledgers: int = 0
    undecided: int = 0
    not_closed: int = 0
    shapes: Counter[tuple[int, int, int, bool, int]] = field(default_factory=Counter)


def decided_ledgers(
    run: RunDirectory, extra_columns: Sequence[str] = ()
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of decided ledgers: their metadata gives the bookies that should hold each entry.

    With each batch it yields the number of undecided ledgers that were left out. Every ledger that the store
    lists is in a batch or in this number. Other znodes and unlisted parts of the tree are not. The run's
    report has the ids of ledgers that these may hide (`RunFacts.in_doubt`). ``extra_columns`` are columns
    besides `COLUMNS`.
    """
    listed = ds.field("status").isin(list(LISTED)) & ds.field("ledger_id").is_valid()
    for batch in run.batches("tables/ledgers", [*COLUMNS, *extra_columns], listed):
        rows, undecided = batch.num_rows, batch["undecidable"].fill_null(True)
        if pc.any(undecided).as_py():
            batch = batch.filter(pc.invert(undecided))
        yield batch, rows - batch.num_rows


class RunWindows:
    """The windows of a run. Iteration makes one pass over its tables, and sets ``read`` to its counts.

    Args:
        run: A finished run.
        merge: Whether equal ledgers are merged into one. Their ids are lost.
        among: Selects ledgers by segments. Ledgers with a missing or unknown copy are selected too. None
            selects all.
        isolation: Numbers of the isolation groups of ledgers. Ledgers of different groups have different
            shapes.
    """

    def __init__(
        self,
        run: RunDirectory,
        merge: bool = True,
        among: Callable[[SegmentColumns], Bools] | None = None,
        isolation: IsolationNumbers | None = None,
    ) -> None:
        self.run = run
        self.read = LedgersRead()
        self.numbers = BookieNumbers(_members(run))
        self._merge, self._among, self._isolation = merge, among, isolation
        self._copies = CopiesToday(run, self.numbers)

    @property
    def unread(self) -> tuple[str, ...]:
        """Return the bookies of which nothing was read."""
        return tuple(sorted(name for name in self.numbers.names if name not in self._copies.seen_bookies))

    def __iter__(self) -> Iterator[Windows]:
        self.read = LedgersRead()
        waiting: list[Windows] = []
        for windows in self._each_batch():
            waiting.append(self._alike(windows))
            if sum(map(len, waiting)) < AT_ONCE:
                continue
            batch = waiting[0] if len(waiting) == 1 else self._alike(Windows.concat(waiting))
            # What merging left small waits for what comes.
            if self._merge and len(batch) < AT_ONCE // 2:
                waiting = [batch]
            else:
                yield batch
                waiting = []
        if waiting:
            yield self._alike(Windows.concat(waiting))

    def _alike(self, windows: Windows) -> Windows:
        return merged(windows) if self._merge else windows

    def _each_batch(self) -> Iterator[Windows]:
        for batch, undecided in decided_ledgers(self.run, self._isolation.columns if self._isolation else ()):
            self._count(batch, undecided)
            if self._among is not None:
                segments = segment_columns(batch, self.numbers)
                batch = batch.filter(pa.array(self._copies.in_doubt(segments) | self._among(segments)))
            windows = self._copies.of(windows_of(batch, self.numbers))
            length = batch["length"].fill_null(0).to_numpy(zero_copy_only=False)
            yield with_bytes(windows, np.maximum(length, 0))

    def _count(self, decided: pa.RecordBatch, undecided: int) -> None:
        self.read.ledgers += decided.num_rows + undecided
        self.read.undecided += undecided
        closed = pc.equal(decided["state"].cast("string"), LedgerState.CLOSED.value).fill_null(False)
        self.read.not_closed += decided.num_rows - (pc.sum(closed).as_py() or 0)
        names = ["ensemble_size", "write_quorum", "ack_quorum"]
        isolation = self._isolation.of(decided) if self._isolation else np.zeros(len(decided), np.int64)
        columns = [*(decided[name] for name in names), closed, pa.array(isolation)]
        kinds = pa.table(columns, [*names, "closed", "isolation"])
        for row in kinds.group_by(kinds.column_names).aggregate([([], "count_all")]).to_pylist():
            quorums = (row["ensemble_size"], row["write_quorum"], row["ack_quorum"])
            shape = (*quorums, not row["closed"], row["isolation"])
            self.read.shapes[shape] += row["count_all"]


def _members(run: RunDirectory) -> list[str]:
    """Return every bookie of the run, sorted by id."""
    return sorted(name for name in run.read("tables/bookies", ["bookie_id"])["bookie_id"].to_pylist() if name)
