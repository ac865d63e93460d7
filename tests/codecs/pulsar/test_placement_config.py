"""A ledger's own placement policy: the groups that Pulsar reads from it, and the offset of damage."""

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
ISOLATED_VALUE = (DATA / "isolated.json").read_bytes()
STRICTER = ("null", "trailing", '"isolationBookieGroups":{', '"isolationBookieGroups":1.50')
"""What Pulsar takes and is refused here: the ledger's groups are unknown then."""


def bytes_of(reading: dict[str, Any]) -> bytes:
    return (DATA / reading["file"]).read_bytes() if "file" in reading else str(reading["value"]).encode()


def offset_of_damage(data: bytes) -> int:
    """Return the offset of the damage, or -1 if there is none."""
    try:
        decode(data)
    except DecodeError as error:
        return error.offset
    return -1


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_groups_match_those_that_the_pulsar_policy_reads(reading: dict[str, Any]) -> None:
    data = bytes_of(reading)
    if offset_of_damage(data) >= 0:
        assert "groups" not in reading or any(word in data.decode() for word in STRICTER)
        return
    policy = decode(data)
    name = policy.policy_class.rpartition(".")[2]
    if reading.get("groups") == "by the configuration":
        assert name in {*POLICY_BY_CLASS} - ISOLATING_POLICY_CLASSES
    elif "refused" in reading:
        assert name == "Absent"
    else:
        assert name in ISOLATING_POLICY_CLASSES
        assert [sorted({*group}) for group in policy.groups] == [sorted(group) for group in reading["groups"]]


@pytest.mark.parametrize(
    ("value", "offset", "reason"),
    [
        (b"", 0, "is not JSON: Expecting value"),
        (ISOLATED_VALUE[:60], 20, "is not JSON: Unterminated string starting at"),
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
def test_damage_is_refused_with_its_offset_and_reason(value: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError) as error:
        decode(value)
    assert (error.value.offset, error.value.reason[: len(reason)]) == (offset, reason)


@given(st.integers(0, len(ISOLATED_VALUE) - 1), st.integers(0, 255))
def test_value_with_one_changed_byte_is_decoded_or_refused(at: int, byte: int) -> None:
    damaged = bytearray(ISOLATED_VALUE)
    damaged[at] = byte
    assert -1 <= offset_of_damage(bytes(damaged)) <= len(ISOLATED_VALUE)


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    assert -1 <= offset_of_damage(data) <= len(data)


NAMES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1), max_size=4)


@given(NAMES, NAMES)
def test_group_names_are_read_back_unchanged(primary: list[str], secondary: list[str]) -> None:
    properties = {"isolationBookieGroups": ",".join(primary), "secondaryIsolationBookieGroups": secondary}
    value = {"policyClass": "a.B", "properties": properties, "later": []}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert decode(text.encode()).groups == (tuple(primary), tuple(secondary))
