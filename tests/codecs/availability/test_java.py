"""Our model of the server's class against that class itself, 4.17.2: answers, bytes and exceptions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability.wire import JavaAvailability
from auditor.errors import CoverageLimitError, DecodeError
from tests.codecs.bp34_vectors import bytes_of, vectors

WRITTEN = vectors("availability")
DECODED = vectors("availabilityDecode")


def contains(answer: JavaAvailability, entry: int) -> bool:
    """``isEntryAvailable``: it looks at the group with the greatest start at or before the entry alone."""
    first, last, size, period = next(
        (group for group in reversed(answer.groups) if group[0] <= entry), (entry + 1, 0, 0, 0)
    )
    if not first <= entry <= (last + size + 2**63) % 2**64 - 2**63:
        return False
    since = (entry - first + 2**63) % 2**64 - 2**63
    return (math.fmod(since, period) if period else since) < size


def answers_alike(answer: JavaAvailability, vector: dict[str, Any]) -> None:
    assert answer.total == vector["total"]
    for entry, available in vector.get("isEntryAvailable", []):
        assert contains(answer, entry) is available
    if "availableBelow160" in vector:
        assert [entry for entry in range(160) if contains(answer, entry)] == vector["availableBelow160"]
    if "serialisedAgain" in vector:
        again = JavaAvailability.parse(bytes.fromhex(vector["serialisedAgain"]))
        assert again.groups == answer.groups


@pytest.mark.parametrize("part", [WRITTEN, DECODED], ids=["written by the server", "folded and spoiled"])
def test_it_answers_what_the_server_answers(part: list[dict[str, Any]]) -> None:
    for vector in part:
        if "error" not in vector:
            answers_alike(JavaAvailability.parse(bytes_of(vector)), vector)


_bounds = st.integers(-40, 40)


@given(st.lists(st.tuples(_bounds, _bounds, st.integers(-3, 9), st.integers(-6, 12)), max_size=4))
def test_the_entries_are_those_that_it_says_are_there(groups: list[tuple[int, int, int, int]]) -> None:
    kept = {
        first: (first, last, size, period) for first, last, size, period in groups if period or first == last
    }
    answer = JavaAvailability(tuple(sorted(kept.values())))
    assert answer.entries(1000) == [entry for entry in range(-100, 100) if contains(answer, entry)]


@pytest.mark.parametrize(
    "group", [(0, 2**62, 1, 1), (0, 2**62, 0, 1), (0, 0, 2**31 - 1, 0), (-(2**63), 2**62, 1, 3)]
)
def test_more_entries_than_anyone_reads_are_not_listed(group: tuple[int, int, int, int]) -> None:
    with pytest.raises(CoverageLimitError):
        JavaAvailability((group,)).entries(1000)


def test_it_refuses_what_the_server_refuses_at_the_byte_that_made_it() -> None:
    refused = [vector for vector in DECODED if "error" in vector]
    for vector in refused:
        data = bytes_of(vector)
        with pytest.raises(DecodeError) as damage:
            JavaAvailability.parse(data)
        at = damage.value.offset
        because = {0: "IllegalArgument", len(data): "ArrayIndexOutOfBounds"}.get(at, "Arithmetic")
        assert vector["error"] == f"java.lang.{because}Exception"
        assert because != "Arithmetic" or (at >= 64 and (at - 64) % 24 == 0)
    assert len(refused) > 80
