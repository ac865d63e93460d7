"""Slots that repeat are taken apart into groups, and these are the entries that the slots hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from auditor.codecs.availability import fold
from auditor.codecs.availability.fold import fold_slots, repeating_groups
from auditor.codecs.availability.groups import offsets_of
from tests.codecs.scalar import greedy, packed, runs_of_entries


@st.composite
def striped_ledgers(draw: st.DrawFn) -> list[list[bool]]:
    """Ledgers of mostly one striping, with holes, other stripings, and some held whole or not at all."""
    ensemble = draw(st.integers(2, 6))
    ledgers = []
    for _ in range(draw(st.integers(1, 5))):
        period = draw(st.sampled_from([ensemble, ensemble, ensemble, ensemble + 1, 1]))
        quorum, start = draw(st.integers(0, period)), draw(st.integers(0, period))
        held = [(entry + start) % period < quorum for entry in range(draw(st.integers(0, 120)))]
        for entry in draw(st.sets(st.integers(0, 119), max_size=3)):
            if entry < len(held):
                held[entry] = not held[entry]
        ledgers.append(held + [False] * draw(st.sampled_from([0, 1, 130])))
    return ledgers


@settings(max_examples=300, deadline=None)
@given(striped_ledgers())
def test_striped_slots_fold_as_the_plain_loop_folds_their_entries(ledgers: list[list[bool]]) -> None:
    slots = np.array([slot for held in ledgers for slot in held], np.int64)
    bounds = offsets_of(np.array([len(held) for held in ledgers]))
    expected = [packed(greedy(runs_of_entries(np.flatnonzero(held).tolist()))) for held in ledgers]
    assert fold_slots(slots, bounds).values() == expected


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("start", range(4))
def test_a_striped_ledger_is_a_group_and_what_stands_at_its_edges(size: int, start: int) -> None:
    held = np.zeros(9_002, np.bool_)
    held[1:-1] = (np.arange(9_000) + start) % 3 < size
    groups = repeating_groups(held, np.array([0]))
    assert groups is not None
    assert len(groups[0]) <= 4
    assert set(groups[3].tolist()) == {0, 3}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(np.ones(9_000, np.bool_), id="dense"),
        pytest.param(np.zeros(9_000, np.bool_), id="empty"),
        pytest.param(np.random.default_rng(7).random(9_000) < 0.9, id="holes"),
        pytest.param(np.arange(9_000) % 100 < 50, id="a long period"),
    ],
)
def test_slots_that_do_not_repeat_closely_are_left_alone(
    held: NDArray[np.bool_],
) -> None:
    assert repeating_groups(np.pad(held, 1), np.array([0])) is None


def test_a_pattern_that_ends_behind_the_sample_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "SAMPLE", 300)
    held = np.random.default_rng(7).random(9_000) < 0.5
    held[:300] = np.arange(300) % 3 < 2
    assert repeating_groups(np.pad(held, 1), np.array([0])) is None
    entries = np.flatnonzero(held).tolist()
    assert fold_slots(held.astype(np.int64), np.array([0, 9_000])).values() == [
        packed(greedy(runs_of_entries(entries)))
    ]
