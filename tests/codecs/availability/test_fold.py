"""The fold compared byte for byte with a plain greedy loop and with the proposal's own examples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability.fold import fold, fold_entries, fold_runs, fold_slots
from auditor.codecs.availability.groups import GroupBatch, offsets_of
from auditor.errors import CoverageLimitError, DecodeError
from tests.codecs.scalar import LONGEST, Group, greedy, packed, runs_of_entries, runs_of_groups
from tests.codecs.strategies import entry_sets, ragged_groups

GOLDEN = {
    "nothing": ([], ""),
    "the proposal's first example": (
        [1, 2, 4, 5, 7, 8, 10, 11],
        "0000000000000001 000000000000000a 00000002 00000003",
    ),
    "the proposal's second example": (
        [1, 2, 3, 6, 7, 8, 11, 13, 16, 17, 18, 21, 22],
        "0000000000000001 0000000000000006 00000003 00000005"
        "000000000000000b 000000000000000d 00000001 00000002"
        "0000000000000010 0000000000000010 00000003 00000000"
        "0000000000000015 0000000000000015 00000002 00000000",
    ),
}


def lengths(sets: list[list[int]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return offsets_of(np.array([len(ids) for ids in sets], np.int64))


@pytest.mark.parametrize(("entries", "golden"), GOLDEN.values(), ids=GOLDEN.keys())
def test_examples_of_the_proposal_fold_to_exact_bytes(entries: list[int], golden: str) -> None:
    assert fold_entries(np.array(entries, np.int64), lengths([entries])).values() == [bytes.fromhex(golden)]


@given(st.lists(ragged_groups(), max_size=6))
def test_folding_groups_equals_the_plain_loop(sets: list[list[Group]]) -> None:
    assert fold(GroupBatch.from_tuples(sets)).values() == [
        packed(greedy(runs_of_groups(groups))) for groups in sets
    ]


@given(st.lists(ragged_groups(), max_size=6))
def test_folding_runs_equals_the_plain_loop(sets: list[list[Group]]) -> None:
    runs = [runs_of_groups(groups) for groups in sets]
    start, size = np.array([run for set_runs in runs for run in set_runs], np.int64).reshape(-1, 2).T
    folded = fold_runs(start, size, offsets_of(np.array([len(set_runs) for set_runs in runs], np.int64)))
    assert folded.values() == [packed(greedy(set_runs)) for set_runs in runs]


@given(st.lists(entry_sets, max_size=6))
def test_folding_entries_equals_the_plain_loop(sets: list[list[int]]) -> None:
    entries = np.array([entry for ids in sets for entry in ids], np.int64)
    expected = [packed(greedy(runs_of_entries(ids))) for ids in sets]
    assert fold_entries(entries, lengths(sets)).values() == expected


@given(st.lists(st.sets(st.integers(0, 30)).map(sorted), max_size=6), st.integers(0, 3))
def test_folding_slots_equals_folding_the_entries(sets: list[list[int]], before: int) -> None:
    """Ledgers follow one another, so a run at the end of one can touch the start of the next."""
    tables = [[1028 if entry in ids else 0 for entry in range(max(ids, default=-1) + 1)] for ids in sets]
    slots = np.array([7] * before + [slot for table in tables for slot in table] + [7], np.int64)
    expected = [packed(greedy(runs_of_entries(ids))) for ids in sets]
    assert fold_slots(slots, before + lengths(tables)).values() == expected
    assert fold_slots(slots.byteswap(), before + lengths(tables)).values() == expected


@given(st.lists(ragged_groups(), max_size=6))
def test_folding_twice_changes_nothing(sets: list[list[Group]]) -> None:
    once = fold(GroupBatch.from_tuples(sets))
    assert fold(once).values() == once.values()


@given(ragged_groups(), st.data())
def test_merged_segments_of_one_bookie_fold_as_one_set(groups: list[Group], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(groups)), max_size=3)))
    edges = [0, *cuts, len(groups)]
    segments = [groups[start:end] for start, end in pairwise(edges)]
    order = data.draw(st.permutations(segments))
    merged = GroupBatch.from_tuples(order).merge(np.ones(len(order), np.int64), 3)
    assert fold(merged).values() == [b"", packed(greedy(runs_of_groups(groups))), b""]


@pytest.mark.parametrize(
    ("groups", "folded"),
    [
        pytest.param([(0, 0, 1, 0), (2, 2, 1, 0)], [(0, 2, 1, 2)], id="head and tail of equal size"),
        pytest.param(
            [(0, 6, 2, 3), (8, 14, 1, 3)], [(0, 3, 2, 3), (6, 6, 3, 0), (11, 14, 1, 3)], id="segments touch"
        ),
        pytest.param([(0, 3, 2, 3), (6, 9, 2, 3)], [(0, 9, 2, 3)], id="segments carry on"),
        pytest.param([(0, 6, 2, 2)], [(0, 0, 8, 0)], id="a group without holes"),
        pytest.param(
            [(0, 0, 1, 0), (1 + LONGEST, 1 + LONGEST, 1, 0)],
            [(0, 0, 1, 0), (1 + LONGEST, 1 + LONGEST, 1, 0)],
            id="a distance beyond int32",
        ),
        pytest.param(
            [(0, 0, 1, 0), (LONGEST, LONGEST, 1, 0)], [(0, LONGEST, 1, LONGEST)], id="the largest distance"
        ),
        pytest.param(
            [(5, 5, 2 * LONGEST + 3, 0)],
            [
                (5, 5, LONGEST, 0),
                (5 + LONGEST, 5 + LONGEST, LONGEST, 0),
                (5 + 2 * LONGEST, 5 + 2 * LONGEST, 3, 0),
            ],
            id="a run beyond int32",
        ),
    ],
)
def test_groups_fold_into_the_expected_groups(groups: list[Group], folded: list[Group]) -> None:
    assert fold(GroupBatch.from_tuples([groups])).values() == [packed(folded)]


def test_run_too_long_to_split_is_refused() -> None:
    with pytest.raises(CoverageLimitError):
        fold(GroupBatch.from_tuples([[(0, 0, 2**62, 0)]]))


@given(st.lists(ragged_groups(), min_size=1, max_size=4), st.binary(max_size=30))
def test_groups_are_read_at_any_offset_of_a_column(sets: list[list[Group]], before: bytes) -> None:
    batch = fold(GroupBatch.from_tuples(sets))
    column_batch = GroupBatch.frombytes(before + batch.tobytes() + before, len(before) + 24 * batch.offsets)
    assert column_batch.values() == batch.values()


@pytest.mark.parametrize(
    ("length", "ends", "offset"),
    [
        pytest.param(48, [0, 23, 48], 23, id="a set that ends inside a group"),
        pytest.param(47, [0, 24, 48], 47, id="fewer bytes than promised"),
    ],
)
def test_column_damage_is_refused_with_its_offset(length: int, ends: list[int], offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        GroupBatch.frombytes(bytes(length), np.array(ends))
    assert damage.value.offset == offset
