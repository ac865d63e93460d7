"""The search for the damaged byte in a message, compared with the messages that the library refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.wire import parse, varint
from auditor.errors import DecodeError
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import messages, mutations

COMPLETE = bytes.fromhex("0801 1001 1800 2801")


@given(messages)
def test_message_written_by_the_library_is_read_back(message: LedgerMetadataFormat) -> None:
    assert parse(LedgerMetadataFormat, message.SerializeToString(), "metadata") == message


@given(st.one_of(st.binary(), messages.map(LedgerMetadataFormat.SerializeToString).flatmap(mutations)))
def test_message_damage_is_a_typed_error_with_an_offset_inside(damaged: bytes) -> None:
    refused = refusal(lambda data: parse(LedgerMetadataFormat, data, "metadata"), damaged)
    assert points_within(refused, damaged)
    if refused is None:
        LedgerMetadataFormat.FromString(damaged)


@given(st.integers(0, 2**64 - 1))
def test_varint_is_read_to_its_last_byte(value: int) -> None:
    remainder, data = value, b""
    while remainder >= 0x80:
        data += bytes([remainder & 0x7F | 0x80])
        remainder >>= 7
    data += bytes([remainder])
    assert varint(data + b"more", 0, len(data) + 4) == (value, len(data))
    assert varint(data[:-1], 0, len(data) - 1) is None


@pytest.mark.parametrize(
    ("extra_hex", "offset"),
    [
        pytest.param("08", 8, id="no value"),
        pytest.param("08 ffffffffffffffffffffff", 8, id="a number of eleven bytes"),
        pytest.param("00 00", 8, id="field 0"),
        pytest.param("0e", 8, id="no wire type"),
        pytest.param("42 05 61", 8, id="a value beyond the end"),
        pytest.param("3a 7f", 8, id="a length beyond the end, for a field that is not a string"),
        pytest.param("32 04 0a 05 61 62", 10, id="a member beyond its segment"),
        pytest.param("32 02 08 80", 10, id="a number cut in its segment"),
        pytest.param("a4 01", 8, id="the end of a group that never began"),
        pytest.param("a3 01 08 01", 12, id="a group that never ends"),
        pytest.param("29 01 02", 8, id="a fixed number that is cut"),
    ],
)
def test_message_damage_is_refused_with_its_offset(extra_hex: str, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        parse(LedgerMetadataFormat, COMPLETE + bytes.fromhex(extra_hex), "metadata")
    assert damage.value.offset == offset


def test_missing_required_field_is_reported_at_the_end() -> None:
    with pytest.raises(DecodeError) as damage:
        parse(LedgerMetadataFormat, b"xx" + COMPLETE[:6] + b"yy", "metadata", 2, 8)
    assert damage.value.offset == 8
    assert "state" in damage.value.reason
