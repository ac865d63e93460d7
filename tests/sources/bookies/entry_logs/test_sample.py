"""Which entries are looked at: the same wherever they lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sources.bookies.entry_logs.whole_entries import EntrySample

LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(LONGS, LONGS, st.integers(0, 2**40)), min_size=1), st.floats(0, 100), st.data())
def test_an_entry_is_in_the_sample_whatever_stands_beside_it(
    entries: list[tuple[int, int, int]], percent: float, data: st.DataObject
) -> None:
    sample = EntrySample(2, percent, 0)

    def chosen(some: list[tuple[int, int, int]]) -> list[bool]:
        scopes, ledgers, ids = np.array(some, np.int64).reshape(-1, 3).T.copy()
        return sample.is_in_sample(scopes, ledgers, ids).tolist()  # type: ignore[no-any-return]

    order = data.draw(st.permutations(range(len(entries))))
    together = chosen(entries)
    assert [together[at] for at in order] == chosen([entries[at] for at in order])
    assert all(is_in for is_in, (_, _, entry) in zip(together, entries, strict=True) if entry < 2)


@pytest.mark.parametrize("percent", [0, 0.1, 5, 50, 100])
def test_so_many_of_a_hundred_are_taken_and_the_first_of_each_ledger(percent: float) -> None:
    count = 100_000
    ledgers, entries = np.repeat(np.arange(100), 1000), np.tile(np.arange(1000), 100)
    taken = EntrySample(3, percent, 0).is_in_sample(np.zeros(count, np.int64), ledgers, entries)
    assert taken[entries < 3].all()
    assert taken[entries >= 3].mean() == pytest.approx(percent / 100, abs=0.005)
