"""Marks and locks: each path in both directions, and paths that the server would not see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.ledger_path import (
    MarkPath,
    classify_mark,
    lock_from_path,
    lock_to_path,
    mark_to_path,
)

MARKS = "underreplication/ledgers"
ids = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (1, "0000/0000/0000/0001/urL0000000001"),
        (0x0123456789ABCDEF, "0123/4567/89ab/cdef/urL81985529216486895"),
        (2**63 - 1, "7fff/ffff/ffff/ffff/urL9223372036854775807"),
        (-1, "ffff/ffff/ffff/ffff/urL-000000001"),
    ],
)
def test_mark_path_matches_expected_server_path(ledger_id: int, path: str) -> None:
    assert mark_to_path(ledger_id) == f"{MARKS}/{path}"


@given(ids)
def test_mark_path_and_its_parents_are_classified(ledger_id: int) -> None:
    path = mark_to_path(ledger_id)
    assert classify_mark(path) == MarkPath("mark", ledger_id)
    parts = path.split("/")
    for depth in range(2, len(parts)):
        assert classify_mark("/".join(parts[:depth])) == MarkPath("inner")


@given(ids)
def test_ledger_id_is_read_back_from_lock_path(ledger_id: int) -> None:
    assert lock_from_path(lock_to_path(ledger_id)) == ledger_id


@pytest.mark.parametrize(
    ("rel", "place"),
    [
        ("0000/0000/0000/0002/urL0000000001", MarkPath("misplaced", 1)),
        ("0000/0000/0000/0001/urL1", MarkPath("misplaced", 1)),
        ("urL0000000001", MarkPath("misplaced", 1)),
        ("0000/0000/0000/0001/urL" + "0" * 5000 + "1", MarkPath("misplaced", 1)),
        ("ffff/ffff/ffff/ffff/urL-000000001", MarkPath("malformed")),
        ("0000/0000/0000/0001/urL9223372036854775808", MarkPath("malformed")),
        ("0000/0000/0000/0001/urL" + "9" * 100_000, MarkPath("malformed")),
        ("0000/0000/0000/0001/urL", MarkPath("malformed")),
        ("0000/FFFF", MarkPath("malformed")),
        ("0000/0000/0000/0001/0002", MarkPath("malformed")),
    ],
)
def test_invalid_mark_path_is_misplaced_or_malformed(rel: str, place: MarkPath) -> None:
    assert classify_mark(f"{MARKS}/{rel}") == place


@pytest.mark.parametrize("rel", ["", "LAYOUT", "underreplication", "underreplication/locks/urL0000000001"])
def test_path_outside_the_marks_is_other(rel: str) -> None:
    assert classify_mark(rel) == MarkPath("other")


@pytest.mark.parametrize(
    "rel", ["underreplication/locks", "underreplication/locks/urL1", "locks/urL0000000001", "urL0000000001"]
)
def test_other_path_is_no_lock(rel: str) -> None:
    assert lock_from_path(rel) is None


@given(st.one_of(st.text(max_size=20), st.text("0123456789abcdef/urL", max_size=40)))
def test_only_canonical_mark_path_is_a_mark(rel: str) -> None:
    for path in (rel, f"{MARKS}/{rel}"):
        place = classify_mark(path)
        assert place.kind != "mark" or mark_to_path(place.ledger_id or 0) == path
