"""Many names at once say what each says alone."""

from __future__ import annotations

import os

from hypothesis import example, given
from hypothesis import strategies as st

from auditor.keys.index_names import ledger_ids
from auditor.keys.index_path import from_name, to_path

near_names = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda number: f"{number:x}.idx"),
    st.text("0123456789abcdefA.idxrlo", min_size=1, max_size=22),
    st.text("0189af", max_size=18).map(lambda digits: f"{digits}.idx"),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=5),
)


@given(st.lists(near_names, min_size=1, max_size=8))
@example([".idx"])
@example(["0.idx", "00.idx", "7fffffffffffffff.idx", "8000000000000000.idx", "17fffffffffffffff.idx"])
def test_a_name_is_read_among_others_as_it_is_alone(names: list[str]) -> None:
    alone = [from_name(name) for name in names]
    together = ledger_ids([os.fsencode(f"/l0/0/1/{name}") for name in names]).tolist()
    assert together == [-1 if ledger is None else ledger for ledger in alone]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_the_ledger_of_every_path_is_read(ledgers: list[int]) -> None:
    assert ledger_ids([f"/l0/{to_path(ledger)}".encode() for ledger in ledgers]).tolist() == ledgers
