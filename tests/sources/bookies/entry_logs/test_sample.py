"""Tests of the sample of entries that are read: it is the same wherever the entries are stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.bookies.entry_logs.whole_entries import EntrySample

LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(LONGS, LONGS, st.integers(0, 2**40)), min_size=1), st.floats(0, 100), st.data())
def test_sample_membership_of_an_entry_does_not_depend_on_other_entries(
    entries: list[tuple[int, int, int]], percent: float, data: st.DataObject
) -> None:
    sample = EntrySample(2, percent, 0)

    def chosen(rows: list[tuple[int, int, int]]) -> list[bool]:
        scopes, ledgers, ids = np.array(rows, np.int64).reshape(-1, 3).T.copy()
        return sample.is_in_sample(scopes, ledgers, ids).tolist()  # type: ignore[no-any-return]

    order = data.draw(st.permutations(range(len(entries))))
    all_chosen = chosen(entries)
    assert [all_chosen[position] for position in order] == chosen([entries[position] for position in order])
    assert all(is_in for is_in, (_, _, entry) in zip(all_chosen, entries, strict=True) if entry < 2)


@pytest.mark.parametrize("percent", [0, 0.1, 5, 50, 100])
def test_sample_has_the_given_percentage_and_first_entries_of_each_ledger(percent: float) -> None:
    count = 100_000
    ledgers, entries = np.repeat(np.arange(100), 1000), np.tile(np.arange(1000), 100)
    is_taken = EntrySample(3, percent, 0).is_in_sample(np.zeros(count, np.int64), ledgers, entries)
    assert is_taken[entries < 3].all()
    assert is_taken[entries >= 3].mean() == pytest.approx(percent / 100, abs=0.005)
