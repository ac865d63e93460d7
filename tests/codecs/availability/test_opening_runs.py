"""Rows of entries that are read in blocks of any size fold as in the plain greedy loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability import maximal as module
from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import offsets_of
from auditor.codecs.availability.maximal import find_opening_runs
from tests.codecs.scalar import LONGEST, greedy, packed, runs_of_entries

COUNTS = (st.integers(1, 12), st.integers(1, 5))
STRIPED = [entry for entry in range(3_000) if entry % 3 != 1]


def folded(sets: list[list[int]], block: int) -> list[bytes]:
    entries = np.array([entry for ids in sets for entry in ids], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_ENTRIES", block)
        return fold_entries(entries, offsets_of(np.array([len(ids) for ids in sets], np.int64))).values()


@st.composite
def patterns(draw: st.DrawFn) -> list[int]:
    """Draw ascending entries: runs that repeat for a while, one pattern after another."""
    entries: list[int] = []
    for size, hole, count, gap in draw(st.lists(st.tuples(*[st.integers(0, 3)] * 2, *COUNTS), max_size=5)):
        first = entries[-1] + gap if entries else gap
        entries += [first + n * (size + 1 + hole) + i for n in range(count) for i in range(size + 1)]
    return entries


@given(st.lists(patterns(), max_size=4), st.integers(1, 9))
def test_block_size_does_not_change_the_fold(sets: list[list[int]], block: int) -> None:
    """Patterns repeat for longer than a block, so the fold skips blocks, and a pattern ends inside one."""
    assert folded(sets, block) == [packed(greedy(runs_of_entries(ids))) for ids in sets]


@pytest.mark.parametrize("block", [1, 2, 3, 64, 1_000])
@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(list(range(2_000)), id="dense"),
        pytest.param(STRIPED, id="striped"),
        pytest.param([0, *STRIPED[2:]], id="striped, the second entry missing"),
        pytest.param(STRIPED[:1_200] + STRIPED[1_201:], id="striped, one entry missing"),
        pytest.param([*STRIPED[:-1], 3_000], id="striped, the last one moved"),
        pytest.param(STRIPED[:600] + list(range(900, 1_500)) + STRIPED[1_000:], id="dense in between"),
        pytest.param([2 * n for n in range(700)] + [2 * n + 1 for n in range(700, 1_400)], id="moved by one"),
        pytest.param([n * (LONGEST + 1) for n in range(300)], id="distances beyond int32"),
    ],
)
def test_long_patterns_with_and_without_breaks_fold_exactly(entries: list[int], block: int) -> None:
    expected = packed(greedy(runs_of_entries(entries)))
    assert folded([entries], block) == [expected]
    assert folded([entries, [], entries, entries[:1]], block) == [
        expected,
        b"",
        expected,
        packed([(entries[0], entries[0], 1, 0)]),
    ]


def test_set_that_continues_the_previous_set_is_folded_separately() -> None:
    assert folded([list(range(100)), list(range(100, 200))], 16) == [
        packed([(0, 0, 100, 0)]),
        packed([(100, 100, 100, 0)]),
    ]
    assert folded([STRIPED[:400], STRIPED[400:]], 16) == [
        packed(greedy(runs_of_entries(entries))) for entries in (STRIPED[:400], STRIPED[400:])
    ]


@pytest.mark.parametrize(("entries", "positions"), [(range(1_000), [0]), (STRIPED, [0, 1, 1_999])])
def test_opening_runs_of_a_regular_pattern_are_its_ends(entries: list[int], positions: list[int]) -> None:
    pieces = find_opening_runs(np.array(entries), np.array([0]))
    assert [position for piece in pieces for position in piece.positions.tolist()] == positions
