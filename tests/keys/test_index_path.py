"""Index files: their paths and names. A batch gives the same results as single reads."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from auditor.keys import index_path
from auditor.keys.index_path import (
    from_name,
    is_scope_id_directory,
    ledger_ids,
    ledger_of_directories,
    number_of_directory,
    path_numbers,
    scoped_ledger_from_name,
    scoped_ledger_paths,
    scoped_ledger_to_path,
    to_path,
)
from auditor.model.ledger_id import LedgerId

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
def test_index_path_matches_bookkeeper(ledger_id: int, path: str) -> None:
    assert to_path(ledger_id) == path
    # The server's scan fails on names beyond the largest id.
    assert from_name(path.rpartition("/")[2]) == (None if ledger_id < 0 else ledger_id)


@given(st.integers(0, 2**63 - 1))
def test_ledger_id_is_read_back_from_index_path(ledger_id: int) -> None:
    assert from_name(to_path(ledger_id).rpartition("/")[2]) == ledger_id


@pytest.mark.parametrize(
    "name",
    ["", ".idx", "01.idx", "AB.idx", "x.idx", "1.idx.rloc", "1.log", "1.idx\n", "-1.idx", "f" * 17 + ".idx"],
)
def test_other_file_name_is_no_index_file(name: str) -> None:
    assert from_name(name) is None


@given(st.text(max_size=20))
def test_only_canonical_index_file_name_is_read(name: str) -> None:
    ledger_id = from_name(name)
    assert ledger_id is None or to_path(ledger_id).endswith(f"/{name}")


near_names = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda number: f"{number:x}.idx"),
    st.text("0123456789abcdefA.idxrlo", min_size=1, max_size=22),
    st.text("0189af", max_size=18).map(lambda digits: f"{digits}.idx"),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=5),
)


@given(st.lists(near_names, min_size=1, max_size=8))
@example([".idx"])
@example(["0.idx", "00.idx", "7fffffffffffffff.idx", "8000000000000000.idx", "17fffffffffffffff.idx"])
def test_batch_reads_index_names_as_single_reads_do(names: list[str]) -> None:
    single_ids = [from_name(name) for name in names]
    batch_ids = ledger_ids([os.fsencode(f"/l0/0/1/{name}") for name in names]).tolist()
    assert batch_ids == [-1 if ledger is None else ledger for ledger in single_ids]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_batch_reads_ledger_id_of_every_index_path(ledgers: list[int]) -> None:
    assert ledger_ids([f"/l0/{to_path(ledger)}".encode() for ledger in ledgers]).tolist() == ledgers


LONGS = st.integers(-(2**63), 2**63 - 1)
SCOPED = {
    LedgerId(2, scope=1): "00000000/00000001/00000000/00000002/2.idx",
    LedgerId(0, scope=2**40): "00000100/00000000/00000000/00000000/0.idx",
    LedgerId(-1, scope=-1): "ffffffff/ffffffff/ffffffff/ffffffff/ffffffffffffffff.idx",
    LedgerId(-(2**63), scope=5): "00000000/00000005/80000000/00000000/8000000000000000.idx",
}


@pytest.mark.parametrize(("ledger", "path"), SCOPED.items(), ids=[case.qualified_name for case in SCOPED])
def test_scoped_index_path_has_scope_and_ledger_directories(ledger: LedgerId, path: str) -> None:
    assert scoped_ledger_to_path(ledger) == path


@given(LONGS, LONGS)
def test_scoped_ledger_is_read_back_from_index_path(scope: int, ledger_id: int) -> None:
    *names, file = scoped_ledger_to_path(LedgerId(ledger_id, scope)).split("/")
    assert is_scope_id_directory(names[0])
    for spelling in (names, [names[0], *(f"{int(name, 16):x}" for name in names[1:])]):
        steps = [number_of_directory(name) for name in spelling]
        assert ledger_of_directories([number for number in steps if number is not None]) == LedgerId(
            ledger_id, scope
        )
    assert scoped_ledger_from_name(file) == ledger_id


@given(LONGS, LONGS)
def test_every_spelling_of_scoped_index_path_is_read_as_its_ledger(scope: int, ledger_id: int) -> None:
    ledger = LedgerId(ledger_id, scope)
    spelled_paths = list(scoped_ledger_paths(ledger))
    assert spelled_paths[0] == scoped_ledger_to_path(ledger)
    assert len(set(spelled_paths)) == len(spelled_paths)
    for path in spelled_paths:
        *names, file = path.split("/")
        steps = [number_of_directory(name) for name in names]
        assert ledger_of_directories([number for number in steps if number is not None]) == ledger
        assert scoped_ledger_from_name(file) == ledger_id
        assert path_numbers("/".join(names[:2]), names[2]) == (tuple(steps[:3]) if scope else None)


@given(st.integers(0, 2**63 - 1))
def test_directory_of_scope_0_is_no_scope_id_directory(ledger_id: int) -> None:
    assert not is_scope_id_directory(index_path.to_path(ledger_id).partition("/")[0])


@pytest.mark.parametrize("name", ["", "01", "0000001", "000000001", "1G", "A", "1\n", "2.idx", "locations"])
def test_other_directory_name_is_not_read_as_a_number(name: str) -> None:
    assert number_of_directory(name) is None
    assert not is_scope_id_directory(name)


@given(st.text(max_size=20))
def test_only_canonical_scoped_index_file_name_is_read(name: str) -> None:
    ledger_id = scoped_ledger_from_name(name)
    assert ledger_id is None or scoped_ledger_to_path(LedgerId(ledger_id, 1)).endswith(f"/{name}")
