"""The worst entry of whole losses against write sets taken one entry at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from auditor.codecs.availability.worst import worst_of_whole
from tests.codecs.scalar import write_set

WIDEST = 7


@st.composite
def segments(draw: st.DrawFn) -> tuple[int, int, int, int, set[int], set[int]]:
    ensemble = draw(st.integers(1, WIDEST))
    first = draw(st.one_of(st.integers(0, 20), st.just(10**12 + 3)))
    members = st.sets(st.integers(0, ensemble - 1))
    last = first + draw(st.integers(-2, 20))
    return first, last, ensemble, draw(st.integers(1, ensemble)), draw(members), draw(members)


def flags(sets: list[set[int]], ensemble: NDArray[np.int64]) -> NDArray[np.bool_]:
    """One row a set; beyond a row's own ensemble there may be anything."""
    held = np.array([[index in one for index in range(WIDEST)] for one in sets], np.bool_).reshape(-1, WIDEST)
    return held | (np.arange(WIDEST) >= ensemble[:, None])


@given(st.lists(segments(), max_size=8))
def test_it_equals_the_write_sets_one_entry_at_a_time(
    rows: list[tuple[int, int, int, int, set[int], set[int]]],
) -> None:
    first, last, ensemble, quorum = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4).T
    gone = flags([row[4] for row in rows], ensemble)
    doubtful = flags([row[5] for row in rows], ensemble)
    found = worst_of_whole(first, last, ensemble, quorum, gone, doubtful)
    for row, (low, high, members, copies, lost, unread) in enumerate(rows):
        sets = [write_set(entry, members, copies) for entry in range(low, high + 1)]
        assert found[0][row] == max((len(one & lost) for one in sets), default=0)
        assert found[1][row] == max((len(one & (lost | unread)) for one in sets), default=0)
