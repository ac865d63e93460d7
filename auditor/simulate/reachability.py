"""Rows of the table ``reachability``: ledgers that the registered bookies cannot fully serve now.

The module yields the rows in batches. For each window (`auditor.simulate.windows`) it checks whether a
registered member may have a copy. An unknown copy counts as existing, so that a ledger is never reported
without proof. An open end is the last segment of a ledger that is not closed. Its recovery fails if Qa or
more members of a window do not answer (``RRQuorumCoverageSet``).
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
from auditor.simulate.copy_states import CopyStates
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
    make_windows,
    segment_columns,
)
from auditor.spark.table_files import TableFiles
from auditor.tables.reachability import REACHABILITY

_MAX_BATCH_ROWS = 1 << 16


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
    bookie_numbers = BookieNumbers(bookies)
    # One more element: NO_BOOKIE, which is -1, fills narrow windows and is never down.
    is_bookie_down = np.array([*(bookie in down_bookies for bookie in bookies), False])
    copy_states = CopyStates(RunDirectory(run), bookie_numbers, reads_missing_only=True)
    listed_states = pa.array([str(status) for status in LISTED])
    for table_rows in files.row_groups(WINDOW_COLUMNS, (), _MAX_BATCH_ROWS):
        is_decidable = pc.and_(
            pc.is_in(table_rows["status"], listed_states),
            pc.invert(table_rows["undecidable"].fill_null(True)),
        )
        for ledger_batch in (
            table_rows.filter(pc.and_(is_decidable, table_rows[LEDGER[-1]].is_valid()))
            .combine_chunks()
            .to_batches()
        ):
            segments = segment_columns(ledger_batch, bookie_numbers)
            has_down_member = segments.any_of_members(is_bookie_down[segments.members])
            if has_down_member.any():
                windows = copy_states.add_copy_states(
                    make_windows(ledger_batch.filter(pa.array(has_down_member)), bookie_numbers)
                )
                yield _reachability_batch(windows, is_bookie_down, bookies)


def _reachability_batch(windows: Windows, is_bookie_down: Bools, bookies: Sequence[str]) -> pa.RecordBatch:
    is_member = windows.bookies != NO_BOOKIE
    is_down_member = is_bookie_down[windows.bookies] & is_member
    may_be_present = is_member & (windows.copies != MISSING)
    reachable_counts = count_true(may_be_present & ~is_down_member)
    has_down_copy = any_true(may_be_present & is_down_member) & ~windows.is_open_end
    flags_by_problem = {
        Reach.UNAVAILABLE: has_down_copy & (reachable_counts == 0),
        Reach.UNRECOVERABLE: windows.is_open_end & (count_true(is_down_member) >= windows.ack_quorum),
        Reach.SINGLE_COPY: has_down_copy & (reachable_counts == 1),
    }
    problem_codes = np.full(len(windows.equal_ledger_counts), -1)
    for problem_code, has_problem in reversed(list(enumerate(flags_by_problem.values()))):
        problem_codes[windows.any_of_ledger(has_problem)] = problem_code
    is_reported = np.zeros(len(windows), bool)
    for problem_code, has_problem in enumerate(flags_by_problem.values()):
        is_reported |= has_problem & (problem_codes[windows.ledger] == problem_code)
    ledgers = np.flatnonzero(problem_codes >= 0)
    entries = np.zeros(len(problem_codes), np.int64)
    np.add.at(entries, windows.ledger[is_reported], windows.entries[is_reported])
    assert windows.ids is not None
    problem_names = pa.array([str(problem) for problem in flags_by_problem])
    columns = {
        **{
            key_column: windows.ids[ledgers, column_number] for column_number, key_column in enumerate(LEDGER)
        },
        "reach": decode_names(problem_codes[ledgers], problem_names),
        "entries": entries[ledgers],
        "bookies": _down_members(windows, is_reported, is_down_member, ledgers, bookies),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in REACHABILITY], schema=REACHABILITY
    )


def _down_members(
    windows: Windows, is_reported: Bools, is_down_member: Bools, ledgers: Longs, bookies: Sequence[str]
) -> pa.ListArray:
    """Return, for each ledger, the sorted ids of the down ensemble members of its reported windows."""
    window_rows, member_positions = np.nonzero(is_down_member & is_reported[:, None])
    bookie_order = (
        np.argsort(np.array(bookies, object), kind="stable") if len(bookies) else np.zeros(0, np.int64)
    )
    rank_by_bookie = np.empty(len(bookie_order), np.int64)
    rank_by_bookie[bookie_order] = np.arange(len(bookie_order))
    ledger_bookie_pairs = np.unique(
        windows.ledger[window_rows] * len(bookies)
        + rank_by_bookie[windows.bookies[window_rows, member_positions]]
    )
    ledger_rows, bookie_ranks = np.divmod(ledger_bookie_pairs, max(len(bookies), 1))
    bookie_counts = np.bincount(np.searchsorted(ledgers, ledger_rows), minlength=len(ledgers))
    sorted_bookies = pa.array(
        [bookies[bookie_number] for bookie_number in bookie_order.tolist()], pa.string()
    )
    return pa.ListArray.from_arrays(
        offsets_of(bookie_counts).astype(np.int32), decode_names(bookie_ranks, sorted_bookies)
    )


def decode_names(name_codes: Longs, names: pa.Array) -> pa.Array:
    """Return the name for each code. A code is an index into ``names``."""
    return pa.DictionaryArray.from_arrays(pa.array(name_codes), names).dictionary_decode()
