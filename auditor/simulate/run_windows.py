"""The windows of a finished run's ledgers, batch by batch, with the state of their copies in the indexes.

A window is the entries on one set of bookies (`auditor.simulate.windows`). The table ``judged`` has a row for
each ledger with an unequal replica. Most such replicas lack all their entries, so that whole windows lack a
copy. If a replica lacks only a part, its windows are cut into pieces. The same bookies lack all entries of a
piece. If a bookie's index of a ledger was read only in part, all its copies of that ledger are unknown. A
copy whose absence is in doubt is unknown too, because it may exist.
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
    MISSING,
    UNKNOWN,
    WINDOW_COLUMNS,
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
    ``missing_only``, copies that are unknown because of their ledger's index count as present. That keeps the
    number of copies small for a cluster with an unread bookie.
    """

    def __init__(self, run: RunDirectory, numbers: BookieNumbers, missing_only: bool = False) -> None:
        self.seen_bookies = _seen_bookies(run)
        self._states_kept = (MISSING,) if missing_only else (MISSING, UNKNOWN)
        self._numbers = numbers
        parts = list(self._read_exceptions(run))
        ids, bookies, states, counts, groups = zip(*parts, strict=True) if parts else ([],) * 5
        self._ids = np.concatenate([np.zeros((0, 2), np.int64), *ids])
        self._bookies = np.concatenate([np.zeros(0, np.int32), *bookies])
        self._states = np.concatenate([np.zeros(0, np.int8), *states])
        self._counts = np.concatenate([np.zeros(0, np.int64), *counts])
        self._groups = pa.chunked_array(list(groups), pa.binary()).combine_chunks()
        self._order_by_scope: dict[int, tuple[Longs, Longs]] = {}
        for scope in np.unique(self._ids[:, 0]).tolist():
            rows = np.flatnonzero(self._ids[:, 0] == scope)
            order = rows[np.argsort(self._ids[rows, 1], kind="stable")]
            self._order_by_scope[scope] = (self._ids[order, 1], order)

    def of(self, windows: Windows) -> Windows:
        """Return the windows with the state of their copies. Some windows are cut into pieces."""
        blank = np.array([*(name not in self.seen_bookies for name in self._numbers.names), False])
        copies = np.where(blank[windows.bookies], np.int8(UNKNOWN), windows.copies)
        ledger, pair = self._window_pairs(windows)
        first_windows, end_windows = (
            np.searchsorted(windows.ledger, ledger, search_side) for search_side in ("left", "right")
        )
        row, pair = _range_positions(first_windows, end_windows), np.repeat(pair, end_windows - first_windows)
        is_concerned = windows.bookies[row] == self._bookies[pair, None]
        row, pair, is_concerned = (
            row[is_concerned.any(axis=1)],
            pair[is_concerned.any(axis=1)],
            is_concerned[is_concerned.any(axis=1)],
        )
        entry_counts = np.zeros(len(self._bookies), np.int64)
        np.add.at(entry_counts, pair, windows.entries[row])
        is_whole_window = (entry_counts == self._counts)[pair] | (self._counts < 0)[pair]
        is_whole_window &= ~windows.open_end[row]
        hit_rows, concerned_places = np.nonzero(is_concerned & is_whole_window[:, None])
        copies[row[hit_rows], concerned_places] = np.maximum(
            copies[row[hit_rows], concerned_places], self._states[pair[hit_rows]]
        )
        windows = replace(windows, copies=copies)
        part = ~is_whole_window & ~windows.open_end[row]
        return (
            self._split_windows(windows, row[part], pair[part], is_concerned[part]) if part.any() else windows
        )

    def in_doubt(self, segments: SegmentColumns) -> Bools:
        """Return which ledgers have a missing or unknown copy. Open ends are not considered."""
        blank = np.array([name not in self.seen_bookies for name in self._numbers.names], bool)
        has_doubt = segments.any_of_members(blank[segments.members])
        for scope, (ids, _) in self._order_by_scope.items():
            place = np.minimum(np.searchsorted(ids, segments.ids[:, 1]), len(ids) - 1)
            has_doubt |= (segments.ids[:, 0] == scope) & (ids[place] == segments.ids[:, 1])
        return has_doubt

    def _window_pairs(self, windows: Windows) -> tuple[Longs, Longs]:
        """Return the missing and unknown copies of the windows' ledgers.

        The two arrays have one element per copy: the number of the ledger, and the number of the copy.
        """
        if windows.ids is None:
            raise ValueError("copies are asked of ledgers with ids")
        ledgers, exceptions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for scope, (ids, order) in self._order_by_scope.items():
            scope_ledgers = np.flatnonzero(windows.ids[:, 0] == scope)
            first_windows, end_windows = (
                np.searchsorted(ids, windows.ids[scope_ledgers, 1], search_side)
                for search_side in ("left", "right")
            )
            ledgers.append(np.repeat(scope_ledgers, end_windows - first_windows))
            exceptions.append(order[_range_positions(first_windows, end_windows)])
        return np.concatenate(ledgers), np.concatenate(exceptions)

    def _split_windows(self, windows: Windows, row: Longs, pair: Longs, is_concerned: Bools) -> Windows:
        """Return the windows; a window with a partly missing copy is cut into pieces.

        Each piece has the entries that the same bookies lack.
        """
        entries_lacking: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
        for window, pair_number, is_concerned_place in zip(
            row.tolist(), pair.tolist(), is_concerned, strict=True
        ):
            for concerned_places in np.flatnonzero(is_concerned_place).tolist():
                entries_lacking[window].append(
                    (concerned_places, int(self._states[pair_number]), self._groups[pair_number].as_py())
                )
        rows, entries, states = [], [], []
        bounds = windows.bounds
        assert bounds is not None
        for window, sets in entries_lacking.items():
            first, last, size = map(int, bounds[window])
            window_pieces = _range_pieces(
                first,
                last,
                int(windows.residue[window]),
                size,
                tuple(missing_entries[2] for missing_entries in sets),
            )
            for missing_places, count in window_pieces:
                rows.append(window)
                entries.append(count)
                copies = windows.copies[window].copy()
                for (concerned_places, state, _), is_lacking in zip(sets, missing_places, strict=True):
                    copies[concerned_places] = (
                        max(copies[concerned_places], state) if is_lacking else copies[concerned_places]
                    )
                states.append(copies)
        piece_windows = replace(
            windows.take(np.array(rows, np.intp)),
            entries=np.array(entries, np.int64),
            copies=np.array(states, np.int8),
        )
        is_whole = np.ones(len(windows), bool)
        is_whole[list(entries_lacking)] = False
        whole_windows = windows.take(is_whole)
        merged_windows = replace(
            whole_windows,
            **{
                name: np.concatenate([getattr(whole_windows, name), getattr(piece_windows, name)])
                for name in _LEDGER_COLUMNS
            },
        )
        return merged_windows.take(np.argsort(merged_windows.ledger, kind="stable"))

    def _read_exceptions(
        self, run: RunDirectory
    ) -> Iterator[tuple[Longs, Ints, NDArray[np.int8], Longs, pa.Array]]:
        """Yield the missing and unknown copies in ``judged``, by batch.

        A batch has ids, bookies, states, counts of entries (below 0: all entries) and groups.
        """
        for batch in run.batches("tables/judged", [*LEDGER, "missing", "unknown", "doubts"]):
            ids = np.stack([batch[name].to_numpy() for name in LEDGER], axis=1)
            has_doubts = pc.greater(pc.list_value_length(batch["doubts"]), 0).fill_null(False)
            for state in self._states_kept:
                name = "missing" if state == MISSING else "unknown"
                parent = pc.list_parent_indices(batch[name]).to_numpy()
                copies = batch[name].flatten()
                numbers = self._numbers.of(copies.field("bookie_id"))
                states = np.full(len(copies), state, np.int8)
                is_exception = np.ones(len(copies), bool)
                if state == MISSING:
                    states[has_doubts.to_numpy(zero_copy_only=False)[parent]] = UNKNOWN
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


_LEDGER_COLUMNS = (
    "ledger", "bookies", "copies", "write_quorum", "ack_quorum", "entries", "bytes", "open_end", "residue",
    "bounds",
)  # fmt: skip


def _seen_bookies(run: RunDirectory) -> frozenset[str]:
    """Return bookies with any data that was read, or an answer to a request for a listing."""
    rows = run.read("tables/bookies", ["bookie_id", "read"])
    bookies = set(rows.filter(pc.not_equal(rows["read"], BookieRead.UNREAD.value))["bookie_id"].to_pylist())
    if "answers" in run.names("tables"):
        for batch in run.batches("tables/answers", ["bookie_id"]):
            bookies |= set(batch["bookie_id"].unique().to_pylist())
    return frozenset(bookies)


def _range_positions(first_windows: Longs, end_windows: Longs) -> Longs:
    """Return the numbers of all ranges, range after range; ``end_windows`` are not included."""
    length = end_windows - first_windows
    numbers: Longs = np.arange(int(length.sum())) + np.repeat(
        first_windows - np.cumsum(length) + length, length
    )
    return numbers


@lru_cache(maxsize=4096)
def _range_pieces(
    first: int, last: int, residue: int, ensemble: int, entries_lacking: tuple[bytes, ...]
) -> tuple[tuple[tuple[bool, ...], int], ...]:
    """Cut the entries of a window by the sets in ``entries_lacking``, and count the entries of each piece.

    The flags of a piece say which of the sets contain its entries.

    >>> lacks = np.array([(2, 2, 3, 0)], [("f", ">i8"), ("l", ">i8"), ("s", ">i4"), ("p", ">i4")]).tobytes()
    >>> _range_pieces(0, 9, 0, 3, (lacks,))
    (((True,), 1), ((False,), 3))
    """
    cells: list[tuple[tuple[bool, ...], Groups]] = [((), _entry_groups(first, last, residue, ensemble))]
    for value in entries_lacking:
        missing_groups = groups_of(value)
        split = []
        for missing_places, entries in cells:
            split.append(((*missing_places, True), coverage.intersection(entries, missing_groups)))
            split.append(((*missing_places, False), coverage.difference(entries, missing_groups)))
        cells = [(lacks, entries) for lacks, entries in split if len(entries)]
    return tuple((lacks, coverage.count(entries)) for lacks, entries in cells)


def _entry_groups(first: int, last: int, residue: int, ensemble: int) -> Groups:
    if residue < 0:
        runs = [(first, first, last - first + 1, 0)]
    else:
        start = first + (residue - first) % ensemble
        end = last - (last - residue) % ensemble
        runs = [(start, end, 1, ensemble if end > start else 0)]
    return groups_of(fold(GroupBatch.of([runs])).tobytes())


MERGED_WINDOWS = 1 << 18
"""Smallest number of windows in a batch that is yielded. Smaller batches are merged first."""


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
    lists is in a batch or in this number. Other znodes, and parts of the tree that could not be listed, are
    in neither. They may hide ledgers, whose ids the run's report has (`RunFacts.in_doubt`). ``extra_columns``
    are columns besides `COLUMNS`.
    """
    listed = ds.field("status").isin(list(LISTED)) & ds.field("ledger_id").is_valid()
    for batch in run.batches("tables/ledgers", [*WINDOW_COLUMNS, *extra_columns], listed):
        rows, undecided_count = batch.num_rows, batch["undecidable"].fill_null(True)
        if pc.any(undecided_count).as_py():
            batch = batch.filter(pc.invert(undecided_count))
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
        segment_filter: Callable[[SegmentColumns], Bools] | None = None,
        isolation: IsolationNumbers | None = None,
    ) -> None:
        self.run = run
        self.read = LedgersRead()
        self.numbers = BookieNumbers(_member_names(run))
        self._merge, self._segment_filter, self._isolation = merge, segment_filter, isolation
        self._copies = CopiesToday(run, self.numbers)

    @property
    def unread(self) -> tuple[str, ...]:
        """Return the bookies from which nothing was read."""
        return tuple(sorted(name for name in self.numbers.names if name not in self._copies.seen_bookies))

    def __iter__(self) -> Iterator[Windows]:
        self.read = LedgersRead()
        pending_windows: list[Windows] = []
        for windows in self._each_batch():
            pending_windows.append(self._merge_windows(windows))
            if sum(map(len, pending_windows)) < MERGED_WINDOWS:
                continue
            batch = (
                pending_windows[0]
                if len(pending_windows) == 1
                else self._merge_windows(Windows.concat(pending_windows))
            )
            # What merging left small waits for what comes.
            if self._merge and len(batch) < MERGED_WINDOWS // 2:
                pending_windows = [batch]
            else:
                yield batch
                pending_windows = []
        if pending_windows:
            yield self._merge_windows(Windows.concat(pending_windows))

    def _merge_windows(self, windows: Windows) -> Windows:
        return merged(windows) if self._merge else windows

    def _each_batch(self) -> Iterator[Windows]:
        for batch, undecided_count in decided_ledgers(
            self.run, self._isolation.columns if self._isolation else ()
        ):
            self._count_batch(batch, undecided_count)
            if self._segment_filter is not None:
                segments = segment_columns(batch, self.numbers)
                batch = batch.filter(
                    pa.array(self._copies.in_doubt(segments) | self._segment_filter(segments))
                )
            windows = self._copies.of(windows_of(batch, self.numbers))
            length = batch["length"].fill_null(0).to_numpy(zero_copy_only=False)
            yield with_bytes(windows, np.maximum(length, 0))

    def _count_batch(self, decided_batch: pa.RecordBatch, undecided_count: int) -> None:
        self.read.ledgers += decided_batch.num_rows + undecided_count
        self.read.undecided += undecided_count
        closed = pc.equal(decided_batch["state"].cast("string"), LedgerState.CLOSED.value).fill_null(False)
        self.read.not_closed += decided_batch.num_rows - (pc.sum(closed).as_py() or 0)
        names = ["ensemble_size", "write_quorum", "ack_quorum"]
        isolation = (
            self._isolation.of(decided_batch) if self._isolation else np.zeros(len(decided_batch), np.int64)
        )
        columns = [*(decided_batch[name] for name in names), closed, pa.array(isolation)]
        kinds = pa.table(columns, [*names, "closed", "isolation"])
        for row in kinds.group_by(kinds.column_names).aggregate([([], "count_all")]).to_pylist():
            quorums = (row["ensemble_size"], row["write_quorum"], row["ack_quorum"])
            shape = (*quorums, not row["closed"], row["isolation"])
            self.read.shapes[shape] += row["count_all"]


def _member_names(run: RunDirectory) -> list[str]:
    """Return every bookie of the run, sorted by id."""
    return sorted(name for name in run.read("tables/bookies", ["bookie_id"])["bookie_id"].to_pylist() if name)
