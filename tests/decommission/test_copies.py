"""The closed forms against a worker that goes entry by entry, as the server's classes do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auditor.decommission.targets import BATCH_ENTRIES, GonePositions


@st.composite
def segments(draw: st.DrawFn) -> list[tuple[int, int, int, int, tuple[bool, ...]]]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 7))
        first = draw(st.integers(0, 60))
        last = first + draw(st.integers(-1, 90))
        gone = draw(st.tuples(*[st.booleans()] * size))
        found.append((first, last, size, draw(st.integers(1, size)), gone))
    return found


def seats_of(rows: list[tuple[int, int, int, int, tuple[bool, ...]]]) -> GonePositions:
    width = max(len(row[4]) for row in rows)
    gone = np.array([[*row[4], *[False] * (width - len(row[4]))] for row in rows])
    first, last, size, quorum = (np.array([row[at] for row in rows], np.int64) for at in range(4))
    return GonePositions(first, last, size, quorum, gone)


def window(entry: int, size: int, quorum: int) -> list[int]:
    return [(entry + step) % size for step in range(quorum)]


def copied(first: int, last: int, size: int, quorum: int, gone: tuple[bool, ...]) -> int:
    """`LedgerFragmentReplicator`: batches of the fragment, each from its first to its last stored entry."""
    total = 0
    for start in range(first, last + 1, BATCH_ENTRIES):
        batch = range(start, min(start + BATCH_ENTRIES, last + 1))
        stored = [entry for entry in batch if any(gone[place] for place in window(entry, size, quorum))]
        total += stored[-1] - stored[0] + 1 if stored else 0
    return total


@given(segments())
def test_closed_forms_say_what_a_worker_does_entry_by_entry(
    rows: list[tuple[int, int, int, int, tuple[bool, ...]]],
) -> None:
    seats = seats_of(rows)
    assert seats.count_copied_entries().tolist() == [copied(*row) for row in rows]
    counts, lost, left = seats.count_entries(), seats.count_gone_positions(), seats.first_remaining_position()
    for at, (first, last, size, quorum, gone) in enumerate(rows):
        entries = range(first, last + 1)
        for each in range(size):
            assert counts[at, each] == sum(entry % size == each for entry in entries)
            assert lost[at, each] == sum(gone[place] for place in window(each, size, quorum))
            stays = [place for place in window(each, size, quorum) if not gone[place]]
            assert left[at, each] == (stays[0] if stays else -1)
        assert not counts[at, size:].any()
        assert not lost[at, size:].any()
