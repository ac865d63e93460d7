"""Messages read by the thousand say what the protobuf library reads of each."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.wire_fields import MOST_FIELDS, Fields, read_fields, varints
from tests.codecs.ledger_strategies import messages, mutations

NAMES = {
    field.number: field.name
    for field in LedgerMetadataFormat.DESCRIPTOR.fields
    if field.cpp_type == field.CPPTYPE_INT64
}
PASSWORD, SEGMENT = 8, 6


def read(bodies: list[bytes]) -> Fields:
    ends = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    starts = ends - np.array([len(body) for body in bodies], np.int64)
    data = np.frombuffer(b"".join(bodies), np.uint8)
    return read_fields(data, starts, ends, list(NAMES), [PASSWORD, SEGMENT])


tails = st.lists(
    st.sampled_from(["7801", "7a03616263", "70ffff01", "1805", "5001"]).map(bytes.fromhex), max_size=2
)
"""Fields that nobody knows, and fields that come twice."""

bodies = st.builds(lambda message, tail: message.SerializeToString() + b"".join(tail), messages, tails)


@given(st.lists(bodies, max_size=8))
def test_sound_messages_are_read_as_the_library_reads_them(given_: list[bytes]) -> None:
    found = read(given_)
    segments = found.blobs[SEGMENT]
    for row, body in enumerate(given_):
        message = LedgerMetadataFormat.FromString(body)
        assert not found.odd[row]
        for number, name in NAMES.items():
            assert found.present[number][row] == message.HasField(name)
            assert found.numbers[number][row] == getattr(message, name)
        assert found.present[PASSWORD][row] == message.HasField("password")
        assert int((segments.owners == row).sum()) == len(message.segment)
    assert segments.owners.tolist() == sorted(segments.owners.tolist())


golden = LedgerMetadataFormat(
    quorumSize=2, ensembleSize=3, length=300, lastEntryId=-1, state="CLOSED", password=b"secret"
).SerializeToString()


@given(st.lists(st.one_of(st.just(golden), mutations(golden)), max_size=5))
def test_what_the_library_refuses_or_reads_otherwise_is_odd(given_: list[bytes]) -> None:
    found = read(given_)
    for row, body in enumerate(given_):
        if found.odd[row]:
            continue
        try:
            message = LedgerMetadataFormat.FromString(body)
        except DecodeError:
            pytest.fail(f"{body.hex()} is broken, and was read")
        for number, name in NAMES.items():
            assert (found.present[number][row], found.numbers[number][row]) == (
                message.HasField(name),
                getattr(message, name),
            )


def test_a_message_of_many_fields_is_odd_and_its_neighbours_are_not() -> None:
    many = bytes.fromhex("3200") * (MOST_FIELDS + 1)
    assert read([golden, many, golden]).odd.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("wire", "value", "length", "fine"),
    [
        ("00", 0, 1, True),
        ("9601", 150, 2, True),
        ("ffffffffffffffffff01", -1, 10, True),
        ("ffffffffffffffff7f", 2**63 - 1, 9, True),
        ("ffffffffffffffffff02", None, 10, False),
        ("ffffffffffffffffffff01", None, 10, False),
    ],
)
def test_numbers_have_up_to_64_bits(wire: str, value: int | None, length: int, fine: bool) -> None:
    data = np.frombuffer(bytes.fromhex(wire), np.uint8)
    [number], [after], [sound] = varints(data, np.array([0]))
    assert bool(sound) is fine
    if fine:
        assert (number, after) == (value, length)
