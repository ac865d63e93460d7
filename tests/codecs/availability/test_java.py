"""Our model of the server's class against that class itself, 4.17.2: answers, bytes and exceptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability.java import JavaAvailability
from auditor.codecs.availability.wire import decode
from auditor.errors import CoverageLimitError, DecodeError
from tests.codecs.bp34_vectors import bytes_of, entries_of, vectors

WRITTEN = vectors("availability")
DECODED = vectors("availabilityDecode")


def answers_alike(answer: JavaAvailability, vector: dict[str, Any]) -> None:
    assert answer.total == vector["total"]
    for entry, available in vector.get("isEntryAvailable", []):
        assert answer.contains(entry) is available
    if "availableBelow160" in vector:
        assert [entry for entry in range(160) if answer.contains(entry)] == vector["availableBelow160"]
    if "query" in vector:
        query = vector["query"]
        assert answer.unavailable(query["start"], query["last"], query["wanted"]) == query["unavailable"]
        exact = [entry for entry in query["wanted"] if not answer.contains(entry)]
        assert exact == query["unavailableExact"]
    if "serialisedAgain" in vector:
        assert answer.tobytes() == bytes.fromhex(vector["serialisedAgain"])


def test_it_writes_what_the_server_writes_whatever_the_order() -> None:
    for vector in WRITTEN:
        assert JavaAvailability.from_entries(entries_of(vector)).tobytes() == bytes_of(vector), vector["kind"]


@pytest.mark.parametrize("part", [WRITTEN, DECODED], ids=["written by the server", "folded and spoiled"])
def test_it_answers_what_the_server_answers(part: list[dict[str, Any]]) -> None:
    for vector in part:
        if "error" not in vector:
            answers_alike(decode(bytes_of(vector), mode="java"), vector)


_bounds = st.integers(-40, 40)


@given(st.lists(st.tuples(_bounds, _bounds, st.integers(-3, 9), st.integers(-6, 12)), max_size=4))
def test_the_entries_are_those_that_it_says_are_there(groups: list[tuple[int, int, int, int]]) -> None:
    kept = {
        first: (first, last, size, period) for first, last, size, period in groups if period or first == last
    }
    answer = JavaAvailability(tuple(sorted(kept.values())))
    assert answer.entries(1000) == [entry for entry in range(-100, 100) if answer.contains(entry)]


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
            decode(data, mode="java")
        at = damage.value.offset
        because = {0: "IllegalArgument", len(data): "ArrayIndexOutOfBounds"}.get(at, "Arithmetic")
        assert vector["error"] == f"java.lang.{because}Exception"
        assert because != "Arithmetic" or (at >= 64 and (at - 64) % 24 == 0)
    assert len(refused) > 80


def test_the_answer_that_gives_up_in_a_hole_is_not_the_truth() -> None:
    held = JavaAvailability.from_entries([0, 1, 5, 6, 10, 11])
    assert held.unavailable(0, 12, range(13)) == list(range(2, 13))
    assert [entry for entry in range(13) if not held.contains(entry)] == [2, 3, 4, 7, 8, 9, 12]
