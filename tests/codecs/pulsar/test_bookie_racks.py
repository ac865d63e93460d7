"""The value of /bookies: the codec accepts all that Pulsar's reader accepts, and reports damage by offset."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.pulsar.bookie_racks import RackEntry, decode, location_of
from auditor.errors import DecodeError

# As Pulsar 4.0.7 writes it: groups and bookies sorted, without hostname where it has none.
SAMPLE = b'{"default":{"bk1:3181":{"rack":"rack1","hostname":"bk1"},"bk2:3181":{"rack":"/reg/rack2"}}}'


def test_value_of_two_bookies_is_decoded() -> None:
    assert decode(SAMPLE) == [
        RackEntry("default", "bk1:3181", "rack1"),
        RackEntry("default", "bk2:3181", "/reg/rack2"),
    ]


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        (b"{}", []),
        (b'{"g": {}}', []),
        (b'{"g": null}', []),
        (b'{"g": {"b": null}}', [RackEntry("g", "b", None)]),
        (b'{"g": {"b": {"rack": null, "later": [1]}}}', [RackEntry("g", "b", None)]),
        (b'{"g": {"b": {"rack": 7}}, "h": {"b": {"rack": "r"}}}', [("g", "b", "7"), ("h", "b", "r")]),
    ],
)
def test_values_that_pulsar_accepts_are_decoded(value: bytes, entries: list[RackEntry]) -> None:
    assert decode(value) == entries


@pytest.mark.parametrize(
    ("value", "offset", "reason"),
    [
        (b"", 0, "is not JSON: Expecting value"),
        (b"[]", 0, "the value is not an object"),
        (b"null", 0, "the value is not an object"),
        (SAMPLE[:28], 24, "is not JSON: Unterminated string starting at"),
        (b'{"g": {"\xc3\xa4": {"rack" "r"}}}', 21, "is not JSON: Expecting ':' delimiter"),
        (b'{"g": {"\xff"}}', 8, "is not UTF-8 text"),
        (b'{"g": 5}', 1, "group 'g' is not an object"),
        (b'{"g": {"bk": "r1"}}', 7, "bookie 'bk' is not an object"),
        (b'{"g": {"bk": {"rack": []}}}', 7, "the rack of bookie 'bk' is not a text"),
        (b"[" * 100_000, 0, "is not JSON: maximum recursion depth exceeded"),
    ],
)
def test_damage_is_refused_with_its_offset_and_reason(value: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError) as error:
        decode(value)
    assert (error.value.offset, error.value.reason[: len(reason)]) == (offset, reason)


def offset_of_damage(data: bytes) -> int:
    """Return the offset of the damage, or -1 if there is none."""
    try:
        decode(data)
    except DecodeError as error:
        return error.offset
    return -1


@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255))
def test_value_with_one_changed_byte_is_decoded_or_refused(at: int, byte: int) -> None:
    damaged = bytearray(SAMPLE)
    damaged[at] = byte
    assert -1 <= offset_of_damage(bytes(damaged)) <= len(SAMPLE)


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    assert -1 <= offset_of_damage(data) <= len(data)


@pytest.mark.parametrize(
    ("rack", "location"),
    [(None, None), ("", None), ("/", None), (" / ", None), ("r1", "/r1"), ("/a/b", "/a/b"), (" ", "/ ")],
)
def test_location_adds_a_leading_slash_to_a_rack(rack: str | None, location: str | None) -> None:
    assert location_of(rack) == location


def test_file_written_by_pulsar_is_decoded() -> None:
    path = Path(__file__).parents[2] / "data" / "pulsar-racks-4.2.4" / "bookies.json"
    assert decode(path.read_bytes()) == [
        RackEntry("default", "bk1:3181", "rack1"),
        RackEntry("default", "bk2:3181", "/reg/rack2"),
        RackEntry("isolated", "bk3:3181", "/reg/rack 3/"),
    ]
