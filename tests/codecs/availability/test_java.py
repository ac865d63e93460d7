"""Our model of the server's class compared with that class in 4.17.2: answers, bytes and exceptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability.java import JavaAvailability
from auditor.codecs.availability.wire import decode
from auditor.errors import CoverageLimitError, DecodeError
from tests.codecs.bp34_vectors import bytes_of, entries_of, vectors

SERVER_SETS = vectors("availability")
DECODED = vectors("availabilityDecode")


def assert_answers_match(answer: JavaAvailability, vector: dict[str, Any]) -> None:
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


def test_model_writes_the_same_bytes_as_the_server_in_any_order() -> None:
    for vector in SERVER_SETS:
        assert JavaAvailability.from_entries(entries_of(vector)).tobytes() == bytes_of(vector), vector["kind"]


@pytest.mark.parametrize("part", [SERVER_SETS, DECODED], ids=["written by the server", "folded and spoiled"])
def test_model_gives_the_same_answers_as_the_server(part: list[dict[str, Any]]) -> None:
    for vector in part:
        if "error" not in vector:
            assert_answers_match(decode(bytes_of(vector), mode="java"), vector)


_bounds = st.integers(-40, 40)


@given(st.lists(st.tuples(_bounds, _bounds, st.integers(-3, 9), st.integers(-6, 12)), max_size=4))
def test_model_lists_exactly_the_entries_that_it_contains(groups: list[tuple[int, int, int, int]]) -> None:
    groups_by_first = {
        first: (first, last, size, period) for first, last, size, period in groups if period or first == last
    }
    answer = JavaAvailability(tuple(sorted(groups_by_first.values())))
    assert answer.entries(1000) == [entry for entry in range(-100, 100) if answer.contains(entry)]


@pytest.mark.parametrize(
    "group", [(0, 2**62, 1, 1), (0, 2**62, 0, 1), (0, 0, 2**31 - 1, 0), (-(2**63), 2**62, 1, 3)]
)
def test_listing_more_entries_than_the_limit_is_refused(group: tuple[int, int, int, int]) -> None:
    with pytest.raises(CoverageLimitError):
        JavaAvailability((group,)).entries(1000)


def test_model_refuses_server_errors_at_the_matching_offset() -> None:
    refused = [vector for vector in DECODED if "error" in vector]
    for vector in refused:
        data = bytes_of(vector)
        with pytest.raises(DecodeError) as damage:
            decode(data, mode="java")
        offset = damage.value.offset
        exception = {0: "IllegalArgument", len(data): "ArrayIndexOutOfBounds"}.get(offset, "Arithmetic")
        assert vector["error"] == f"java.lang.{exception}Exception"
        assert exception != "Arithmetic" or (offset >= 64 and (offset - 64) % 24 == 0)
    assert len(refused) > 80


def test_unavailable_answer_differs_from_the_missing_entries_after_a_hole() -> None:
    availability = JavaAvailability.from_entries([0, 1, 5, 6, 10, 11])
    assert availability.unavailable(0, 12, range(13)) == list(range(2, 13))
    assert [entry for entry in range(13) if not availability.contains(entry)] == [2, 3, 4, 7, 8, 9, 12]
