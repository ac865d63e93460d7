"""Windows, for whole batches of ledgers. A window consists of the entries on the same set of bookies.

    entry e is on the bookies at positions (e + i) mod E of its segment's ensemble, i < Qw

If Qw < E, a segment has E windows, one for each value of e mod E. If Qw = E, it has one window. All entries
of a window are on the same bookies, so they are lost together. The open end of a ledger that is not closed
has windows too. Its entries are unknown, but recovery needs answers from bookies of each window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
_Number = TypeVar("_Number", bound=np.integer[Any])

PRESENT, UNKNOWN, MISSING = 0, 1, 2
"""States of the copy of a window on a bookie. MISSING means that the bookie certainly lacks the copy.

If two states apply, the larger number is used.
"""

NO_BOOKIE = -1
"""Value that fills up rows of `Windows.bookies` if the write quorum is below the largest one."""

WINDOW_COLUMNS = (
    *LEDGER, "status", "undecidable", "state", "ensemble_size", "write_quorum", "ack_quorum",
    "last_entry_id", "length", "segments",
)  # fmt: skip
"""Columns of the table ``ledgers`` from which windows are made."""


@dataclass(frozen=True)
class Windows:
    """Windows of many ledgers, one row for each window. The rows of a ledger are adjacent.

    Args:
        ledger: Number of the ledger, an index into the arrays by ledger.
        bookies: Numbers of the bookies, of the shape (windows, largest write quorum).
        copies: States of the copies on these bookies, of the same shape.
        write_quorum: Write quorum of the ledger.
        ack_quorum: Ack quorum of the ledger.
        entries: Number of entries of one copy; 0 at an open end.
        bytes: Bytes of one copy; 0 at an open end, and if the ledger is not closed (its length is unknown).
        is_open_end: Whether the window is at the open end (unclosed last segment) of a ledger.
        entry_residue: Entry id modulo the ensemble size, equal for all entries of the window; -1 if the
            segment has one window.
        segment_bounds: First and last entry of the segment, and ensemble size. None if no longer needed.
        equal_ledger_counts: Array by ledger: the number of equal ledgers that were merged into it.
        ids: Array by ledger: scope and id. None if ledgers were merged.
    """

    ledger: Longs
    bookies: Ints
    copies: NDArray[np.int8]
    write_quorum: Longs
    ack_quorum: Longs
    entries: Longs
    bytes: Longs
    is_open_end: Bools
    entry_residue: Longs
    segment_bounds: Longs | None
    equal_ledger_counts: Longs
    ids: Longs | None

    def __len__(self) -> int:
        return len(self.ledger)

    def take(self, rows: NDArray[np.intp] | Bools) -> Windows:
        """Return the windows in ``rows``. The arrays by ledger are not changed."""
        column_by_name = {column_name: getattr(self, column_name)[rows] for column_name in _WINDOW_FIELDS}
        return replace(
            self,
            segment_bounds=None if self.segment_bounds is None else self.segment_bounds[rows],
            **column_by_name,
        )

    def any_of_ledger(self, has_flag_by_row: Bools) -> Bools:
        """Flag the ledgers that have a flagged window."""
        has_flag_by_ledger: Bools = (
            np.bincount(self.ledger[has_flag_by_row], minlength=len(self.equal_ledger_counts)) > 0
        )
        return has_flag_by_ledger

    @staticmethod
    def concat(windows_parts: Sequence[Windows]) -> Windows:
        """Concatenate windows. No ledger may be in more than one of the parts."""
        ledger_offsets = np.cumsum(
            [0, *(len(windows_part.equal_ledger_counts) for windows_part in windows_parts)]
        )
        max_bookies_per_window = max(windows_part.bookies.shape[1] for windows_part in windows_parts)
        column_by_name = {
            column_name: np.concatenate(
                [
                    _widen_rows(getattr(windows_part, column_name), max_bookies_per_window, column_name)
                    for windows_part in windows_parts
                ]
            )
            for column_name in _WINDOW_FIELDS
        }
        ledger_shifts = np.repeat(ledger_offsets[:-1], [len(windows_part) for windows_part in windows_parts])
        column_by_name["ledger"] = column_by_name["ledger"] + ledger_shifts
        ids = [windows_part.ids for windows_part in windows_parts if windows_part.ids is not None]
        return Windows(
            **column_by_name,
            segment_bounds=None,
            equal_ledger_counts=np.concatenate(
                [windows_part.equal_ledger_counts for windows_part in windows_parts]
            ),
            ids=np.concatenate(ids) if len(ids) == len(windows_parts) else None,
        )


_WINDOW_FIELDS = tuple(
    column.name
    for column in fields(Windows)
    if column.name not in ("segment_bounds", "equal_ledger_counts", "ids")
)


def _widen_rows(
    window_rows: NDArray[np.generic], max_bookies_per_window: int, column_name: str
) -> NDArray[np.generic]:
    if window_rows.ndim == 1 or window_rows.shape[1] == max_bookies_per_window:
        return window_rows
    padded_rows = np.full(
        (len(window_rows), max_bookies_per_window),
        NO_BOOKIE if column_name == "bookies" else PRESENT,
        window_rows.dtype,
    )
    padded_rows[:, : window_rows.shape[1]] = window_rows
    return padded_rows


def distinct_values(values: NDArray[_Number]) -> NDArray[_Number]:
    """Return each value once, in ascending order. The function sorts, because ``np.unique`` is slower.

    >>> distinct_values(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    sorted_values: NDArray[_Number] = np.sort(values)
    distinct_sorted_values: NDArray[_Number] = sorted_values[
        np.append(True, sorted_values[1:] != sorted_values[:-1])[: len(sorted_values)]
    ]
    return distinct_sorted_values


def count_true(rows: Bools) -> Longs:
    """Count the true values of each row.

    The function adds up columns, because there are few columns and many rows.

    >>> count_true(np.array([[True, True], [False, True]])).tolist()
    [2, 1]
    """
    true_counts = np.zeros(len(rows), np.int64)
    for column_number in range(rows.shape[1]):
        true_counts += rows[:, column_number]
    return true_counts


def any_true(rows: Bools) -> Bools:
    """Return for each row whether any of its values is true."""
    has_true_value = np.zeros(len(rows), bool)
    for column_number in range(rows.shape[1]):
        has_true_value |= rows[:, column_number]
    return has_true_value


class BookieNumbers:
    """Numbers for bookies. A new bookie gets the next number."""

    def __init__(self, bookie_names: Sequence[str] = ()) -> None:
        self._numbers = {bookie_name: number for number, bookie_name in enumerate(bookie_names)}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def names(self) -> list[str]:
        """Return the names of the bookies. The index of a name is the bookie's number."""
        return list(self._numbers)

    def number_names(self, bookie_names: pa.Array | pa.ChunkedArray) -> Ints:
        """Return the number of each name in a column without nulls. A new name gets the next number.

        >>> import pyarrow as pa
        >>> BookieNumbers(["b"]).number_names(pa.array(["a", "b", "a"])).tolist()
        [1, 0, 1]
        """
        name_chunks = bookie_names.chunks if isinstance(bookie_names, pa.ChunkedArray) else [bookie_names]
        number_chunks = [np.zeros(0, np.int32)]
        for name_chunk in name_chunks:
            encoded_names = (
                name_chunk if pa.types.is_dictionary(name_chunk.type) else name_chunk.dictionary_encode()
            )
            numbers_of_chunk = [
                self._numbers.setdefault(bookie_name, len(self._numbers))
                for bookie_name in encoded_names.dictionary.to_pylist()
            ]
            number_chunks.append(
                np.array(numbers_of_chunk, np.int32)[encoded_names.indices.to_numpy(zero_copy_only=False)]
            )
        return np.concatenate(number_chunks)


def count_in_class(
    first_entries: Longs, last_entries: Longs, entry_residue: Longs, ensemble_size: Longs | int
) -> Longs:
    """Count the ids from first to last entry (both included) with ``entry_residue`` modulo the ensemble size.

    >>> [int(count_in_class(np.int64(5), np.int64(9), np.int64(p), 3)) for p in range(3)]
    [2, 1, 2]
    """
    entry_counts: Longs = np.maximum(
        (last_entries - entry_residue) // ensemble_size
        - (first_entries - 1 - entry_residue) // ensemble_size,
        0,
    )
    return entry_counts


def column_of(ledgers: pa.RecordBatch, column_name: str, null_value: int = 0) -> Longs:
    """Return a column of integers, one per ledger. A null becomes ``null_value``."""
    column: Longs = ledgers[column_name].cast("int64").fill_null(null_value).to_numpy(zero_copy_only=False)
    return column


def segment_columns(ledgers: pa.RecordBatch, bookie_numbering: BookieNumbers) -> SegmentColumns:
    """Return the segments of the ledgers in rows of the table ``ledgers``."""
    is_closed = pc.equal(ledgers["state"].cast("string"), LedgerState.CLOSED.value).fill_null(False)
    segments = ledgers["segments"].flatten()
    ensembles = segments.field("ensemble")
    members = bookie_numbering.number_names(ensembles.flatten())
    ledger_of_segment = np.repeat(
        np.arange(ledgers.num_rows),
        pc.list_value_length(ledgers["segments"]).fill_null(0).to_numpy(zero_copy_only=False),
    )
    ensemble_sizes = pc.list_value_length(ensembles).to_numpy(zero_copy_only=False).astype(np.int64)
    return SegmentColumns(
        np.stack([column_of(ledgers, column_name) for column_name in LEDGER], axis=1),
        members,
        ledger_of_segment,
        segments.field("first_entry_id").to_numpy(zero_copy_only=False),
        np.cumsum(ensemble_sizes) - ensemble_sizes,
        is_closed.to_numpy(zero_copy_only=False)[ledger_of_segment],
        column_of(ledgers, "last_entry_id", -1)[ledger_of_segment],
        column_of(ledgers, "ensemble_size")[ledger_of_segment],
        column_of(ledgers, "write_quorum")[ledger_of_segment],
        column_of(ledgers, "ack_quorum")[ledger_of_segment],
    )


@dataclass(frozen=True)
class SegmentColumns:
    """Segments of ledgers, as arrays with one element for each segment.

    ``ledger`` has the number of the segment's ledger. ``members`` has the bookie numbers of all ensembles,
    one ensemble after the other. ``ensemble_starts`` has, for each segment, the index in ``members`` of its
    first bookie. ``ids`` has the scope and id of each ledger, one row per ledger.
    """

    ids: Longs
    members: Ints
    ledger: Longs
    first_entries: Longs
    ensemble_starts: Longs
    is_closed: Bools
    last_entry: Longs
    ensemble_size: Longs
    write_quorum: Longs
    ack_quorum: Longs

    def any_of_ledger(self, has_flag_by_row: Bools) -> Bools:
        """Flag the ledgers that have a flagged segment."""
        has_flag_by_ledger: Bools = np.bincount(self.ledger[has_flag_by_row], minlength=len(self.ids)) > 0
        return has_flag_by_ledger

    def any_of_members(self, has_flag_by_member: Bools) -> Bools:
        """Flag the ledgers that have a flagged member."""
        has_flag_by_segment = np.zeros(len(self.ensemble_starts), bool)
        has_flag_by_segment[
            np.searchsorted(self.ensemble_starts, np.flatnonzero(has_flag_by_member), "right") - 1
        ] = True
        return self.any_of_ledger(has_flag_by_segment)

    def flag_equal_neighbours(self, value_by_bookie: Longs) -> Bools:
        """Flag each member whose next member in the ensemble has the same value in ``value_by_bookie``.

        After the last member of an ensemble, the first member is the next one.
        """
        value_by_member = value_by_bookie[self.members]
        equals_next_member = np.zeros(len(value_by_member), bool)
        np.equal(value_by_member[:-1], value_by_member[1:], out=equals_next_member[:-1])
        last_member_positions = (
            np.append(self.ensemble_starts[1:], len(value_by_member))[: len(self.ensemble_starts)] - 1
        )
        equals_next_member[last_member_positions] = (
            value_by_member[last_member_positions] == value_by_member[self.ensemble_starts]
        )
        return equals_next_member

    def ends(self) -> tuple[Longs, Bools]:
        """Return the last entry of each segment, and whether it is the last segment of an unclosed ledger."""
        is_last_of_ledger = np.append(self.ledger[1:] != self.ledger[:-1], True)[: len(self.ledger)]
        last_entries_before_next_segment = np.append(self.first_entries[1:] - 1, 0)[: len(self.first_entries)]
        last_entry_by_segment = np.where(is_last_of_ledger, self.last_entry, last_entries_before_next_segment)
        return np.where(
            self.is_closed, np.minimum(last_entry_by_segment, self.last_entry), last_entry_by_segment
        ), is_last_of_ledger & ~self.is_closed


def make_windows(ledgers: pa.RecordBatch, bookie_numbering: BookieNumbers) -> Windows:
    """Return the windows of ledgers whose metadata shows which bookies should have each entry.

    ``ledgers`` has rows of the table ``ledgers``. All copies are set to present, and bytes to 0.
    """
    segments = segment_columns(ledgers, bookie_numbering)
    ids, empty_column = segments.ids, np.zeros(0, np.int64)
    last_entries_of_segments, is_open_end = segments.ends()
    max_write_quorum = int(segments.write_quorum.max(initial=1))
    window_column_parts = [
        (empty_column, np.zeros((0, max_write_quorum), np.int32), empty_column, empty_column)
    ]
    for shape_code in distinct_values(segments.ensemble_size << 32 | segments.write_quorum).tolist():
        ensemble_size, write_quorum = shape_code >> 32, shape_code & 0xFFFFFFFF
        segments_of_shape = np.flatnonzero(
            (segments.ensemble_size == ensemble_size) & (segments.write_quorum == write_quorum)
        )
        entry_residues = np.arange(ensemble_size if write_quorum < ensemble_size else 1)
        ensemble_positions = (entry_residues[:, None] + np.arange(write_quorum)) % ensemble_size
        ensembles = segments.members[
            segments.ensemble_starts[segments_of_shape, None] + np.arange(ensemble_size)
        ]
        first_entries = segments.first_entries[segments_of_shape, None]
        last_entries = last_entries_of_segments[segments_of_shape, None]
        entries = (
            count_in_class(first_entries, last_entries, entry_residues, ensemble_size)
            if write_quorum < ensemble_size
            else np.maximum(last_entries - first_entries + 1, 0)
        )
        entries = np.where(is_open_end[segments_of_shape, None], 0, entries)
        has_window = (entries > 0) | is_open_end[segments_of_shape, None]
        segment_numbers, entry_residue = np.nonzero(has_window)
        bookie_rows = np.full((len(segment_numbers), max_write_quorum), NO_BOOKIE, np.int32)
        bookie_rows[:, :write_quorum] = ensembles[:, ensemble_positions][segment_numbers, entry_residue]
        segment_rows = segments_of_shape[segment_numbers]
        entries = entries[segment_numbers, entry_residue]
        if write_quorum >= ensemble_size:
            entry_residue = np.full(len(segment_numbers), -1)
        window_column_parts.append((segment_rows, bookie_rows, entries, entry_residue))
    segment_rows, bookie_rows, entries, entry_residue = (
        np.concatenate(column) for column in zip(*window_column_parts, strict=True)
    )
    segment_order = np.lexsort((entry_residue, segment_rows))
    segment_rows = segment_rows[segment_order]
    return Windows(
        ledger=segments.ledger[segment_rows],
        bookies=bookie_rows[segment_order],
        copies=np.zeros(bookie_rows.shape, np.int8),
        write_quorum=segments.write_quorum[segment_rows],
        ack_quorum=segments.ack_quorum[segment_rows],
        entries=entries[segment_order],
        bytes=np.zeros(len(segment_rows), np.int64),
        is_open_end=is_open_end[segment_rows],
        entry_residue=entry_residue[segment_order],
        segment_bounds=np.stack(
            [
                segments.first_entries[segment_rows],
                last_entries_of_segments[segment_rows],
                segments.ensemble_size[segment_rows],
            ],
            axis=1,
        ),
        equal_ledger_counts=np.ones(len(ids), np.int64),
        ids=ids,
    )
