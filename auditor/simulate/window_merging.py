"""Division of a ledger's bytes among its windows, and merging of ledgers with equal windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auditor.model.adherence import distinct_rows
from auditor.simulate.windows import NO_BOOKIE, PRESENT, Longs, Windows, distinct_values


def with_bytes(windows: Windows, length_by_ledger: Longs) -> Windows:
    """Return the windows with their bytes: each gets a part of its ledger's length, in proportion to entries.

    The parts add up to the length of the ledger. ``segment_bounds`` is None in the result.
    """
    cumulative_entries = np.cumsum(windows.entries)
    is_ledger_start = np.append(True, windows.ledger[1:] != windows.ledger[:-1])[: len(windows)]
    cumulative_entries_before_ledger = np.zeros(len(windows.equal_ledger_counts), np.int64)
    cumulative_entries_before_ledger[windows.ledger[is_ledger_start]] = (
        cumulative_entries - windows.entries
    )[is_ledger_start]
    entry_totals = np.zeros(len(windows.equal_ledger_counts), np.int64)
    np.add.at(entry_totals, windows.ledger, windows.entries)
    entries_of_ledger = np.maximum(entry_totals, 1)[windows.ledger]
    cumulative_bytes = np.rint(
        (cumulative_entries - cumulative_entries_before_ledger[windows.ledger])
        / entries_of_ledger
        * length_by_ledger[windows.ledger]
    ).astype(np.int64)
    previous_cumulative_bytes = np.append(0, cumulative_bytes[:-1])[: len(cumulative_bytes)]
    return replace(
        windows,
        bytes=cumulative_bytes - np.where(is_ledger_start, 0, previous_cumulative_bytes),
        segment_bounds=None,
    )


def merge_equal_ledgers(windows: Windows) -> Windows:
    """Merge ledgers whose windows have equal bookies, quorums, copy states and unclosed last segments.

    Entries and bytes of equal windows are added up. The ids of the ledgers are lost. Later steps are
    faster, because they process equal ledgers only once.
    """
    window_counts = np.bincount(windows.ledger, minlength=len(windows.equal_ledger_counts))
    first_window_by_ledger = np.cumsum(window_counts) - window_counts
    copy_codes = np.where(windows.bookies == NO_BOOKIE, NO_BOOKIE, windows.bookies * 4 + windows.copies)
    # If a segment has one window, the order of bookies in its ensemble has no effect.
    copy_codes = np.where((windows.entry_residue < 0)[:, None], -np.sort(-copy_codes, axis=1), copy_codes)
    quorum_keys = windows.write_quorum * 4096 + windows.ack_quorum * 2 + windows.is_open_end
    window_keys = np.ascontiguousarray(
        np.column_stack([copy_codes, quorum_keys, windows.entry_residue]).astype(np.int32)
    )
    merged_parts = []
    for window_count in distinct_values(window_counts[window_counts > 0]).tolist():
        ledgers = np.flatnonzero(window_counts == window_count)
        window_rows = first_window_by_ledger[ledgers, None] + np.arange(window_count)
        group_by_ledger, first_ledgers = distinct_rows(window_keys[window_rows].reshape(len(ledgers), -1))
        group_count = len(first_ledgers)
        sums_by_group = np.zeros((3, group_count, window_count), np.int64)
        np.add.at(sums_by_group[0], group_by_ledger, windows.entries[window_rows])
        np.add.at(sums_by_group[1], group_by_ledger, windows.bytes[window_rows])
        np.add.at(sums_by_group[2], group_by_ledger, windows.equal_ledger_counts[ledgers, None])
        group_copy_codes = copy_codes[window_rows[first_ledgers].ravel()]
        merged_parts.append(
            replace(
                windows.take(window_rows[first_ledgers].ravel()),
                ledger=np.repeat(np.arange(group_count), window_count),
                bookies=np.where(group_copy_codes < 0, NO_BOOKIE, group_copy_codes // 4).astype(np.int32),
                copies=np.where(group_copy_codes < 0, PRESENT, group_copy_codes % 4).astype(np.int8),
                entries=sums_by_group[0].ravel(),
                bytes=sums_by_group[1].ravel(),
                equal_ledger_counts=sums_by_group[2][:, 0],
                ids=None,
            )
        )
    return Windows.concat(merged_parts) if merged_parts else replace(windows, ids=None)
