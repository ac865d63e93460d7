"""Ledgers that the registered bookies cannot fully serve now: rows of the table ``reachability`` in batches.

For each window (`auditor.simulate.windows`) it checks whether a registered member may have a copy. An unknown
copy counts as existing, so that no row claims more than is known. Recovery of an open end needs, in every
window, fewer than Qa members that do not answer (``RRQuorumCoverageSet``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.codecs.availability.groups import offsets_of
from auditor.model.columns import LEDGER
from auditor.model.states import LISTED, Reach
from auditor.runs.directory import RunDirectory
from auditor.simulate.run_windows import CopiesToday
from auditor.simulate.windows import (
    COLUMNS,
    MISSING,
    NO_BOOKIE,
    BookieNumbers,
    Bools,
    Longs,
    Windows,
    any_true,
    count_true,
    segment_columns,
    windows_of,
)
from auditor.spark.batches import TableFiles
from auditor.tables.reachability import REACHABILITY

_ROWS = 1 << 16


def reachability_rows(
    files: TableFiles, run: str, bookies: Sequence[str], down: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `REACHABILITY` for the ledgers of some files.

    Args:
        files: Files of the table ``ledgers``.
        run: The run directory, with the tables ``judged`` and ``bookies``.
        bookies: Every bookie that an ensemble names.
        down: The bookies that are certainly not registered.
    """
    numbers = BookieNumbers(bookies)
    # One more element: NO_BOOKIE, which is -1, fills narrow windows and is never down.
    asleep = np.array([*(name in down for name in bookies), False])
    copies = CopiesToday(RunDirectory(run), numbers, missing_only=True)
    listed = pa.array([str(status) for status in LISTED])
    for rows in files.row_groups(COLUMNS, (), _ROWS):
        judged = pc.and_(pc.is_in(rows["status"], listed), pc.invert(rows["undecidable"].fill_null(True)))
        for batch in rows.filter(pc.and_(judged, rows[LEDGER[-1]].is_valid())).combine_chunks().to_batches():
            segments = segment_columns(batch, numbers)
            concerned = segments.any_of_members(asleep[segments.members])
            if concerned.any():
                windows = copies.of(windows_of(batch.filter(pa.array(concerned)), numbers))
                yield _rows_of(windows, asleep, bookies)


def _rows_of(windows: Windows, asleep: Bools, bookies: Sequence[str]) -> pa.RecordBatch:
    member = windows.bookies != NO_BOOKIE
    down = asleep[windows.bookies] & member
    present = member & (windows.copies != MISSING)
    reachable = count_true(present & ~down)
    sleeping = any_true(present & down) & ~windows.open_end
    flags = {
        Reach.UNAVAILABLE: sleeping & (reachable == 0),
        Reach.UNRECOVERABLE: windows.open_end & (count_true(down) >= windows.ack_quorum),
        Reach.SINGLE_COPY: sleeping & (reachable == 1),
    }
    reach = np.full(len(windows.times), -1)
    for place, flag in reversed(list(enumerate(flags.values()))):
        reach[windows.any_of_ledger(flag)] = place
    chosen = np.zeros(len(windows), bool)
    for place, flag in enumerate(flags.values()):
        chosen |= flag & (reach[windows.ledger] == place)
    ledgers = np.flatnonzero(reach >= 0)
    entries = np.zeros(len(reach), np.int64)
    np.add.at(entries, windows.ledger[chosen], windows.entries[chosen])
    assert windows.ids is not None
    names = pa.array([str(reach_kind) for reach_kind in flags])
    columns = {
        **{name: windows.ids[ledgers, place] for place, name in enumerate(LEDGER)},
        "reach": decoded(reach[ledgers], names),
        "entries": entries[ledgers],
        "bookies": _down_members(windows, chosen, down, ledgers, bookies),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in REACHABILITY], schema=REACHABILITY
    )


def _down_members(
    windows: Windows, chosen: Bools, down: Bools, ledgers: Longs, bookies: Sequence[str]
) -> pa.ListArray:
    """Return the members that are down in the chosen windows: a list per ledger, sorted by id."""
    row, seat = np.nonzero(down & chosen[:, None])
    order = np.argsort(np.array(bookies, object), kind="stable") if len(bookies) else np.zeros(0, np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    pairs = np.unique(windows.ledger[row] * len(bookies) + rank[windows.bookies[row, seat]])
    ledger, place = np.divmod(pairs, max(len(bookies), 1))
    counts = np.bincount(np.searchsorted(ledgers, ledger), minlength=len(ledgers))
    names = pa.array([bookies[number] for number in order.tolist()], pa.string())
    return pa.ListArray.from_arrays(offsets_of(counts).astype(np.int32), decoded(place, names))


def decoded(codes: Longs, names: pa.Array) -> pa.Array:
    """Return the name for each code, which is an index in ``names``."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), names).dictionary_decode()
