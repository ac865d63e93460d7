"""Index files of ledgers outside scope 0, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys import index_path
from auditor.keys.scoped_index_path import from_name, is_top, ledger_spelt, paths, step, third_step, to_path
from auditor.model.ledger_id import LedgerId

LONGS = st.integers(-(2**63), 2**63 - 1)
GOLDEN = {
    LedgerId(2, scope=1): "00000000/00000001/00000000/00000002/2.idx",
    LedgerId(0, scope=2**40): "00000100/00000000/00000000/00000000/0.idx",
    LedgerId(-1, scope=-1): "ffffffff/ffffffff/ffffffff/ffffffff/ffffffffffffffff.idx",
    LedgerId(-(2**63), scope=5): "00000000/00000005/80000000/00000000/8000000000000000.idx",
}


@pytest.mark.parametrize(("ledger", "path"), GOLDEN.items(), ids=[each.qualified_name for each in GOLDEN])
def test_each_half_is_a_directory_and_the_file_has_the_id(ledger: LedgerId, path: str) -> None:
    assert to_path(ledger) == path


@given(LONGS, LONGS)
def test_a_path_is_read_back_whatever_its_high_bits(scope: int, ledger_id: int) -> None:
    *names, file = to_path(LedgerId(ledger_id, scope)).split("/")
    assert is_top(names[0])
    for spelling in (names, [names[0], *(f"{int(name, 16):x}" for name in names[1:])]):
        steps = [step(name) for name in spelling]
        assert ledger_spelt([each for each in steps if each is not None]) == LedgerId(ledger_id, scope)
    assert from_name(file) == ledger_id


@given(LONGS, LONGS)
def test_every_spelling_of_a_path_is_read_as_that_ledger(scope: int, ledger_id: int) -> None:
    ledger = LedgerId(ledger_id, scope)
    spelled_paths = list(paths(ledger))
    assert spelled_paths[0] == to_path(ledger)
    assert len(set(spelled_paths)) == len(spelled_paths)
    for path in spelled_paths:
        *names, file = path.split("/")
        steps = [step(name) for name in names]
        assert ledger_spelt([each for each in steps if each is not None]) == ledger
        assert from_name(file) == ledger_id
        assert third_step("/".join(names[:2]), names[2]) == (tuple(steps[:3]) if scope else None)


@given(st.integers(0, 2**63 - 1))
def test_no_directory_of_scope_0_is_taken_for_one_of_theirs(ledger_id: int) -> None:
    assert not is_top(index_path.to_path(ledger_id).partition("/")[0])


@pytest.mark.parametrize("name", ["", "01", "0000001", "000000001", "1G", "A", "1\n", "2.idx", "locations"])
def test_other_names_are_no_steps(name: str) -> None:
    assert step(name) is None
    assert not is_top(name)


@given(st.text(max_size=20))
def test_only_names_that_we_would_write_are_read(name: str) -> None:
    ledger_id = from_name(name)
    assert ledger_id is None or to_path(LedgerId(ledger_id, 1)).endswith(f"/{name}")
