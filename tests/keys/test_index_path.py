"""Index files: where 4.17.2 puts them, and which names are theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.index_path import from_name, to_path

GOLDEN = {
    0: "0/0/0.idx",
    1: "0/1/1.idx",
    16: "0/10/10.idx",
    256: "1/0/100.idx",
    0x1234: "12/34/1234.idx",
    0xABCDEF: "cd/ef/abcdef.idx",
    2**63 - 1: "ff/ff/7fffffffffffffff.idx",
    -1: "ff/ff/ffffffffffffffff.idx",
}


@pytest.mark.parametrize(("ledger_id", "path"), GOLDEN.items(), ids=map(str, GOLDEN))
def test_paths_are_those_of_a_bookie(ledger_id: int, path: str) -> None:
    assert to_path(ledger_id) == path
    # The server's scan fails on names beyond the largest id.
    assert from_name(path.rpartition("/")[2]) == (None if ledger_id < 0 else ledger_id)


@given(st.integers(0, 2**63 - 1))
def test_a_name_is_read_back(ledger_id: int) -> None:
    assert from_name(to_path(ledger_id).rpartition("/")[2]) == ledger_id


@pytest.mark.parametrize(
    "name",
    ["", ".idx", "01.idx", "AB.idx", "x.idx", "1.idx.rloc", "1.log", "1.idx\n", "-1.idx", "f" * 17 + ".idx"],
)
def test_other_names_are_nobodys(name: str) -> None:
    assert from_name(name) is None


@given(st.text(max_size=20))
def test_only_names_that_we_would_write_are_read(name: str) -> None:
    ledger_id = from_name(name)
    assert ledger_id is None or to_path(ledger_id).endswith(f"/{name}")
