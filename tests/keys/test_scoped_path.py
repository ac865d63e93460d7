"""Paths of ledgers outside scope 0, in both directions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.ledger_path import is_inner_scope_id_path, ledger_of_path, to_scope_id_path
from auditor.model.ledger_id import LedgerId

LONGS = st.integers(-(2**63), 2**63 - 1)
GOLDEN = {
    LedgerId(2, scope=1): "scopes/0000/0000/0000/0001/0000/0000/0000/L0002",
    LedgerId(-1, scope=-1): "scopes/ffff/ffff/ffff/ffff/ffff/ffff/ffff/Lffff",
    LedgerId(-(2**63), scope=2**63 - 1): "scopes/7fff/ffff/ffff/ffff/8000/0000/0000/L0000",
}


@pytest.mark.parametrize(("ledger", "path"), GOLDEN.items(), ids=[case.qualified_name for case in GOLDEN])
def test_scoped_ledger_path_matches_expected_path(ledger: LedgerId, path: str) -> None:
    assert to_scope_id_path(ledger) == path
    assert ledger_of_path(path) == ledger


@given(LONGS.filter(bool), LONGS)
def test_scoped_ledger_is_read_back_from_path(scope: int, ledger_id: int) -> None:
    ledger = LedgerId(ledger_id, scope=scope)
    path = to_scope_id_path(ledger)
    assert ledger_of_path(path) == ledger
    steps = path.split("/")
    assert all(is_inner_scope_id_path("/".join(steps[:depth])) for depth in range(1, 8))
    assert not is_inner_scope_id_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "scopes",
        "scopes/0000/0000/0000/0001/0000/0000/0000/0002",
        "scopes/0000/0000/0000/0001/0000/0000/0000/L002",
        "scopes/0000/0000/0000/0001/0000/0000/0000/L000A",
        "scopes/0000/0000/0000/0001/0000/0000/0000/L0002\n",
        "scopes/0000/0000/0000/0001/0000/0000/0000/L0002/x",
        "scope/0000/0000/0000/0001/0000/0000/0000/L0002",
    ],
)
def test_other_path_is_no_scoped_ledger_path(path: str) -> None:
    assert ledger_of_path(path) is None


@given(st.text("0123456789abcdefL/scope", max_size=60))
def test_only_canonical_scoped_ledger_path_is_read(path: str) -> None:
    ledger = ledger_of_path(path)
    assert ledger is None or to_scope_id_path(ledger) == path
