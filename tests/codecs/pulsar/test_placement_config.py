"""A ledger's own placement policy: the groups that Pulsar reads in it, and damage with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.pulsar.placement_config import decode
from auditor.errors import DecodeError
from auditor.model.placement import ISOLATING_POLICY_CLASSES, POLICY_BY_CLASS

DATA = Path(__file__).parents[2] / "data" / "pulsar-placement-4.2.4"
READINGS: list[dict[str, Any]] = json.loads((DATA / "readings.json").read_bytes())
WRITTEN = (DATA / "isolated.json").read_bytes()
STRICTER = ("null", "trailing", '"isolationBookieGroups":{', '"isolationBookieGroups":1.50')
"""What Pulsar takes and is refused here: the ledger's groups are unknown then."""


def bytes_of(reading: dict[str, Any]) -> bytes:
    return (DATA / reading["file"]).read_bytes() if "file" in reading else str(reading["value"]).encode()


def offset_of_damage(data: bytes) -> int:
    """Where it is damaged; -1: nowhere."""
    try:
        decode(data)
    except DecodeError as error:
        return error.offset
    return -1


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_groups_are_those_that_pulsars_policy_reads(reading: dict[str, Any]) -> None:
    data = bytes_of(reading)
    if offset_of_damage(data) >= 0:
        assert "groups" not in reading or any(word in data.decode() for word in STRICTER)
        return
    found = decode(data)
    name = found.policy_class.rpartition(".")[2]
    if reading.get("groups") == "by the configuration":
        assert name in {*POLICY_BY_CLASS} - ISOLATING_POLICY_CLASSES
    elif "refused" in reading:
        assert name == "Absent"
    else:
        assert name in ISOLATING_POLICY_CLASSES
        assert [sorted({*each}) for each in found.groups] == [sorted(each) for each in reading["groups"]]


@pytest.mark.parametrize(
    ("value", "offset", "reason"),
    [
        (b"", 0, "is not JSON: Expecting value"),
        (WRITTEN[:60], 20, "is not JSON: Unterminated string starting at"),
        (b'{"policyClass": "\xff"}', 17, "is not UTF-8 text"),
        (b"[]", 0, "the value is not an object"),
        (b'{"properties": {}}', 0, "policyClass is not the name of a class"),
        (b'{"properties": {}, "policyClass": 7}', 19, "policyClass is not the name of a class"),
        (b'{"policyClass": "a.B", "properties": null}', 23, "properties are not an object"),
        (
            b'{"policyClass": "a.B", "properties": {"isolationBookieGroups": [7]}}',
            38,
            "isolationBookieGroups is neither a text nor a list of texts",
        ),
    ],
)
def test_damage_says_what_and_where(value: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError) as error:
        decode(value)
    assert (error.value.offset, error.value.reason[: len(reason)]) == (offset, reason)


@given(st.integers(0, len(WRITTEN) - 1), st.integers(0, 255))
def test_any_byte_may_be_another(at: int, byte: int) -> None:
    damaged = bytearray(WRITTEN)
    damaged[at] = byte
    assert -1 <= offset_of_damage(bytes(damaged)) <= len(WRITTEN)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert -1 <= offset_of_damage(data) <= len(data)


NAMES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1), max_size=4)


@given(NAMES, NAMES)
def test_names_of_groups_are_kept_as_they_are(primary: list[str], secondary: list[str]) -> None:
    properties = {"isolationBookieGroups": ",".join(primary), "secondaryIsolationBookieGroups": secondary}
    value = {"policyClass": "a.B", "properties": properties, "later": []}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert decode(text.encode()).groups == (tuple(primary), tuple(secondary))
