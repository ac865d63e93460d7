"""The windows of a finished run's ledgers, batch by batch, with the state of their copies in the indexes.

A window is the entries on one set of bookies (`auditor.simulate.windows`). The table ``judged`` has a row for
each ledger with an unequal replica. Most such replicas lack all their entries, so that whole windows lack a
copy. If a replica lacks only some entries, its windows are cut into pieces. All entries of a piece are
missing on the same bookies. If a bookie's index of a ledger was read only in part, all copies of that ledger
on the bookie are unknown. A copy whose absence is in doubt is unknown too, because it may exist.
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
    merge_equal_ledgers,
    segment_columns,
    windows_of,
    with_bytes,
)
from auditor.simulate.writes import IsolationNumbers
from auditor.tables.judge_replicas import Groups, groups_of


class CopyStates:
    """The copies that are missing or unknown, for all ledgers of a run. A copy takes some 50 bytes of memory.

    ``seen_bookies`` have an index or an answer that was read. All copies on other bookies are unknown. If
    ``missing_only`` is True, copies that are unknown because of their ledger's index count as present. The
    number of copies then stays small in a cluster with an unread bookie.
    """

    def __init__(self, run: RunDirectory, numbers: BookieNumbers, missing_only: bool = False) -> None:
        self.seen_bookies = _seen_bookies(run)
        self._states_kept = (MISSING,) if missing_only else (MISSING, UNKNOWN)
        self._numbers = numbers
        batches = list(self._read_exceptions(run))
        ids, bookies, states, counts, groups = zip(*batches, strict=True) if batches else ([],) * 5
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
        is_unseen = np.array([*(name not in self.seen_bookies for name in self._numbers.names), False])
        copies = np.where(is_unseen[windows.bookies], np.int8(UNKNOWN), windows.copies)
        ledger, exceptions = self._window_pairs(windows)
        first_windows, end_windows = (
            np.searchsorted(windows.ledger, ledger, search_side) for search_side in ("left", "right")
        )
        row, exceptions = (
            _range_positions(first_windows, end_windows),
            np.repeat(exceptions, end_windows - first_windows),
        )
        is_on_bookie = windows.bookies[row] == self._bookies[exceptions, None]
        row, exceptions, is_on_bookie = (
            row[is_on_bookie.any(axis=1)],
            exceptions[is_on_bookie.any(axis=1)],
            is_on_bookie[is_on_bookie.any(axis=1)],
        )
        entry_counts = np.zeros(len(self._bookies), np.int64)
        np.add.at(entry_counts, exceptions, windows.entries[row])
        is_whole_window = (entry_counts == self._counts)[exceptions] | (self._counts < 0)[exceptions]
        is_whole_window &= ~windows.open_end[row]
        exception_rows, positions = np.nonzero(is_on_bookie & is_whole_window[:, None])
        copies[row[exception_rows], positions] = np.maximum(
            copies[row[exception_rows], positions], self._states[exceptions[exception_rows]]
        )
        windows = replace(windows, copies=copies)
        is_partial = ~is_whole_window & ~windows.open_end[row]
        return (
            self._split_windows(windows, row[is_partial], exceptions[is_partial], is_on_bookie[is_partial])
            if is_partial.any()
            else windows
        )

    def flag_uncertain_ledgers(self, segments: SegmentColumns) -> Bools:
        """Return which ledgers have a missing or unknown copy. Open ends are not considered."""
        is_unseen = np.array([name not in self.seen_bookies for name in self._numbers.names], bool)
        is_uncertain = segments.any_of_members(is_unseen[segments.members])
        for scope, (ids, _) in self._order_by_scope.items():
            id_positions = np.minimum(np.searchsorted(ids, segments.ids[:, 1]), len(ids) - 1)
            is_uncertain |= (segments.ids[:, 0] == scope) & (ids[id_positions] == segments.ids[:, 1])
        return is_uncertain

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

    def _split_windows(self, windows: Windows, row: Longs, exceptions: Longs, is_on_bookie: Bools) -> Windows:
        """Return the windows, with windows that have a partly missing copy cut into pieces.

        All entries of a piece are missing on the same bookies.
        """
        exceptions_by_window: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
        for window, exception_number, is_position_of_bookie in zip(
            row.tolist(), exceptions.tolist(), is_on_bookie, strict=True
        ):
            for positions in np.flatnonzero(is_position_of_bookie).tolist():
                exceptions_by_window[window].append(
                    (positions, int(self._states[exception_number]), self._groups[exception_number].as_py())
                )
        piece_rows, piece_entries, piece_states = [], [], []
        bounds = windows.bounds
        assert bounds is not None
        for window, window_exceptions in exceptions_by_window.items():
            first, last, ensemble_size = map(int, bounds[window])
            window_pieces = _range_pieces(
                first,
                last,
                int(windows.residue[window]),
                ensemble_size,
                tuple(missing_entries[2] for missing_entries in window_exceptions),
            )
            for lacking_flags, count in window_pieces:
                piece_rows.append(window)
                piece_entries.append(count)
                copies = windows.copies[window].copy()
                for (positions, state, _), is_lacking in zip(window_exceptions, lacking_flags, strict=True):
                    copies[positions] = max(copies[positions], state) if is_lacking else copies[positions]
                piece_states.append(copies)
        piece_windows = replace(
            windows.take(np.array(piece_rows, np.intp)),
            entries=np.array(piece_entries, np.int64),
            copies=np.array(piece_states, np.int8),
        )
        is_whole = np.ones(len(windows), bool)
        is_whole[list(exceptions_by_window)] = False
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
                parent_rows = pc.list_parent_indices(batch[name]).to_numpy()
                copies = batch[name].flatten()
                numbers = self._numbers.of(copies.field("bookie_id"))
                states = np.full(len(copies), state, np.int8)
                is_exception = np.ones(len(copies), bool)
                if state == MISSING:
                    states[has_doubts.to_numpy(zero_copy_only=False)[parent_rows]] = UNKNOWN
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
                    ids[parent_rows][is_exception], numbers[is_exception], states[is_exception],
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
    """Return the numbers in all ranges, range after range. Ends (``end_windows``) are not included."""
    range_lengths = end_windows - first_windows
    numbers: Longs = np.arange(int(range_lengths.sum())) + np.repeat(
        first_windows - np.cumsum(range_lengths) + range_lengths, range_lengths
    )
    return numbers


@lru_cache(maxsize=4096)
def _range_pieces(
    first: int, last: int, residue: int, ensemble: int, packed_groups: tuple[bytes, ...]
) -> tuple[tuple[tuple[bool, ...], int], ...]:
    """Cut the entries of a window by the sets in ``packed_groups``, and count the entries of each piece.

    The flags of a piece say which of the sets contain its entries.

    >>> lacks = np.array([(2, 2, 3, 0)], [("f", ">i8"), ("l", ">i8"), ("s", ">i4"), ("p", ">i4")]).tobytes()
    >>> _range_pieces(0, 9, 0, 3, (lacks,))
    (((True,), 1), ((False,), 3))
    """
    pieces: list[tuple[tuple[bool, ...], Groups]] = [((), _entry_groups(first, last, residue, ensemble))]
    for group_bytes in packed_groups:
        missing_groups = groups_of(group_bytes)
        split_pieces = []
        for missing_places, entries in pieces:
            split_pieces.append(((*missing_places, True), coverage.intersection(entries, missing_groups)))
            split_pieces.append(((*missing_places, False), coverage.difference(entries, missing_groups)))
        pieces = [(lacking_flags, entries) for lacking_flags, entries in split_pieces if len(entries)]
    return tuple((lacking_flags, coverage.count(entries)) for lacking_flags, entries in pieces)


def _entry_groups(first: int, last: int, residue: int, ensemble: int) -> Groups:
    if residue < 0:
        entry_runs = [(first, first, last - first + 1, 0)]
    else:
        first_in_class = first + (residue - first) % ensemble
        last_in_class = last - (last - residue) % ensemble
        entry_runs = [(first_in_class, last_in_class, 1, ensemble if last_in_class > first_in_class else 0)]
    return groups_of(fold(GroupBatch.from_tuples([entry_runs])).tobytes())


MERGED_WINDOWS = 1 << 18
"""Smallest number of windows in a batch that is yielded. Smaller batches are merged first."""


@dataclass
class LedgerCounts:
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
    """Yield batches of decided ledgers, whose metadata shows which bookies should have each entry.

    With each batch it yields the number of undecided ledgers that were left out. Every ledger that the store
    lists is in a batch or in this number. Other znodes, and parts of the tree that could not be listed, are
    in neither. They may hide ledgers, whose ids the run's report has (`RunFacts.in_doubt`). ``extra_columns``
    are columns besides `COLUMNS`.
    """
    is_listed = ds.field("status").isin(list(LISTED)) & ds.field("ledger_id").is_valid()
    for batch in run.batches("tables/ledgers", [*WINDOW_COLUMNS, *extra_columns], is_listed):
        row_count, is_undecidable = batch.num_rows, batch["undecidable"].fill_null(True)
        if pc.any(is_undecidable).as_py():
            batch = batch.filter(pc.invert(is_undecidable))
        yield batch, row_count - batch.num_rows


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
        self.read = LedgerCounts()
        self.numbers = BookieNumbers(_member_names(run))
        self._merge, self._segment_filter, self._isolation = merge, segment_filter, isolation
        self._copies = CopyStates(run, self.numbers)

    @property
    def unread_bookies(self) -> tuple[str, ...]:
        """Return the bookies from which nothing was read."""
        return tuple(sorted(name for name in self.numbers.names if name not in self._copies.seen_bookies))

    def __iter__(self) -> Iterator[Windows]:
        self.read = LedgerCounts()
        pending_windows: list[Windows] = []
        for windows in self._iterate_batches():
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
        return merge_equal_ledgers(windows) if self._merge else windows

    def _iterate_batches(self) -> Iterator[Windows]:
        for batch, undecided_count in decided_ledgers(
            self.run, self._isolation.columns if self._isolation else ()
        ):
            self._count_batch(batch, undecided_count)
            if self._segment_filter is not None:
                segments = segment_columns(batch, self.numbers)
                batch = batch.filter(
                    pa.array(self._copies.flag_uncertain_ledgers(segments) | self._segment_filter(segments))
                )
            windows = self._copies.of(windows_of(batch, self.numbers))
            length = batch["length"].fill_null(0).to_numpy(zero_copy_only=False)
            yield with_bytes(windows, np.maximum(length, 0))

    def _count_batch(self, decided_batch: pa.RecordBatch, undecided_count: int) -> None:
        self.read.ledgers += decided_batch.num_rows + undecided_count
        self.read.undecided += undecided_count
        is_closed = pc.equal(decided_batch["state"].cast("string"), LedgerState.CLOSED.value).fill_null(False)
        self.read.not_closed += decided_batch.num_rows - (pc.sum(is_closed).as_py() or 0)
        names = ["ensemble_size", "write_quorum", "ack_quorum"]
        isolation = (
            self._isolation.of(decided_batch) if self._isolation else np.zeros(len(decided_batch), np.int64)
        )
        columns = [*(decided_batch[name] for name in names), is_closed, pa.array(isolation)]
        shape_rows = pa.table(columns, [*names, "closed", "isolation"])
        for row in shape_rows.group_by(shape_rows.column_names).aggregate([([], "count_all")]).to_pylist():
            quorums = (row["ensemble_size"], row["write_quorum"], row["ack_quorum"])
            shape = (*quorums, not row["closed"], row["isolation"])
            self.read.shapes[shape] += row["count_all"]


def _member_names(run: RunDirectory) -> list[str]:
    """Return every bookie of the run, sorted by id."""
    return sorted(name for name in run.read("tables/bookies", ["bookie_id"])["bookie_id"].to_pylist() if name)
