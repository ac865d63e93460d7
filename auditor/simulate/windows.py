"""Windows: the entries on one set of bookies, for whole batches of ledgers.

    entry e is on the bookies at positions (e + i) mod E of its segment's ensemble, i < Qw

A segment has E windows, one for each value of e mod E (e is the absolute entry id). It has one window if
Qw = E. All entries
of a window are lost or kept together. The open end of a ledger that is not closed has windows too. Its
entries are unknown, but recovery needs an answer from each window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.model.adherence import distinct_rows
from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
_Number = TypeVar("_Number", bound=np.integer[Any])

PRESENT, UNKNOWN, MISSING = 0, 1, 2
"""States of a copy of a window. If two states apply, the larger number wins.

MISSING means that the bookie certainly lacks the copy.
"""

NO_BOOKIE = -1
"""Value that fills up rows of `Windows.bookies` whose write quorum is smaller than the widest one."""

WINDOW_COLUMNS = (
    *LEDGER, "status", "undecidable", "state", "ensemble_size", "write_quorum", "ack_quorum",
    "last_entry_id", "length", "segments",
)  # fmt: skip
"""Columns of the table ``ledgers`` from which windows are made."""


@dataclass(frozen=True)
class Windows:
    """Windows of many ledgers, one row per window. Rows of one ledger are adjacent.

    ``bookies`` and ``copies`` have the shape (windows, widest write quorum): numbers of bookies, and the
    states of their copies. ``entries`` and ``bytes`` are those of one copy, and 0 at an open end. ``bytes``
    are 0 if the ledger is not closed, because its length is unknown. ``residue`` is the entry id modulo the
    ensemble size, or -1 if a segment has one window. ``bounds`` are the first and last entry of the segment
    and the ensemble size, or None once they are not needed.

    ``times`` has one element per ledger: the number of equal ledgers that it stands for. ``ids`` are the
    scopes and ids of the ledgers, or None once ledgers were merged.
    """

    ledger: Longs
    bookies: Ints
    copies: NDArray[np.int8]
    write_quorum: Longs
    ack_quorum: Longs
    entries: Longs
    bytes: Longs
    open_end: Bools
    residue: Longs
    bounds: Longs | None
    times: Longs
    ids: Longs | None

    def __len__(self) -> int:
        return len(self.ledger)

    def take(self, rows: NDArray[np.intp] | Bools) -> Windows:
        """Return the windows in ``rows``. All ledgers are kept."""
        columns = {name: getattr(self, name)[rows] for name in _WINDOW_FIELDS}
        return replace(self, bounds=None if self.bounds is None else self.bounds[rows], **columns)

    def any_of_ledger(self, flags: Bools) -> Bools:
        """Return which ledgers have a window with a flag in ``flags``."""
        has_flag: Bools = np.bincount(self.ledger[flags], minlength=len(self.times)) > 0
        return has_flag

    @staticmethod
    def concat(parts: Sequence[Windows]) -> Windows:
        """Concatenate windows. No ledger may be in two parts."""
        ledger_offsets = np.cumsum([0, *(len(part.times) for part in parts)])
        width = max(part.bookies.shape[1] for part in parts)
        columns = {
            name: np.concatenate([_widen_rows(getattr(part, name), width, name) for part in parts])
            for name in _WINDOW_FIELDS
        }
        ledger_shifts = np.repeat(ledger_offsets[:-1], [len(part) for part in parts])
        columns["ledger"] = columns["ledger"] + ledger_shifts
        ids = [part.ids for part in parts if part.ids is not None]
        return Windows(
            **columns,
            bounds=None,
            times=np.concatenate([part.times for part in parts]),
            ids=np.concatenate(ids) if len(ids) == len(parts) else None,
        )


_WINDOW_FIELDS = tuple(
    column.name for column in fields(Windows) if column.name not in ("bounds", "times", "ids")
)


def _widen_rows(rows: NDArray[np.generic], width: int, name: str) -> NDArray[np.generic]:
    if rows.ndim == 1 or rows.shape[1] == width:
        return rows
    padded_rows = np.full((len(rows), width), NO_BOOKIE if name == "bookies" else PRESENT, rows.dtype)
    padded_rows[:, : rows.shape[1]] = rows
    return padded_rows


def distinct_values(values: NDArray[_Number]) -> NDArray[_Number]:
    """Return each value once, in ascending order. Sorting is faster than NumPy's hashing here.

    >>> distinct_values(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    sorted_values: NDArray[_Number] = np.sort(values)
    distinct: NDArray[_Number] = sorted_values[
        np.append(True, sorted_values[1:] != sorted_values[:-1])[: len(sorted_values)]
    ]
    return distinct


def count_true(rows: Bools) -> Longs:
    """Count the true values of each row. The function adds up columns, because rows are short and many.

    >>> count_true(np.array([[True, True], [False, True]])).tolist()
    [2, 1]
    """
    counts = np.zeros(len(rows), np.int64)
    for column in range(rows.shape[1]):
        counts += rows[:, column]
    return counts


def any_true(rows: Bools) -> Bools:
    """Return for each row whether any of its values is true."""
    has_true = np.zeros(len(rows), bool)
    for column in range(rows.shape[1]):
        has_true |= rows[:, column]
    return has_true


class BookieNumbers:
    """Numbers that stand for bookies. They follow the order of first use."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._numbers = {name: number for number, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def names(self) -> list[str]:
        """Return the names of the bookies. The index of a name is the bookie's number."""
        return list(self._numbers)

    def of(self, names: pa.Array | pa.ChunkedArray) -> Ints:
        """Return the number of each name of a column without nulls. A new name gets the next number.

        >>> import pyarrow as pa
        >>> BookieNumbers(["b"]).of(pa.array(["a", "b", "a"])).tolist()
        [1, 0, 1]
        """
        chunks = names.chunks if isinstance(names, pa.ChunkedArray) else [names]
        number_chunks = [np.zeros(0, np.int32)]
        for chunk in chunks:
            encoded_names = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            numbers = [
                self._numbers.setdefault(name, len(self._numbers))
                for name in encoded_names.dictionary.to_pylist()
            ]
            number_chunks.append(
                np.array(numbers, np.int32)[encoded_names.indices.to_numpy(zero_copy_only=False)]
            )
        return np.concatenate(number_chunks)


def count_in_class(first_entries: Longs, last: Longs, residue: Longs, ensemble: Longs | int) -> Longs:
    """Count the entries from ``first_entries`` to ``last`` whose id has this residue modulo the ensemble
    size.

    >>> [int(count_in_class(np.int64(5), np.int64(9), np.int64(p), 3)) for p in range(3)]
    [2, 1, 2]
    """
    counts: Longs = np.maximum((last - residue) // ensemble - (first_entries - 1 - residue) // ensemble, 0)
    return counts


def column_of(ledgers: pa.RecordBatch, name: str, missing: int = 0) -> Longs:
    """Return a column of integers, one per ledger. A null becomes ``missing``."""
    column: Longs = ledgers[name].cast("int64").fill_null(missing).to_numpy(zero_copy_only=False)
    return column


def segment_columns(ledgers: pa.RecordBatch, numbers: BookieNumbers) -> SegmentColumns:
    """Return the segments of rows of the table ``ledgers``."""
    is_closed = pc.equal(ledgers["state"].cast("string"), LedgerState.CLOSED.value).fill_null(False)
    segments = ledgers["segments"].flatten()
    ensembles = segments.field("ensemble")
    members = numbers.of(ensembles.flatten())
    ledger_of_segment = np.repeat(
        np.arange(ledgers.num_rows),
        pc.list_value_length(ledgers["segments"]).fill_null(0).to_numpy(zero_copy_only=False),
    )
    sizes = pc.list_value_length(ensembles).to_numpy(zero_copy_only=False).astype(np.int64)
    return SegmentColumns(
        np.stack([column_of(ledgers, name) for name in LEDGER], axis=1),
        members,
        ledger_of_segment,
        segments.field("first_entry_id").to_numpy(zero_copy_only=False),
        np.cumsum(sizes) - sizes,
        is_closed.to_numpy(zero_copy_only=False)[ledger_of_segment],
        column_of(ledgers, "last_entry_id", -1)[ledger_of_segment],
        column_of(ledgers, "ensemble_size")[ledger_of_segment],
        column_of(ledgers, "write_quorum")[ledger_of_segment],
        column_of(ledgers, "ack_quorum")[ledger_of_segment],
    )


@dataclass(frozen=True)
class SegmentColumns:
    """Segments of ledgers, one element per segment. ``ledger`` is the number of the segment's ledger.

    ``members`` has the numbers of all bookies, ensemble after ensemble. ``starts`` has, for each segment, the
    index in ``members`` at which its ensemble begins. ``ids`` has scope and id, one row per ledger.
    """

    ids: Longs
    members: Ints
    ledger: Longs
    first: Longs
    starts: Longs
    closed: Bools
    last_entry: Longs
    ensemble_size: Longs
    write_quorum: Longs
    ack_quorum: Longs

    def any_of_ledger(self, flags: Bools) -> Bools:
        """Return which ledgers have a segment with a flag in ``flags``."""
        has_flag: Bools = np.bincount(self.ledger[flags], minlength=len(self.ids)) > 0
        return has_flag

    def any_of_members(self, flags: Bools) -> Bools:
        """Return which ledgers have a member with a flag in ``flags``."""
        rows = np.zeros(len(self.starts), bool)
        rows[np.searchsorted(self.starts, np.flatnonzero(flags), "right") - 1] = True
        return self.any_of_ledger(rows)

    def flag_equal_neighbours(self, value_of_bookie: Longs) -> Bools:
        """Return for each member whether the next member of its ensemble has the same ``value_of_bookie``."""
        values = value_of_bookie[self.members]
        equals_next = np.zeros(len(values), bool)
        np.equal(values[:-1], values[1:], out=equals_next[:-1])
        last_positions = np.append(self.starts[1:], len(values))[: len(self.starts)] - 1
        equals_next[last_positions] = values[last_positions] == values[self.starts]
        return equals_next

    def ends(self) -> tuple[Longs, Bools]:
        """Return the last entry of each segment, and whether the segment is an open end."""
        is_last_segment = np.append(self.ledger[1:] != self.ledger[:-1], True)[: len(self.ledger)]
        entries_before = np.append(self.first[1:] - 1, 0)[: len(self.first)]
        last = np.where(is_last_segment, self.last_entry, entries_before)
        return np.where(self.closed, np.minimum(last, self.last_entry), last), is_last_segment & ~self.closed


def windows_of(ledgers: pa.RecordBatch, numbers: BookieNumbers) -> Windows:
    """Return the windows of rows of the table ``ledgers`` with decidable metadata.

    All copies count as present, and bytes are 0.
    """
    segments = segment_columns(ledgers, numbers)
    ids, empty_column = segments.ids, np.zeros(0, np.int64)
    last, open_end = segments.ends()
    max_write_quorum = int(segments.write_quorum.max(initial=1))
    parts = [(empty_column, np.zeros((0, max_write_quorum), np.int32), empty_column, empty_column)]
    for shape in distinct_values(segments.ensemble_size << 32 | segments.write_quorum).tolist():
        size, quorum = shape >> 32, shape & 0xFFFFFFFF
        rows = np.flatnonzero((segments.ensemble_size == size) & (segments.write_quorum == quorum))
        residues = np.arange(size if quorum < size else 1)
        ensemble_positions = (residues[:, None] + np.arange(quorum)) % size
        ensembles = segments.members[segments.starts[rows, None] + np.arange(size)]
        first_entries, last_entries = segments.first[rows, None], last[rows, None]
        entries = (
            count_in_class(first_entries, last_entries, residues, size)
            if quorum < size
            else np.maximum(last_entries - first_entries + 1, 0)
        )
        entries = np.where(open_end[rows, None], 0, entries)
        has_window = (entries > 0) | open_end[rows, None]
        row, residue = np.nonzero(has_window)
        bookie_rows = np.full((len(row), max_write_quorum), NO_BOOKIE, np.int32)
        bookie_rows[:, :quorum] = ensembles[:, ensemble_positions][row, residue]
        segment_rows = rows[row]
        parts.append(
            (
                segment_rows,
                bookie_rows,
                entries[row, residue],
                residue if quorum < size else np.full(len(row), -1),
            )
        )
    segment_rows, bookie_rows, entries, residue = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    segment_order = np.lexsort((residue, segment_rows))
    segment_rows = segment_rows[segment_order]
    return Windows(
        ledger=segments.ledger[segment_rows],
        bookies=bookie_rows[segment_order],
        copies=np.zeros(bookie_rows.shape, np.int8),
        write_quorum=segments.write_quorum[segment_rows],
        ack_quorum=segments.ack_quorum[segment_rows],
        entries=entries[segment_order],
        bytes=np.zeros(len(segment_rows), np.int64),
        open_end=open_end[segment_rows],
        residue=residue[segment_order],
        bounds=np.stack(
            [segments.first[segment_rows], last[segment_rows], segments.ensemble_size[segment_rows]], axis=1
        ),
        times=np.ones(len(ids), np.int64),
        ids=ids,
    )


def with_bytes(windows: Windows, length: Longs) -> Windows:
    """Return the windows with bytes: a ledger's length, divided among its windows in proportion to entries.

    The parts add up to the length. ``length`` has one element per ledger. ``bounds`` is None afterwards.
    """
    entries_to_window = np.cumsum(windows.entries)
    is_ledger_start = np.append(True, windows.ledger[1:] != windows.ledger[:-1])[: len(windows)]
    entries_before = np.zeros(len(windows.times), np.int64)
    entries_before[windows.ledger[is_ledger_start]] = (entries_to_window - windows.entries)[is_ledger_start]
    entry_totals = np.zeros(len(windows.times), np.int64)
    np.add.at(entry_totals, windows.ledger, windows.entries)
    ledger_entries = np.maximum(entry_totals, 1)[windows.ledger]
    byte_edges = np.rint(
        (entries_to_window - entries_before[windows.ledger]) / ledger_entries * length[windows.ledger]
    ).astype(np.int64)
    previous_edges = np.append(0, byte_edges[:-1])[: len(byte_edges)]
    return replace(windows, bytes=byte_edges - np.where(is_ledger_start, 0, previous_edges), bounds=None)


def merge_equal_ledgers(windows: Windows) -> Windows:
    """Merge ledgers with equal windows: same bookies, quorums, copies and open ends.

    Entries and bytes of equal windows are added up. The ids of the ledgers are lost. Later steps then take
    time for each different ledger only.
    """
    window_counts = np.bincount(windows.ledger, minlength=len(windows.times))
    first_windows = np.cumsum(window_counts) - window_counts
    copy_codes = np.where(windows.bookies == NO_BOOKIE, NO_BOOKIE, windows.bookies * 4 + windows.copies)
    # Where a segment has one window, the order in its ensemble says nothing.
    copy_codes = np.where((windows.residue < 0)[:, None], -np.sort(-copy_codes, axis=1), copy_codes)
    quorum_keys = windows.write_quorum * 4096 + windows.ack_quorum * 2 + windows.open_end
    keys = np.ascontiguousarray(np.column_stack([copy_codes, quorum_keys, windows.residue]).astype(np.int32))
    merged_parts = []
    for window_count in distinct_values(window_counts[window_counts > 0]).tolist():
        ledgers = np.flatnonzero(window_counts == window_count)
        rows = first_windows[ledgers, None] + np.arange(window_count)
        kind_numbers, example_rows = distinct_rows(keys[rows].reshape(len(ledgers), -1))
        kind_count = len(example_rows)
        sums = np.zeros((3, kind_count, window_count), np.int64)
        np.add.at(sums[0], kind_numbers, windows.entries[rows])
        np.add.at(sums[1], kind_numbers, windows.bytes[rows])
        np.add.at(sums[2], kind_numbers, windows.times[ledgers, None])
        example_codes = copy_codes[rows[example_rows].ravel()]
        merged_parts.append(
            replace(
                windows.take(rows[example_rows].ravel()),
                ledger=np.repeat(np.arange(kind_count), window_count),
                bookies=np.where(example_codes < 0, NO_BOOKIE, example_codes // 4).astype(np.int32),
                copies=np.where(example_codes < 0, PRESENT, example_codes % 4).astype(np.int8),
                entries=sums[0].ravel(),
                bytes=sums[1].ravel(),
                times=sums[2][:, 0],
                ids=None,
            )
        )
    return Windows.concat(merged_parts) if merged_parts else replace(windows, ids=None)
