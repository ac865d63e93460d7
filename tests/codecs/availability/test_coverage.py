"""Arithmetic on groups compared with Python's sets of entries, and its cost for too many entries to count."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.availability.coverage import (
    at_least,
    clip,
    count,
    count_between,
    difference,
    even_sample,
    intersection,
    last_entry,
    most_shared_entry,
    union,
    worst_copy_counts,
)
from auditor.codecs.availability.fold import fold, fold_entries
from auditor.codecs.availability.groups import GROUP, GroupBatch, Groups
from auditor.codecs.availability.striping import stripe
from auditor.errors import CoverageLimitError
from auditor.tables.judge_replicas import groups_of
from tests.codecs.scalar import Group, entries_of

TRILLION = 10**12


def canonical(entries: set[int]) -> Groups:
    ids = np.array(sorted(entries), np.int64)
    return fold_entries(ids, np.array([0, len(ids)])).groups()


@st.composite
def patterns(draw: st.DrawFn) -> set[int]:
    """Draw some groups one after another: periods of all lengths, single runs, and ragged ends."""
    first_entry = draw(st.integers(0, 12))
    groups: list[Group] = []
    for _ in range(draw(st.integers(0, 3))):
        size, hole, runs = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 25))
        last = first_entry + (runs - 1) * (size + hole)
        groups.append((first_entry, last, size, size + hole))
        first_entry = last + size + draw(st.integers(0, 9))
    return set(entries_of(groups))


def assert_same_groups(actual_groups: Groups, entries: set[int]) -> None:
    assert actual_groups.dtype == GROUP
    assert actual_groups.tobytes() == canonical(entries).tobytes()


@given(patterns(), patterns())
def test_set_operations_on_groups_match_python_sets(a: set[int], b: set[int]) -> None:
    assert_same_groups(difference(canonical(a), canonical(b)), a - b)
    assert_same_groups(intersection(canonical(a), canonical(b)), a & b)
    assert_same_groups(union([canonical(a), canonical(b)]), a | b)


@given(patterns(), st.lists(st.integers(0, 700), max_size=9))
def test_entries_between_edges_are_counted(entries: set[int], edges: list[int]) -> None:
    edges.sort()
    expected = [len(entries & set(range(*pair))) for pair in pairwise(edges)]
    assert count_between(canonical(entries), edges) == expected


@given(st.lists(patterns(), max_size=5), st.integers(1, 4))
def test_at_least_finds_the_entries_in_k_sets(sets: list[set[int]], k: int) -> None:
    tally = Counter(entry for ids in sets for entry in ids)
    assert_same_groups(
        at_least([canonical(ids) for ids in sets], k), {entry for entry, times in tally.items() if times >= k}
    )


@given(st.lists(patterns(), max_size=4), st.lists(patterns(), max_size=4))
def test_worst_copy_counts_match_counts_per_entry(missing: list[set[int]], unknown: list[set[int]]) -> None:
    missing_counts = Counter(entry for ids in missing for entry in ids)
    unavailable_counts = missing_counts + Counter(entry for ids in unknown for entry in ids)
    counts = worst_copy_counts([canonical(ids) for ids in missing], [canonical(ids) for ids in unknown])
    assert counts == (max(missing_counts.values(), default=0), max(unavailable_counts.values(), default=0))


@given(patterns(), st.integers(-5, 200), st.integers(-5, 200))
def test_clip_count_and_last_entry_match_python_sets(entries: set[int], first: int, last: int) -> None:
    groups = canonical(entries)
    assert_same_groups(clip(groups, first, last), {entry for entry in entries if first <= entry <= last})
    assert count(groups) == len(entries)
    assert last_entry(groups) == max(entries, default=-1)


def group(first: int, last: int, size: int, period: int) -> Groups:
    return np.array([(first, first + (last - first) // period * period, size, period)], GROUP)


@st.composite
def long_pairs(draw: st.DrawFn) -> tuple[Groups, Groups, int]:
    """Draw two groups with a trillion entries and small periods, and the length after which both repeat."""
    pair = []
    for _ in range(2):
        period = draw(st.integers(2, 9))
        pair.append((draw(st.integers(0, 30)), draw(st.integers(1, period - 1)), period))
    groups = [group(first, TRILLION, size, period) for first, size, period in pair]
    return groups[0], groups[1], int(np.lcm(pair[0][2], pair[1][2]))


@given(long_pairs())
def test_worst_copies_of_trillion_entry_patterns_are_counted(case: tuple[Groups, Groups, int]) -> None:
    """The first common period past both starts shows whether two long patterns meet."""
    a, b, period = case
    near = [set(entries_of(clip(pattern, 0, 30 + 2 * period).tolist())) for pattern in (a, b)]
    assert worst_copy_counts([a, b], []) == ((2, 2) if near[0] & near[1] else (1, 1))
    assert worst_copy_counts([a], [b])[0] == 1


def test_replicas_of_a_trillion_entries_are_compared_in_little_memory() -> None:
    replicas = [
        fold(
            stripe(np.array([0]), np.array([TRILLION]), np.array([i]), np.array([5]), np.array([3]))
        ).groups()
        for i in range(5)
    ]
    all_entries = fold(GroupBatch.from_tuples([[(0, 0, TRILLION + 1, 0)]])).groups()
    tracemalloc.start()
    assert worst_copy_counts(replicas[:2], replicas[2:]) == (2, 3)
    assert union(replicas).tobytes() == all_entries.tobytes()
    assert len(difference(all_entries, replicas[3])) <= 3
    assert at_least(replicas, 3).tobytes() == all_entries.tobytes()
    assert len(at_least(replicas, 4)) == 0
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_hole_in_a_trillion_entries_leaves_two_groups() -> None:
    pattern = group(0, TRILLION, 2, 3)
    remainder = difference(pattern, np.array([(300, 300, 2, 0)], GROUP))
    assert remainder.tolist() == [(0, 297, 2, 3), (303, TRILLION // 3 * 3, 2, 3)]
    assert count(remainder) == count(pattern) - 2
    assert difference(pattern, remainder).tolist() == [(300, 300, 2, 0)]


def test_patterns_of_two_periods_intersect_in_one_group() -> None:
    assert intersection(group(0, TRILLION, 1, 3), group(0, TRILLION, 1, 5)).tolist() == [
        (0, TRILLION // 15 * 15, 1, 15)
    ]


def test_union_that_needs_too_many_groups_is_refused() -> None:
    with pytest.raises(CoverageLimitError):
        union([group(0, TRILLION, 1, 3), group(0, TRILLION, 1, 5)])


def test_periods_without_a_small_common_multiple_are_refused() -> None:
    with pytest.raises(CoverageLimitError):
        worst_copy_counts([group(0, 10**18, 1, 2**31 - 1), group(0, 10**18, 1, 2**31 - 2)], [])


def test_difference_of_sets_with_many_groups_is_computed() -> None:
    rng = np.random.default_rng(7)
    a, b = (np.flatnonzero(rng.random(400_000) < 0.9) for _ in range(2))
    remainder = difference(*(fold_entries(ids, np.array([0, len(ids)])).groups() for ids in (a, b)))
    entries = np.setdiff1d(a, b)
    assert remainder.tobytes() == fold_entries(entries, np.array([0, len(entries)])).tobytes()


def test_clipped_runs_beyond_int32_are_split_like_folded_runs() -> None:
    huge = fold(GroupBatch.from_tuples([[(0, 0, 5 * 2**31, 0)]])).groups()
    assert (
        clip(huge, 10, 4 * 2**31).tobytes()
        == fold(GroupBatch.from_tuples([[(10, 10, 4 * 2**31 - 9, 0)]])).tobytes()
    )


sets_of_entries = st.sets(st.integers(0, 60))


def groups(entries: set[int]) -> Groups:
    ids = np.array(sorted(entries), np.int64)
    return groups_of(fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes())


@settings(deadline=None)
@given(st.lists(sets_of_entries, max_size=5))
def test_most_shared_entry_is_the_lowest_entry_with_the_highest_count(sets: list[set[int]]) -> None:
    counts = Counter(entry for entries in sets for entry in entries)
    most = max(counts.values(), default=0)
    expected_entry = min((entry for entry, count in counts.items() if count == most), default=None)
    assert most_shared_entry([groups(entries) for entries in sets]) == expected_entry


@settings(deadline=None)
@given(sets_of_entries, st.integers(1, 20))
def test_even_sample_keeps_both_ends_and_all_entries_of_a_small_set(entries: set[int], most: int) -> None:
    sample = even_sample(groups(entries), most)
    assert sample == sorted(set(sample))
    assert set(sample) <= entries
    assert len(sample) == min(most, len(entries))
    if entries:
        assert sample[0] == min(entries)
    if len(sample) > 1:
        assert sample[-1] == max(entries)


def test_even_sample_of_a_trillion_entries_is_exact() -> None:
    assert even_sample(np.array([(0, 3 * 10**12, 2, 3)], GROUP), 3) == [0, 1_500_000_000_000, 3 * 10**12 + 1]
