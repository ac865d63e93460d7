"""Folding a set in pieces gives the same result as folding the whole set."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.availability import fold, maximal
from auditor.codecs.availability.fold import IncrementalFold, fold_entries, fold_runs
from auditor.codecs.availability.groups import GroupBatch
from auditor.errors import CoverageLimitError
from tests.examples import examples


def folded(entries: list[int]) -> GroupBatch:
    return fold_entries(np.array(entries, np.int64), np.array([0, len(entries)]))


# Runs of few sizes at few distances: they join, chain and touch far more often than random ones.
runs = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=60)


@settings(max_examples=examples(300), deadline=None)
@given(runs=runs, cuts=st.sets(st.integers(0, 150)))
def test_incremental_fold_of_pieces_equals_the_full_fold(runs: list[tuple[int, int]], cuts: set[int]) -> None:
    entries: list[int] = []
    first_entry = 0
    for size, gap in runs:
        entries += range(first_entry, first_entry + size)
        first_entry += size + gap
    ends = [0, *sorted(cut for cut in cuts if cut < len(entries)), len(entries)]
    pieces = IncrementalFold()
    for start, end in pairwise(ends):
        pieces.add(folded(entries[start:end]))
    assert pieces.result().values() == folded(entries).values()


def test_incremental_fold_follows_a_chain_shifted_by_one_run() -> None:
    # Distances that all differ: every run joins the one before it, so one run more in front shifts all pairs.
    starts = np.cumsum(np.arange(2, 500)).tolist()
    pieces = IncrementalFold()
    pieces.add(folded([0]))
    pieces.add(folded(starts))
    assert pieces.result().values() == folded([0, *starts]).values()


def test_incremental_fold_splits_a_long_run_as_the_full_fold_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maximal, "MAX_RUN_ENTRIES", 10)
    monkeypatch.setattr("auditor.codecs.availability.fold.MAX_RUN_ENTRIES", 10)
    pieces = IncrementalFold()
    for start in range(0, 47, 7):
        pieces.add(fold_runs(np.array([start]), np.array([7]), np.array([0, 1])))
    assert pieces.result().values() == fold_runs(np.array([0]), np.array([49]), np.array([0, 1])).values()


def test_incremental_fold_refuses_more_groups_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MAX_GROUPS", 3)
    pieces = IncrementalFold()
    for start in (0, 100, 200):
        pieces.add(folded([start, start + 1]))
    for start in (1000, 1003, 1010, 1020):
        pieces.add(folded([start]))
    with pytest.raises(CoverageLimitError, match="more than 3 groups"):
        pieces.add(folded([1050]))


def test_incremental_fold_of_no_entries_is_empty() -> None:
    empty = IncrementalFold()
    empty.add(folded([]))
    assert empty.result().values() == [b""]
