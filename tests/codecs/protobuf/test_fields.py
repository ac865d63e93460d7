"""Batch reading of messages gives the same fields as the protobuf library reads from each message."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.protobuf.fields import MIN_STEP_MESSAGES, Fields, read_fields, varints
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from tests.codecs.ledger_strategies import messages, mutations

NAMES = {
    field.number: field.name
    for field in LedgerMetadataFormat.DESCRIPTOR.fields
    if field.cpp_type == field.CPPTYPE_INT64
}
PASSWORD, SEGMENT = 8, 6


def read(bodies: list[bytes], few: int) -> Fields:
    ends = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    starts = ends - np.array([len(body) for body in bodies], np.int64)
    data = np.frombuffer(b"".join(bodies), np.uint8)
    return read_fields(data, starts, ends, list(NAMES), [PASSWORD, SEGMENT], few)


fews = st.sampled_from([1, 2, MIN_STEP_MESSAGES])
"""Steps to the end, a walk over the last or longest, and walks alone."""

tails = st.lists(
    st.sampled_from(["7801", "7a03616263", "70ffff01", "1805", "5001"]).map(bytes.fromhex), max_size=2
)
"""Fields that nobody knows, and fields that come twice."""

bodies = st.builds(lambda message, tail: message.SerializeToString() + b"".join(tail), messages, tails)


@given(st.lists(bodies, max_size=8), fews)
def test_sound_messages_are_read_as_the_library_reads_them(given_: list[bytes], few: int) -> None:
    fields = read(given_, few)
    segments = fields.blobs[SEGMENT]
    for row, body in enumerate(given_):
        message = LedgerMetadataFormat.FromString(body)
        assert not fields.needs_strict_parser[row]
        for number, name in NAMES.items():
            assert fields.is_present[number][row] == message.HasField(name)
            assert fields.numbers[number][row] == getattr(message, name)
        assert fields.is_present[PASSWORD][row] == message.HasField("password")
        assert int((segments.owners == row).sum()) == len(message.segment)
    assert segments.owners.tolist() == sorted(segments.owners.tolist())


golden = LedgerMetadataFormat(
    quorumSize=2, ensembleSize=3, length=300, lastEntryId=-1, state="CLOSED", password=b"secret"
).SerializeToString()


@given(st.lists(st.one_of(st.just(golden), mutations(golden)), max_size=5), fews)
def test_message_that_the_library_reads_differently_needs_the_strict_parser(
    given_: list[bytes], few: int
) -> None:
    fields = read(given_, few)
    for row, body in enumerate(given_):
        if fields.needs_strict_parser[row]:
            continue
        try:
            message = LedgerMetadataFormat.FromString(body)
        except DecodeError:
            pytest.fail(f"{body.hex()} is broken, and was read")
        for number, name in NAMES.items():
            assert (fields.is_present[number][row], fields.numbers[number][row]) == (
                message.HasField(name),
                getattr(message, name),
            )


@given(st.lists(st.one_of(bodies, bodies.flatmap(mutations)), max_size=5))
def test_walks_and_steps_read_the_same_fields_and_mark_the_same_messages(given_: list[bytes]) -> None:
    walked, stepped = read(given_, MIN_STEP_MESSAGES), read(given_, 1)
    fine = ~stepped.needs_strict_parser
    assert walked.needs_strict_parser.tolist() == stepped.needs_strict_parser.tolist()
    for number in NAMES:
        assert walked.numbers[number][fine].tolist() == stepped.numbers[number][fine].tolist()
    for number in (PASSWORD, SEGMENT):
        assert walked.is_present[number][fine].tolist() == stepped.is_present[number][fine].tolist()
        walked_blobs, stepped_blobs = walked.blobs[number], stepped.blobs[number]
        walked_rows, stepped_rows = fine[walked_blobs.owners], fine[stepped_blobs.owners]
        assert walked_blobs.owners[walked_rows].tolist() == stepped_blobs.owners[stepped_rows].tolist()
        assert walked_blobs.starts[walked_rows].tolist() == stepped_blobs.starts[stepped_rows].tolist()
        assert walked_blobs.ends[walked_rows].tolist() == stepped_blobs.ends[stepped_rows].tolist()


@pytest.mark.parametrize("few", [1, MIN_STEP_MESSAGES])
@pytest.mark.parametrize(
    ("broken", "odd"),
    [
        pytest.param("", False, id="sound"),
        pytest.param("32", True, id="a tag and no more"),
        pytest.param("3203aaaa", True, id="a length beyond the end"),
        pytest.param("32ffffffffffffffffff01", True, id="a length below zero"),
        pytest.param("18ffffffffffffffffffff01", True, id="a number of more than 64 bits"),
        pytest.param("18ff", True, id="a number that is cut"),
        pytest.param("350000000000", True, id="another wire type"),
        pytest.param("0000", True, id="field zero"),
        pytest.param("82010105", True, id="a tag of two bytes"),
    ],
)
def test_last_field_decides_whether_a_long_message_needs_the_strict_parser(
    few: int, broken: str, odd: bool
) -> None:
    segments = 3 * MIN_STEP_MESSAGES
    many = bytes.fromhex("3200" * segments + "1803" + "7801" * MIN_STEP_MESSAGES + broken)
    fields = read([golden, many, golden], few)
    assert fields.needs_strict_parser.tolist() == [False, odd, False]
    assert np.count_nonzero(fields.blobs[SEGMENT].owners == 1) == segments
    assert fields.numbers[3].tolist() == [300, 3, 300]


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
