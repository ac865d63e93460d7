"""Paths read as columns give the same ids as paths read one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.ledger_tree import LayoutKind, classify, to_path
from auditor.keys.plain_paths import ledger_ids

TREES = [kind for kind in LayoutKind if kind is not LayoutKind.ETCD]
IDS = st.one_of(
    st.integers(0, 10**10 - 1),
    st.sampled_from([0, 2**31 - 2, 2**31 - 1, 2**31, 10**10 - 1]),
)
PIECES = st.sampled_from(
    ["00", "000", "0000", "L0000", "L0042", "L", "/", "9", "٣", "é", "X", "-", "available"]
)


@pytest.mark.parametrize("kind", TREES)
@given(ids=st.lists(IDS, max_size=20))
def test_batch_reads_ledger_ids_of_every_layout(kind: LayoutKind, ids: list[int]) -> None:
    paths = [f"/bk/{to_path(kind, id)}" for id in ids]
    assert ledger_ids(kind, paths, 4).tolist() == ids


@given(ids=st.lists(st.integers(0, 2**63 - 1), max_size=20), start=st.sampled_from(["/bk/", "/é/"]))
def test_batch_reads_ledger_ids_of_etcd_keys(ids: list[int], start: str) -> None:
    paths = [f"{start}{to_path(LayoutKind.ETCD, id)}" for id in ids]
    assert ledger_ids(LayoutKind.ETCD, paths, len(start.encode())).tolist() == ids


@pytest.mark.parametrize("kind", LayoutKind)
@given(
    paths=st.lists(
        st.one_of(
            st.lists(PIECES, max_size=8).map("".join),
            st.lists(PIECES, max_size=5).map("/".join),
            st.tuples(st.sampled_from(TREES), IDS).map(lambda pair: to_path(*pair)),
            st.from_regex(r"[0-9]{3}/[0-9]{4}/[0-9]{4}/[0-9]{4}/L[0-9]{4}", fullmatch=True),
            st.from_regex(r"9(22|23|99)/3372/0368/5477/L5807", fullmatch=True),
            st.from_regex(r"ledgers/0{8}-000[01]-0{4}-[078fF][0-9a-g]{3}[-a][0-9a-fA]{12}", fullmatch=True),
        ),
        max_size=12,
    )
)
def test_batch_reads_only_ids_that_single_classification_gives(kind: LayoutKind, paths: list[str]) -> None:
    read_ids = ledger_ids(kind, [f"/l/{path}" for path in paths], 3).tolist()
    for path, id in zip(paths, read_ids, strict=True):
        place = classify(kind, path)
        assert id == -1 or (place.kind, place.ledger_id, place.scope_id) == ("ledger", id, 0)
