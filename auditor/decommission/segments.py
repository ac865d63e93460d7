"""The segments of a batch of ledgers as arrays, whole ensembles with them.

    ledger       0              1                   rows of the batch
    segment      0       1      2                   ``ledger`` says whose it is
    member       a b c | a b d | c d                one row of ``members`` a segment, filled up

Windows (`auditor.simulate.windows`) say where entries are. What replaces a bookie also depends on the other
members of its ensemble, and on segments that have no entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.simulate.windows import (
    NO_BOOKIE,
    BookieNumbers,
    Bools,
    Longs,
    SegmentColumns,
    column_of,
    segment_columns,
)


@dataclass(frozen=True, slots=True)
class Segments:
    """One element a segment, those of a ledger in order; ``ids`` and ``entry_bytes`` have one a ledger.

    ``last`` is below ``first`` where a segment has no entry, or is the open end of its ledger, whose last
    entry no metadata says. ``members`` are numbers of bookies, `NO_BOOKIE` past the ensemble. ``ids`` are
    scope and ledger; ``entry_bytes`` the mean payload of an entry, NaN where the ledger is not closed;
    ``isolation``, one a ledger too, is the number of the groups that it keeps to.
    """

    ids: Longs
    entry_bytes: NDArray[np.float64]
    isolation: Longs
    ledger: Longs
    first: Longs
    last: Longs
    open_end: Bools
    ensemble_size: Longs
    write_quorum: Longs
    ack_quorum: Longs
    members: NDArray[np.int32]

    def any_of_ledger(self, flags: Bools) -> Bools:
        """Which ledgers have a segment with this flag."""
        found: Bools = np.bincount(self.ledger[flags], minlength=len(self.ids)) > 0
        return found


def segments_of(rows: pa.RecordBatch, numbers: BookieNumbers, isolation: Longs) -> Segments:
    """The segments of rows of the table ledgers whose metadata can be judged."""
    found = segment_columns(rows, numbers)
    last, open_end = found.ends()
    last_entry, length = (column_of(rows, name, -1) for name in ("last_entry_id", "length"))
    closed = np.zeros(rows.num_rows, bool)
    closed[found.ledger[found.closed]] = True
    entries = np.where(closed & (last_entry >= 0), last_entry + 1, 1)
    return Segments(
        found.ids,
        np.where(closed, np.maximum(length, 0) / entries, np.nan),
        isolation,
        found.ledger,
        found.first,
        np.where(open_end, found.first - 1, last),
        open_end,
        found.ensemble,
        found.write_quorum,
        found.ack_quorum,
        _square(found),
    )


def name_any(rows: pa.RecordBatch, wanted: Bools, numbers: BookieNumbers) -> Bools:
    """Which rows have an ensemble that names one of the bookies ``wanted``, a flag for each number.

    Bookies beyond these get numbers of their own, and are not wanted.
    """
    import pyarrow.compute as pc

    lists = pc.list_value_length(rows["segments"]).fill_null(0).to_numpy(zero_copy_only=False)
    ensembles = rows["segments"].flatten().field("ensemble")
    sizes = pc.list_value_length(ensembles).to_numpy(zero_copy_only=False)
    members = numbers.of(ensembles.flatten())
    flags = np.zeros(len(numbers), bool)
    flags[: len(wanted)] = wanted
    owner = np.repeat(np.repeat(np.arange(len(rows)), lists), sizes)
    found: Bools = np.bincount(owner[flags[members]], minlength=len(rows)) > 0
    return found


def _square(segments: SegmentColumns) -> NDArray[np.int32]:
    sizes = np.diff(np.append(segments.at, len(segments.members)))
    filled = np.full((len(sizes), int(sizes.max(initial=0))), NO_BOOKIE, np.int32)
    filled[np.arange(filled.shape[1]) < sizes[:, None]] = segments.members
    return filled
