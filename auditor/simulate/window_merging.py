"""Division of a ledger's bytes among its windows, and merging of ledgers with equal windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auditor.model.adherence import distinct_rows
from auditor.simulate.windows import NO_BOOKIE, PRESENT, Longs, Windows, distinct_values


def with_bytes(windows: Windows, length_by_ledger: Longs) -> Windows:
    """Return the windows with bytes: a ledger's length, divided among its windows in proportion to entries.

    The parts add up to the length of the ledger. ``segment_bounds`` is None in the result.
    """
    entries_to_window = np.cumsum(windows.entries)
    is_ledger_start = np.append(True, windows.ledger[1:] != windows.ledger[:-1])[: len(windows)]
    entries_before = np.zeros(len(windows.equal_ledger_counts), np.int64)
    entries_before[windows.ledger[is_ledger_start]] = (entries_to_window - windows.entries)[is_ledger_start]
    entry_totals = np.zeros(len(windows.equal_ledger_counts), np.int64)
    np.add.at(entry_totals, windows.ledger, windows.entries)
    ledger_entries = np.maximum(entry_totals, 1)[windows.ledger]
    byte_edges = np.rint(
        (entries_to_window - entries_before[windows.ledger])
        / ledger_entries
        * length_by_ledger[windows.ledger]
    ).astype(np.int64)
    previous_edges = np.append(0, byte_edges[:-1])[: len(byte_edges)]
    return replace(
        windows, bytes=byte_edges - np.where(is_ledger_start, 0, previous_edges), segment_bounds=None
    )


def merge_equal_ledgers(windows: Windows) -> Windows:
    """Merge ledgers with equal windows: same bookies, quorums, copies and open ends.

    Entries and bytes of equal windows are added up. The ids of the ledgers are lost. Later steps are faster,
    because they handle equal ledgers once.
    """
    window_counts = np.bincount(windows.ledger, minlength=len(windows.equal_ledger_counts))
    first_windows = np.cumsum(window_counts) - window_counts
    copy_codes = np.where(windows.bookies == NO_BOOKIE, NO_BOOKIE, windows.bookies * 4 + windows.copies)
    # If a segment has one window, the order of bookies in its ensemble has no effect.
    copy_codes = np.where((windows.entry_residue < 0)[:, None], -np.sort(-copy_codes, axis=1), copy_codes)
    quorum_keys = windows.write_quorum * 4096 + windows.ack_quorum * 2 + windows.is_open_end
    keys = np.ascontiguousarray(
        np.column_stack([copy_codes, quorum_keys, windows.entry_residue]).astype(np.int32)
    )
    merged_parts = []
    for window_count in distinct_values(window_counts[window_counts > 0]).tolist():
        ledgers = np.flatnonzero(window_counts == window_count)
        window_rows = first_windows[ledgers, None] + np.arange(window_count)
        number_of_kind, example_numbers = distinct_rows(keys[window_rows].reshape(len(ledgers), -1))
        kind_count = len(example_numbers)
        sums = np.zeros((3, kind_count, window_count), np.int64)
        np.add.at(sums[0], number_of_kind, windows.entries[window_rows])
        np.add.at(sums[1], number_of_kind, windows.bytes[window_rows])
        np.add.at(sums[2], number_of_kind, windows.equal_ledger_counts[ledgers, None])
        codes_of_examples = copy_codes[window_rows[example_numbers].ravel()]
        merged_parts.append(
            replace(
                windows.take(window_rows[example_numbers].ravel()),
                ledger=np.repeat(np.arange(kind_count), window_count),
                bookies=np.where(codes_of_examples < 0, NO_BOOKIE, codes_of_examples // 4).astype(np.int32),
                copies=np.where(codes_of_examples < 0, PRESENT, codes_of_examples % 4).astype(np.int8),
                entries=sums[0].ravel(),
                bytes=sums[1].ravel(),
                equal_ledger_counts=sums[2][:, 0],
                ids=None,
            )
        )
    return Windows.concat(merged_parts) if merged_parts else replace(windows, ids=None)
