"""The closed form compared with the write sets of single entries, and with the server's own schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.striping import entries_short_of_copies, most_missing_copies, stripe
from tests.codecs.bp34_vectors import vectors
from tests.codecs.scalar import entries_of, greedy, packed, runs_of_entries, write_set

SHAPES = [(ensemble, quorum) for ensemble in range(1, 8) for quorum in range(1, ensemble + 1)]
RANGES = [(first, last) for first in [*range(9), 10**12 + 5] for last in range(first - 2, first + 18)]


@pytest.mark.parametrize(("ensemble", "quorum"), SHAPES)
def test_stripe_matches_the_write_sets_entry_by_entry(ensemble: int, quorum: int) -> None:
    rows = [(first, last, index) for first, last in RANGES for index in range(ensemble)]
    first, last, index = np.array(rows, np.int64).T
    batch = stripe(first, last, index, np.array([ensemble]), np.array([quorum]))
    folded = fold(batch)
    groups = list(
        zip(*(part.tolist() for part in (batch.first, batch.last, batch.size, batch.period)), strict=True)
    )
    values = folded.values()
    for row, (low, high, member) in enumerate(rows):
        entries = [entry for entry in range(low, high + 1) if member in write_set(entry, ensemble, quorum)]
        start, end = batch.offsets[row : row + 2].tolist()
        assert entries_of(groups[start:end]) == entries
        assert values[row] == packed(greedy(runs_of_entries(entries)))
        assert end - start <= 3
        assert len(values[row]) <= 3 * 24


def test_stripe_matches_the_schedule_of_the_server() -> None:
    """The server refuses empty segments and indexes beyond the ensemble; our empty segment has no entries."""
    schedule = vectors("striping")
    for vector in schedule:
        shape = (vector["bookieIndex"], vector["ensembleSize"], vector["writeQuorumSize"])
        if "error" in vector:
            assert vector["last"] < vector["start"] or shape[0] >= shape[1]
            continue
        batch = stripe(*(np.array([number]) for number in (vector["start"], vector["last"], *shape)))
        groups = zip(
            *(part.tolist() for part in (batch.first, batch.last, batch.size, batch.period)), strict=True
        )
        assert entries_of(groups) == vector["entries"]
    assert len(schedule) > 100


def test_stripe_at_the_end_of_the_entry_id_space_does_not_overflow() -> None:
    last = 2**63 - 2
    batch = stripe(np.array([last - 3]), np.array([last]), np.array([1]), np.array([3]), np.array([2]))
    groups = zip(
        *(part.tolist() for part in (batch.first, batch.last, batch.size, batch.period)), strict=True
    )
    entries = [entry for entry in range(last - 3, last + 1) if 1 in write_set(entry, 3, 2)]
    assert entries_of(groups) == entries


WIDEST = 7


@st.composite
def segments(draw: st.DrawFn) -> tuple[int, int, int, int, set[int], set[int]]:
    ensemble = draw(st.integers(1, WIDEST))
    first = draw(st.one_of(st.integers(0, 20), st.just(10**12 + 3)))
    members = st.sets(st.integers(0, ensemble - 1))
    last = first + draw(st.integers(-2, 20))
    return first, last, ensemble, draw(st.integers(1, ensemble)), draw(members), draw(members)


def flags(sets: list[set[int]], ensemble: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return one row per set. Cells beyond a row's own ensemble may have any value."""
    bits = np.array([[index in row for index in range(WIDEST)] for row in sets], np.bool_).reshape(-1, WIDEST)
    return bits | (np.arange(WIDEST) >= ensemble[:, None])


@given(st.lists(segments(), max_size=8))
def test_most_missing_copies_match_the_entries_counted_one_by_one(
    rows: list[tuple[int, int, int, int, set[int], set[int]]],
) -> None:
    first, last, ensemble, quorum = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4).T
    missing = flags([row[4] for row in rows], ensemble)
    doubtful = flags([row[5] for row in rows], ensemble)
    counts = most_missing_copies(first, last, ensemble, quorum, missing, doubtful)
    for row, (low, high, members, copies, lost, unread) in enumerate(rows):
        sets = [write_set(entry, members, copies) for entry in range(low, high + 1)]
        assert counts[0][row] == max((len(indexes & lost) for indexes in sets), default=0)
        assert counts[1][row] == max((len(indexes & (lost | unread)) for indexes in sets), default=0)


@given(st.lists(segments(), min_size=1, max_size=8), st.integers(1, 4))
def test_entries_short_of_copies_match_the_entries_counted_one_by_one(
    rows: list[tuple[int, int, int, int, set[int], set[int]]], least: int
) -> None:
    first, last, ensemble, quorum = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4).T
    missing = flags([row[4] for row in rows], ensemble)
    sets, exact = entries_short_of_copies(first, last, ensemble, quorum, missing, np.full(len(rows), least))
    for row, (low, high, members, copies, lost, _) in enumerate(rows):
        short = [
            residue for residue in range(members) if len(write_set(residue, members, copies) & lost) >= least
        ]
        # One run: only one of them does not follow another, on the round of the ensemble.
        assert exact[row] == (sum((residue - 1) % members not in short for residue in short) <= 1)
        if exact[row]:
            row_slice = slice(sets.offsets[row], sets.offsets[row + 1])
            short_entries = entries_of(list(map(tuple, sets.groups()[row_slice].tolist())))
            assert short_entries == [entry for entry in range(low, high + 1) if entry % members in short]
