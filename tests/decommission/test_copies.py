"""Closed-form copy counts compared with a worker that goes entry by entry, as the server's classes do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auditor.decommission.targets import BATCH_ENTRIES, GonePositions


@st.composite
def segments(draw: st.DrawFn) -> list[tuple[int, int, int, int, tuple[bool, ...]]]:
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 7))
        first = draw(st.integers(0, 60))
        last = first + draw(st.integers(-1, 90))
        gone_flags = draw(st.tuples(*[st.booleans()] * size))
        rows.append((first, last, size, draw(st.integers(1, size)), gone_flags))
    return rows


def gone_positions_of(rows: list[tuple[int, int, int, int, tuple[bool, ...]]]) -> GonePositions:
    width = max(len(row[4]) for row in rows)
    gone_flags = np.array([[*row[4], *[False] * (width - len(row[4]))] for row in rows])
    first, last, size, quorum = (np.array([row[column] for row in rows], np.int64) for column in range(4))
    return GonePositions(first, last, size, quorum, gone_flags)


def window(entry: int, size: int, quorum: int) -> list[int]:
    return [(entry + step) % size for step in range(quorum)]


def copied(first: int, last: int, size: int, quorum: int, gone_flags: tuple[bool, ...]) -> int:
    """Count copies as `LedgerFragmentReplicator` does: per batch, from first to last stored entry."""
    total = 0
    for start in range(first, last + 1, BATCH_ENTRIES):
        batch = range(start, min(start + BATCH_ENTRIES, last + 1))
        stored = [entry for entry in batch if any(gone_flags[place] for place in window(entry, size, quorum))]
        total += stored[-1] - stored[0] + 1 if stored else 0
    return total


@given(segments())
def test_closed_form_counts_equal_an_entry_by_entry_worker(
    rows: list[tuple[int, int, int, int, tuple[bool, ...]]],
) -> None:
    form = gone_positions_of(rows)
    assert form.count_copied_entries().tolist() == [copied(*row) for row in rows]
    counts, lost, firsts = form.count_entries(), form.count_gone_positions(), form.first_remaining_position()
    for index, (first, last, size, quorum, gone_flags) in enumerate(rows):
        entries = range(first, last + 1)
        for position in range(size):
            assert counts[index, position] == sum(entry % size == position for entry in entries)
            assert lost[index, position] == sum(gone_flags[place] for place in window(position, size, quorum))
            stays = [place for place in window(position, size, quorum) if not gone_flags[place]]
            assert firsts[index, position] == (stays[0] if stays else -1)
        assert not counts[index, size:].any()
        assert not lost[index, size:].any()
