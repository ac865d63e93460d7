"""Slots of striped ledgers fold into the groups of the entries that they hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.codecs.availability.fold import fold_slots
from auditor.codecs.availability.groups import offsets_of
from tests.codecs.scalar import greedy, packed, runs_of_entries
from tests.examples import examples


@st.composite
def striped_ledgers(draw: st.DrawFn) -> list[list[bool]]:
    """Draw ledgers of mostly one striping, with holes, other stripings, and some complete or empty ones."""
    ensemble = draw(st.integers(2, 6))
    ledgers = []
    for _ in range(draw(st.integers(1, 5))):
        period = draw(st.sampled_from([ensemble, ensemble, ensemble, ensemble + 1, 1]))
        quorum, start = draw(st.integers(0, period)), draw(st.integers(0, period))
        slots = [(entry + start) % period < quorum for entry in range(draw(st.integers(0, 120)))]
        for entry in draw(st.sets(st.integers(0, 119), max_size=3)):
            if entry < len(slots):
                slots[entry] = not slots[entry]
        ledgers.append(slots + [False] * draw(st.sampled_from([0, 1, 130])))
    return ledgers


@settings(max_examples=examples(300), deadline=None)
@given(striped_ledgers())
def test_striped_slots_fold_as_the_plain_loop_folds_their_entries(ledgers: list[list[bool]]) -> None:
    slots = np.array([slot for ledger in ledgers for slot in ledger], np.int64)
    bounds = offsets_of(np.array([len(ledger) for ledger in ledgers]))
    expected = [packed(greedy(runs_of_entries(np.flatnonzero(ledger).tolist()))) for ledger in ledgers]
    assert fold_slots(slots, bounds).values() == expected
