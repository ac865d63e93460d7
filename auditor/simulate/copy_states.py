"""States of the copies of windows according to the indexes of a run: present, missing or unknown.

A window consists of the entries on the same set of bookies. The table ``judged`` has a row for each ledger
with an unequal replica. A replica is unequal if the bookie's index differs from the metadata. Most such
replicas lack all their entries, so that whole windows lack a copy. If a replica lacks only some entries, its
windows are cut into pieces. All entries of a piece are missing on the same bookies. If a bookie's index of a
ledger was read only partly, all copies of the ledger on this bookie are unknown. A copy that the index lacks,
but that may exist, is unknown too.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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


class CopyStates:
    """The missing and unknown copies of all ledgers of a run. A copy takes some 50 bytes of memory.

    ``read_bookies`` has the bookies from which an index or an answer was read. All copies on other bookies
    are unknown. If ``reads_missing_only``, unknown copies on bookies in ``read_bookies`` count as present,
    which saves memory.
    """

    def __init__(
        self, run: RunDirectory, bookie_numbering: BookieNumbers, reads_missing_only: bool = False
    ) -> None:
        self.read_bookies = _find_read_bookies(run)
        self._recorded_states = (MISSING,) if reads_missing_only else (MISSING, UNKNOWN)
        self._bookie_numbers = bookie_numbering
        batches = list(self._read_missing_or_unknown(run))
        ids, bookies, copy_states, missing_entry_counts, groups = (
            zip(*batches, strict=True) if batches else ([],) * 5
        )
        self._ledger_ids = np.concatenate([np.zeros((0, 2), np.int64), *ids])
        self._bookies = np.concatenate([np.zeros(0, np.int32), *bookies])
        self._states = np.concatenate([np.zeros(0, np.int8), *copy_states])
        self._missing_counts = np.concatenate([np.zeros(0, np.int64), *missing_entry_counts])
        self._groups = pa.chunked_array(list(groups), pa.binary()).combine_chunks()
        self._ledgers_by_scope: dict[int, tuple[Longs, Longs]] = {}
        for scope_id in np.unique(self._ledger_ids[:, 0]).tolist():
            rows = np.flatnonzero(self._ledger_ids[:, 0] == scope_id)
            ledger_order = rows[np.argsort(self._ledger_ids[rows, 1], kind="stable")]
            self._ledgers_by_scope[scope_id] = (self._ledger_ids[ledger_order, 1], ledger_order)

    def add_copy_states(self, windows: Windows) -> Windows:
        """Return windows with the states of their copies. Partly missing copies cut windows into pieces."""
        is_unread_bookie = np.array(
            [*(bookie not in self.read_bookies for bookie in self._bookie_numbers.names), False]
        )
        copies = np.where(is_unread_bookie[windows.bookies], np.int8(UNKNOWN), windows.copies)
        ledger_numbers, copy_numbers = self._find_ledger_copies(windows)
        first_windows, end_windows = (
            np.searchsorted(windows.ledger, ledger_numbers, search_side) for search_side in ("left", "right")
        )
        window_rows, copy_numbers = (
            _expand_ranges(first_windows, end_windows),
            np.repeat(copy_numbers, end_windows - first_windows),
        )
        is_on_bookie = windows.bookies[window_rows] == self._bookies[copy_numbers, None]
        window_rows, copy_numbers, is_on_bookie = (
            window_rows[is_on_bookie.any(axis=1)],
            copy_numbers[is_on_bookie.any(axis=1)],
            is_on_bookie[is_on_bookie.any(axis=1)],
        )
        entry_counts = np.zeros(len(self._bookies), np.int64)
        np.add.at(entry_counts, copy_numbers, windows.entries[window_rows])
        is_whole_window = (entry_counts == self._missing_counts)[copy_numbers] | (self._missing_counts < 0)[
            copy_numbers
        ]
        is_whole_window &= ~windows.is_open_end[window_rows]
        whole_window_pairs, copy_columns = np.nonzero(is_on_bookie & is_whole_window[:, None])
        copies[window_rows[whole_window_pairs], copy_columns] = np.maximum(
            copies[window_rows[whole_window_pairs], copy_columns],
            self._states[copy_numbers[whole_window_pairs]],
        )
        windows = replace(windows, copies=copies)
        is_partly_missing = ~is_whole_window & ~windows.is_open_end[window_rows]
        return (
            self._split_windows(
                windows,
                window_rows[is_partly_missing],
                copy_numbers[is_partly_missing],
                is_on_bookie[is_partly_missing],
            )
            if is_partly_missing.any()
            else windows
        )

    def flag_uncertain_ledgers(self, segments: SegmentColumns) -> Bools:
        """Flag the ledgers with a missing or unknown copy. Unclosed last segments do not count."""
        is_unread_bookie = np.array(
            [bookie not in self.read_bookies for bookie in self._bookie_numbers.names], bool
        )
        is_uncertain = segments.any_of_members(is_unread_bookie[segments.members])
        for scope_id, (ledger_ids, _) in self._ledgers_by_scope.items():
            id_positions = np.minimum(np.searchsorted(ledger_ids, segments.ids[:, 1]), len(ledger_ids) - 1)
            is_uncertain |= (segments.ids[:, 0] == scope_id) & (
                ledger_ids[id_positions] == segments.ids[:, 1]
            )
        return is_uncertain

    def _find_ledger_copies(self, windows: Windows) -> tuple[Longs, Longs]:
        """Return two arrays with one element for each missing or unknown copy of the windows' ledgers.

        The first array has the number of the ledger in ``windows``. The second array has the number of the
        copy, which is an index into the arrays of this object.
        """
        if windows.ids is None:
            raise ValueError("windows without ledger ids have no copy states")
        ledgers, copy_numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for scope_id, (ledger_ids, ledger_order) in self._ledgers_by_scope.items():
            scope_ledgers = np.flatnonzero(windows.ids[:, 0] == scope_id)
            first_windows, end_windows = (
                np.searchsorted(ledger_ids, windows.ids[scope_ledgers, 1], search_side)
                for search_side in ("left", "right")
            )
            ledgers.append(np.repeat(scope_ledgers, end_windows - first_windows))
            copy_numbers.append(ledger_order[_expand_ranges(first_windows, end_windows)])
        return np.concatenate(ledgers), np.concatenate(copy_numbers)

    def _split_windows(
        self, windows: Windows, window_rows: Longs, copy_numbers: Longs, is_on_bookie: Bools
    ) -> Windows:
        """Return the windows, with each window that has a partly missing copy cut into pieces.

        All entries of a piece are missing on the same bookies.
        """
        copies_by_window: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
        for window_number, copy_number, is_position_of_bookie in zip(
            window_rows.tolist(), copy_numbers.tolist(), is_on_bookie, strict=True
        ):
            for copy_column in np.flatnonzero(is_position_of_bookie).tolist():
                copies_by_window[window_number].append(
                    (copy_column, int(self._states[copy_number]), self._groups[copy_number].as_py())
                )
        piece_rows, piece_entries, piece_states = [], [], []
        segment_bounds = windows.segment_bounds
        assert segment_bounds is not None
        for window_number, copies_of_window in copies_by_window.items():
            first_entry, last_entry, ensemble_size = map(int, segment_bounds[window_number])
            window_pieces = _range_pieces(
                first_entry,
                last_entry,
                int(windows.entry_residue[window_number]),
                ensemble_size,
                tuple(window_copy[2] for window_copy in copies_of_window),
            )
            for is_piece_missing, piece_entry_count in window_pieces:
                piece_rows.append(window_number)
                piece_entries.append(piece_entry_count)
                copies = windows.copies[window_number].copy()
                for (copy_column, copy_state, _), is_missing in zip(
                    copies_of_window, is_piece_missing, strict=True
                ):
                    copies[copy_column] = (
                        max(copies[copy_column], copy_state) if is_missing else copies[copy_column]
                    )
                piece_states.append(copies)
        piece_windows = replace(
            windows.take(np.array(piece_rows, np.intp)),
            entries=np.array(piece_entries, np.int64),
            copies=np.array(piece_states, np.int8),
        )
        is_unsplit = np.ones(len(windows), bool)
        is_unsplit[list(copies_by_window)] = False
        unsplit_windows = windows.take(is_unsplit)
        merged_windows = replace(
            unsplit_windows,
            **{
                field_name: np.concatenate(
                    [getattr(unsplit_windows, field_name), getattr(piece_windows, field_name)]
                )
                for field_name in _WINDOW_FIELDS
            },
        )
        return merged_windows.take(np.argsort(merged_windows.ledger, kind="stable"))

    def _read_missing_or_unknown(
        self, run: RunDirectory
    ) -> Iterator[tuple[Longs, Ints, NDArray[np.int8], Longs, pa.Array]]:
        """Yield the missing and unknown copies in the table ``judged``, in batches of five arrays.

        The arrays are: ledger ids, bookies, states, numbers of entries (below 0: all entries), entry groups.
        """
        for batch in run.batches("tables/judged", [*LEDGER, "missing", "unknown", "doubts"]):
            ledger_ids = np.stack([batch[name].to_numpy() for name in LEDGER], axis=1)
            has_doubts = pc.greater(pc.list_value_length(batch["doubts"]), 0).fill_null(False)
            for copy_state in self._recorded_states:
                column_name = "missing" if copy_state == MISSING else "unknown"
                parent_rows = pc.list_parent_indices(batch[column_name]).to_numpy()
                copies = batch[column_name].flatten()
                bookie_numbers = self._bookie_numbers.number_names(copies.field("bookie_id"))
                copy_states = np.full(len(copies), copy_state, np.int8)
                is_listed_copy = np.ones(len(copies), bool)
                if copy_state == MISSING:
                    copy_states[has_doubts.to_numpy(zero_copy_only=False)[parent_rows]] = UNKNOWN
                    groups, missing_entry_counts = copies.field("groups"), copies.field("count").to_numpy()
                else:
                    groups, missing_entry_counts = (
                        pa.nulls(len(copies), pa.binary()),
                        np.full(len(copies), -1),
                    )
                    # Copies on bookies that were not read are unknown anyway, without a row each.
                    is_on_read_bookie = pc.is_in(
                        copies.field("bookie_id"), pa.array(sorted(self.read_bookies), pa.string())
                    )
                    is_on_unread_bookie = pc.and_(
                        pc.invert(is_on_read_bookie), pc.equal(copies.field("why"), UnknownCopy.UNREAD.value)
                    )
                    is_listed_copy = ~is_on_unread_bookie.to_numpy(zero_copy_only=False)
                yield (
                    ledger_ids[parent_rows][is_listed_copy], bookie_numbers[is_listed_copy],
                    copy_states[is_listed_copy],
                    missing_entry_counts[is_listed_copy], groups.filter(pa.array(is_listed_copy)),
                )  # fmt: skip


_WINDOW_FIELDS = (
    "ledger", "bookies", "copies", "write_quorum", "ack_quorum", "entries", "bytes", "is_open_end",
    "entry_residue",
    "segment_bounds",
)  # fmt: skip


def _find_read_bookies(run: RunDirectory) -> frozenset[str]:
    """Return the bookies from which some data was read, or that answered a request."""
    bookie_rows = run.read("tables/bookies", ["bookie_id", "read"])
    bookies = set(
        bookie_rows.filter(pc.not_equal(bookie_rows["read"], BookieRead.UNREAD.value))[
            "bookie_id"
        ].to_pylist()
    )
    if "answers" in run.names("tables"):
        for batch in run.batches("tables/answers", ["bookie_id"]):
            bookies |= set(batch["bookie_id"].unique().to_pylist())
    return frozenset(bookies)


def _expand_ranges(first_windows: Longs, end_windows: Longs) -> Longs:
    """Return the numbers in all ranges, one range after the other. Each range excludes its end."""
    range_lengths = end_windows - first_windows
    positions: Longs = np.arange(int(range_lengths.sum())) + np.repeat(
        first_windows - np.cumsum(range_lengths) + range_lengths, range_lengths
    )
    return positions


@lru_cache(maxsize=4096)
def _range_pieces(
    first_entry: int,
    last_entry: int,
    entry_residue: int,
    ensemble_size: int,
    packed_groups: tuple[bytes, ...],
) -> tuple[tuple[tuple[bool, ...], int], ...]:
    """Cut a window's entries into pieces that are inside or outside of each set in ``packed_groups``.

    The window has the entries with ``entry_residue`` modulo ``ensemble_size``. A set is encoded as BP-34
    groups (ranges of entry ids). For each piece, the result has one flag for each set (whether the set
    contains the piece), and the number of entries.

    >>> lacks = np.array([(2, 2, 3, 0)], [("f", ">i8"), ("l", ">i8"), ("s", ">i4"), ("p", ">i4")]).tobytes()
    >>> _range_pieces(0, 9, 0, 3, (lacks,))
    (((True,), 1), ((False,), 3))
    """
    entry_pieces: list[tuple[tuple[bool, ...], Groups]] = [
        ((), _entry_groups(first_entry, last_entry, entry_residue, ensemble_size))
    ]
    for group_bytes in packed_groups:
        missing_groups = groups_of(group_bytes)
        split_pieces = []
        for missing_flags, entries in entry_pieces:
            split_pieces.append(((*missing_flags, True), coverage.intersection(entries, missing_groups)))
            split_pieces.append(((*missing_flags, False), coverage.difference(entries, missing_groups)))
        entry_pieces = [
            (is_piece_missing, entries) for is_piece_missing, entries in split_pieces if len(entries)
        ]
    return tuple((is_piece_missing, coverage.count(entries)) for is_piece_missing, entries in entry_pieces)


def _entry_groups(first_entry: int, last_entry: int, entry_residue: int, ensemble_size: int) -> Groups:
    if entry_residue < 0:
        entry_run_tuples = [(first_entry, first_entry, last_entry - first_entry + 1, 0)]
    else:
        first_entry_in_class = first_entry + (entry_residue - first_entry) % ensemble_size
        last_entry_in_class = last_entry - (last_entry - entry_residue) % ensemble_size
        entry_run_tuples = [
            (
                first_entry_in_class,
                last_entry_in_class,
                1,
                ensemble_size if last_entry_in_class > first_entry_in_class else 0,
            )
        ]
    return groups_of(fold(GroupBatch.from_tuples([entry_run_tuples])).tobytes())
