"""The segments of a batch of ledgers as arrays, whole ensembles with them.

    ledger       0              1                   rows of the batch
    segment      0       1      2                   ``ledger`` says whose it is
    member       a b c | a b d | c d                one row of ``members`` a segment, filled up

Windows (`auditor.simulate.windows`) say where entries are. What replaces a bookie also depends on the other
members of its ensemble, and on segments that have no entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from auditor.model.columns import LEDGER
from auditor.model.ledger_metadata import LedgerState
from auditor.simulate.windows import NO_BOOKIE, BookieNumbers, Bools, Longs

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    *LEDGER, "status", "undecidable", "state", "ensemble_size", "write_quorum", "ack_quorum",
    "last_entry_id", "length", "segments",
)  # fmt: skip
"""Of the table ledgers, what is read."""


@dataclass(frozen=True, slots=True)
class Segments:
    """One element a segment, those of a ledger in order; ``ids`` and ``entry_bytes`` have one a ledger.

    ``last`` is below ``first`` where a segment has no entry, or is the open end of its ledger, whose last
    entry no metadata says. ``members`` are numbers of bookies, `NO_BOOKIE` past the ensemble. ``ids`` are
    scope and ledger; ``entry_bytes`` the mean payload of an entry, NaN where the ledger is not closed.
    """

    ids: Longs
    entry_bytes: NDArray[np.float64]
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


def segments_of(rows: pa.RecordBatch, numbers: BookieNumbers) -> Segments:
    """The segments of rows of the table ledgers whose metadata can be judged."""
    import pyarrow.compute as pc

    def column(name: str, missing: int = -1) -> Longs:
        values: Longs = rows[name].cast("int64").fill_null(missing).to_numpy(zero_copy_only=False)
        return values

    ids = np.stack([column(name, 0) for name in LEDGER], axis=1)
    closed = pc.equal(rows["state"], LedgerState.CLOSED.value).to_numpy(zero_copy_only=False)
    lists = pc.list_value_length(rows["segments"]).fill_null(0).to_numpy(zero_copy_only=False)
    ledger = np.repeat(np.arange(len(rows)), lists)
    flat = rows["segments"].flatten()
    first = flat.field("first_entry_id").to_numpy(zero_copy_only=False)
    end = np.append(ledger[1:] != ledger[:-1], True)[: len(ledger)]
    # Several segments may begin behind the last entry of a closed ledger.
    last, last_entry = np.append(first[1:], 0)[: len(first)] - 1, column("last_entry_id")
    bound = last_entry[ledger]
    last = np.where(closed[ledger], np.minimum(np.where(end, bound, last), bound), last)
    open_end = end & ~closed[ledger]
    entries = np.where(closed & (last_entry >= 0), last_entry + 1, 1)
    return Segments(
        ids,
        np.where(closed, np.maximum(column("length"), 0) / entries, np.nan),
        ledger,
        first,
        np.where(open_end, first - 1, last),
        open_end,
        column("ensemble_size")[ledger],
        column("write_quorum")[ledger],
        column("ack_quorum")[ledger],
        _square(flat.field("ensemble"), numbers),
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


def _square(ensembles: pa.Array, numbers: BookieNumbers) -> NDArray[np.int32]:
    import pyarrow.compute as pc

    sizes = pc.list_value_length(ensembles).to_numpy(zero_copy_only=False)
    filled = np.full((len(sizes), int(sizes.max(initial=0))), NO_BOOKIE, np.int32)
    filled[np.arange(filled.shape[1]) < sizes[:, None]] = numbers.of(ensembles.flatten())
    return filled
