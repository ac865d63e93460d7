"""The four layouts: each path in both directions, as 4.17.2 makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UsageError
from auditor.keys import index_path, ledger_path
from auditor.keys.ledger_path import FLAT, HIERARCHICAL, LEGACY_HIERARCHICAL, LONG_HIERARCHICAL, KeyLayout
from tests.codecs.metadata_vectors import Vector, corpus_ledgers, vectors

TEN_DIGITS = 10**10
ids = st.one_of(
    st.integers(0, 2**63 - 1),
    st.integers(0, 20_000),
    st.integers(2**31 - 3, 2**31 + 3),
    st.integers(0, 10**11),
)

GOLDEN = {
    0: ("L0000000000", "00/0000/L0000", "000/0000/0000/0000/L0000"),
    1: ("L0000000001", "00/0000/L0001", "000/0000/0000/0000/L0001"),
    12345: ("L0000012345", "00/0001/L2345", "000/0000/0000/0001/L2345"),
    2147483646: ("L2147483646", "21/4748/L3646", "000/0000/0021/4748/L3646"),
    2147483647: ("L2147483647", "000/0000/0021/4748/L3647", "000/0000/0021/4748/L3647"),
    9999999999: ("L9999999999", "000/0000/0099/9999/L9999", "000/0000/0099/9999/L9999"),
    2**63 - 1: ("L9223372036854775807", "922/3372/0368/5477/L5807", "922/3372/0368/5477/L5807"),
    -1: ("L-000000001", "-0/0000/L0001", "-00/0000/0000/0000/L0001"),
}


@pytest.mark.parametrize(("ledger_id", "paths"), GOLDEN.items(), ids=map(str, GOLDEN))
def test_layout_paths_match_expected_server_paths(ledger_id: int, paths: tuple[str, str, str]) -> None:
    layouts = (FLAT, HIERARCHICAL, LONG_HIERARCHICAL)
    assert tuple(layout.to_path(ledger_id) for layout in layouts) == paths
    # A negative id is illegal outside of scopes: Java writes its path, and nobody should read it.
    expected = None if ledger_id < 0 else ledger_id
    assert [layout.from_path(path) for layout, path in zip(layouts, paths, strict=True)] == [expected] * 3


@pytest.mark.parametrize("vector", vectors("paths"), ids=lambda vector: str(vector["ledgerId"]))
def test_paths_match_java_vectors(vector: Vector) -> None:
    ledger_id = vector["ledgerId"]
    assert "/ledgers/" + FLAT.to_path(ledger_id) == vector["flat"]
    assert "/ledgers/" + HIERARCHICAL.to_path(ledger_id) == vector["hierarchical"]
    assert "/ledgers/" + LONG_HIERARCHICAL.to_path(ledger_id) == vector["longHierarchical"]
    assert "/ledgers/" + ledger_path.mark_to_path(ledger_id) == vector["mark"]
    assert "/ledgers/" + ledger_path.lock_to_path(ledger_id) == vector["lock"]
    assert index_path.to_path(ledger_id) == vector["index"]
    if ledger_id < TEN_DIGITS:
        assert "/ledgers/" + LEGACY_HIERARCHICAL.to_path(ledger_id) == vector["legacyHierarchical"]


@given(ids)
@pytest.mark.parametrize("layout", [FLAT, HIERARCHICAL, LONG_HIERARCHICAL])
def test_ledger_id_is_read_back_from_layout_path(layout: KeyLayout, ledger_id: int) -> None:
    assert layout.from_path(layout.to_path(ledger_id)) == ledger_id


@given(st.integers(0, TEN_DIGITS - 1))
def test_ledger_id_is_read_back_from_legacy_path(ledger_id: int) -> None:
    assert LEGACY_HIERARCHICAL.from_path(LEGACY_HIERARCHICAL.to_path(ledger_id)) == ledger_id


def test_legacy_layout_rejects_id_of_more_than_ten_digits() -> None:
    with pytest.raises(UsageError):
        LEGACY_HIERARCHICAL.to_path(TEN_DIGITS)


@given(st.one_of(st.text("0123456789L/-", max_size=26), st.text(max_size=12)))
@pytest.mark.parametrize("layout", [FLAT, LEGACY_HIERARCHICAL, HIERARCHICAL, LONG_HIERARCHICAL])
def test_only_canonical_layout_path_is_read(layout: KeyLayout, rel: str) -> None:
    ledger_id = layout.from_path(rel)
    assert ledger_id is None or layout.to_path(ledger_id) == rel


@pytest.mark.parametrize(
    ("layout", "rel"),
    [
        (FLAT, "L1"),
        (FLAT, "L00000000001"),
        (FLAT, "L9223372036854775808"),
        (FLAT, "l0000000001"),
        (LEGACY_HIERARCHICAL, "00/0000/X0001"),
        (LEGACY_HIERARCHICAL, "00/0000/L00001"),
        (LEGACY_HIERARCHICAL, "/00/0000/L0001"),
        (LEGACY_HIERARCHICAL, "٠٠/0000/L0001"),
        (HIERARCHICAL, "21/4748/L3647"),
        (HIERARCHICAL, "000/0000/0021/4748/L3646"),
        (LONG_HIERARCHICAL, "922/3372/0368/5477/L5808"),
        (LONG_HIERARCHICAL, "000/0000/0000/L0001"),
    ],
)
def test_other_path_is_no_ledger_path(layout: KeyLayout, rel: str) -> None:
    assert layout.from_path(rel) is None


@pytest.mark.parametrize(("corpus", "layout"), [("interleaved-hier", HIERARCHICAL), ("flat-v1", FLAT)])
def test_layout_reads_every_ledger_path_of_a_corpus(corpus: str, layout: KeyLayout) -> None:
    for rel, _, _, decoded in corpus_ledgers(corpus):
        assert layout.from_path(rel) == decoded["ledgerId"]
