"""Ledgers that the registered bookies cannot fully serve now: rows of the table ``reachability`` in batches.

For each window (`auditor.simulate.windows`) the module checks whether a registered member may have a copy. An
unknown copy counts as existing, so that no row claims more than is known. Recovery of an open end needs, in
every window, fewer than Qa members that do not answer (``RRQuorumCoverageSet``).
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
from auditor.simulate.run_windows import CopyStates
from auditor.simulate.windows import (
    MISSING,
    NO_BOOKIE,
    WINDOW_COLUMNS,
    BookieNumbers,
    Bools,
    Longs,
    Windows,
    any_true,
    count_true,
    segment_columns,
    windows_of,
)
from auditor.spark.table_files import TableFiles
from auditor.tables.reachability import REACHABILITY

_ROWS_A_BATCH = 1 << 16


def reachability_rows(
    files: TableFiles, run: str, bookies: Sequence[str], down_bookies: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `REACHABILITY` for the ledgers of some files.

    Args:
        files: Files of the table ``ledgers``.
        run: The run directory, with the tables ``judged`` and ``bookies``.
        bookies: Every bookie in an ensemble.
        down_bookies: The bookies that are certainly not registered.
    """
    numbers = BookieNumbers(bookies)
    # One more element: NO_BOOKIE, which is -1, fills narrow windows and is never down.
    is_down = np.array([*(name in down_bookies for name in bookies), False])
    copies = CopyStates(RunDirectory(run), numbers, missing_only=True)
    listed_states = pa.array([str(status) for status in LISTED])
    for rows in files.row_groups(WINDOW_COLUMNS, (), _ROWS_A_BATCH):
        is_decidable = pc.and_(
            pc.is_in(rows["status"], listed_states), pc.invert(rows["undecidable"].fill_null(True))
        )
        for batch in (
            rows.filter(pc.and_(is_decidable, rows[LEDGER[-1]].is_valid())).combine_chunks().to_batches()
        ):
            segments = segment_columns(batch, numbers)
            has_down_member = segments.any_of_members(is_down[segments.members])
            if has_down_member.any():
                windows = copies.of(windows_of(batch.filter(pa.array(has_down_member)), numbers))
                yield _reachability_batch(windows, is_down, bookies)


def _reachability_batch(windows: Windows, is_down: Bools, bookies: Sequence[str]) -> pa.RecordBatch:
    is_member = windows.bookies != NO_BOOKIE
    is_down_member = is_down[windows.bookies] & is_member
    is_present = is_member & (windows.copies != MISSING)
    reachable_counts = count_true(is_present & ~is_down_member)
    has_down_copy = any_true(is_present & is_down_member) & ~windows.open_end
    reach_flags = {
        Reach.UNAVAILABLE: has_down_copy & (reachable_counts == 0),
        Reach.UNRECOVERABLE: windows.open_end & (count_true(is_down_member) >= windows.ack_quorum),
        Reach.SINGLE_COPY: has_down_copy & (reachable_counts == 1),
    }
    reach_codes = np.full(len(windows.times), -1)
    for reach_code, has_reach in reversed(list(enumerate(reach_flags.values()))):
        reach_codes[windows.any_of_ledger(has_reach)] = reach_code
    is_reported = np.zeros(len(windows), bool)
    for reach_code, has_reach in enumerate(reach_flags.values()):
        is_reported |= has_reach & (reach_codes[windows.ledger] == reach_code)
    ledgers = np.flatnonzero(reach_codes >= 0)
    entries = np.zeros(len(reach_codes), np.int64)
    np.add.at(entries, windows.ledger[is_reported], windows.entries[is_reported])
    assert windows.ids is not None
    names = pa.array([str(reach_kind) for reach_kind in reach_flags])
    columns = {
        **{name: windows.ids[ledgers, place] for place, name in enumerate(LEDGER)},
        "reach": decode_names(reach_codes[ledgers], names),
        "entries": entries[ledgers],
        "bookies": _down_members(windows, is_reported, is_down_member, ledgers, bookies),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in REACHABILITY], schema=REACHABILITY
    )


def _down_members(
    windows: Windows, is_reported: Bools, is_down_member: Bools, ledgers: Longs, bookies: Sequence[str]
) -> pa.ListArray:
    """Return the members that are down in the chosen windows: a list per ledger, sorted by id."""
    row, member_positions = np.nonzero(is_down_member & is_reported[:, None])
    name_order = (
        np.argsort(np.array(bookies, object), kind="stable") if len(bookies) else np.zeros(0, np.int64)
    )
    name_rank = np.empty(len(name_order), np.int64)
    name_rank[name_order] = np.arange(len(name_order))
    ledger_name_pairs = np.unique(
        windows.ledger[row] * len(bookies) + name_rank[windows.bookies[row, member_positions]]
    )
    ledger_rows, name_ranks = np.divmod(ledger_name_pairs, max(len(bookies), 1))
    counts = np.bincount(np.searchsorted(ledgers, ledger_rows), minlength=len(ledgers))
    names = pa.array([bookies[number] for number in name_order.tolist()], pa.string())
    return pa.ListArray.from_arrays(offsets_of(counts).astype(np.int32), decode_names(name_ranks, names))


def decode_names(codes: Longs, names: pa.Array) -> pa.Array:
    """Return the name for each code, which is an index in ``names``."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), names).dictionary_decode()
