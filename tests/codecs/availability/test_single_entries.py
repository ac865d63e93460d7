"""Single entries picked from groups, against the entries themselves."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import GROUP, Groups
from auditor.codecs.availability.single_entries import even_sample, most_shared_entry
from auditor.tables.judge_replicas import groups_of

sets_of_entries = st.sets(st.integers(0, 60))


def groups(entries: set[int]) -> Groups:
    ids = np.array(sorted(entries), np.int64)
    return groups_of(fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes())


@settings(deadline=None)
@given(st.lists(sets_of_entries, max_size=5))
def test_the_most_shared_entry_is_the_first_of_those_in_most_sets(sets: list[set[int]]) -> None:
    counts = Counter(entry for one in sets for entry in one)
    most = max(counts.values(), default=0)
    wanted = min((entry for entry, count in counts.items() if count == most), default=None)
    assert most_shared_entry([groups(one) for one in sets]) == wanted


@settings(deadline=None)
@given(sets_of_entries, st.integers(1, 20))
def test_a_sample_is_of_the_set_with_both_ends_and_all_of_a_small_one(entries: set[int], most: int) -> None:
    found = even_sample(groups(entries), most)
    assert found == sorted(set(found))
    assert set(found) <= entries
    assert len(found) == min(most, len(entries))
    if entries:
        assert found[0] == min(entries)
    if len(found) > 1:
        assert found[-1] == max(entries)


def test_a_sample_of_a_trillion_entries_is_as_quick() -> None:
    assert even_sample(np.array([(0, 3 * 10**12, 2, 3)], GROUP), 3) == [0, 1_500_000_000_000, 3 * 10**12 + 1]
