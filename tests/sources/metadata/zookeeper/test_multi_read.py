"""The multiRead request: bytes of a 3.9.5 server, encoding and decoding, and damage."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import DecodeError
from auditor.sources.metadata.zookeeper.requests import MultiRead, NodeData, Operation, Stat

# Sent to and received from a 3.9.5 server: getData of /zookeeper/quota and of a path that does not exist.
GOLDEN_REQUEST = (
    "00000004 00 ffffffff 00000010 2f7a6f6f6b65657065722f71756f7461 00"
    "00000004 00 ffffffff 00000005 2f6e6f6e65 00"
    "ffffffff 01 ffffffff"
)
GOLDEN_RESPONSE = (
    "00000004 00 00000000 00000000"
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000"
    "00000000 00000000 00000000 0000000000000000 00000000 00000000 0000000000000000"
    "ffffffff 00 ffffff9b ffffff9b"
    "ffffffff 01 ffffffff"
)
HEADER = struct.Struct("!iBi")
STAT = struct.Struct("!qqqqiiiqiiq")
END = HEADER.pack(-1, 1, -1)

longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
stats = st.builds(Stat, longs, longs, longs, longs, ints, ints, ints, longs, ints, ints, longs)
answers = st.one_of(
    st.builds(NodeData, st.binary(max_size=40), stats),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=5),
    ints,
)


def encode(answer: NodeData | list[str] | int) -> bytes:
    if isinstance(answer, int):
        return HEADER.pack(-1, 0, answer) + struct.pack("!i", answer)
    if isinstance(answer, list):
        names = [name.encode() for name in answer]
        return (
            HEADER.pack(8, 0, 0)
            + struct.pack("!i", len(names))
            + b"".join(with_length(name) for name in names)
        )
    return HEADER.pack(4, 0, 0) + with_length(answer.data) + STAT.pack(*answer.stat)


def with_length(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def test_golden_request_and_response_are_encoded_and_decoded() -> None:
    request = MultiRead(Operation.GET_DATA, ["/zookeeper/quota", "/none"])
    assert request.serialize() == bytes.fromhex(GOLDEN_REQUEST)
    assert request.deserialize(bytes.fromhex(GOLDEN_RESPONSE), 0) == [NodeData(b"", Stat(*[0] * 11)), -101]


@given(st.lists(answers, max_size=6), st.binary(max_size=8))
def test_every_answer_is_decoded_at_any_offset(
    expected: list[NodeData | list[str] | int], before: bytes
) -> None:
    response = before + b"".join(map(encode, expected)) + END
    assert (
        MultiRead(Operation.GET_DATA, ["/x"] * len(expected)).deserialize(response, len(before)) == expected
    )


@given(st.lists(answers, min_size=1, max_size=4), st.data())
def test_cut_response_is_an_error(expected: list[NodeData | list[str] | int], data: st.DataObject) -> None:
    response = b"".join(map(encode, expected)) + END
    cut = response[: data.draw(st.integers(0, len(response) - len(END)))]
    with pytest.raises(DecodeError) as damage:
        MultiRead(Operation.GET_DATA, ["/x"] * len(expected)).deserialize(cut, 0)
    assert 0 <= damage.value.offset <= len(cut)


@given(st.binary(max_size=200))
def test_random_bytes_are_rejected_or_decoded(noise: bytes) -> None:
    try:
        read = MultiRead(Operation.GET_DATA, ["/x"]).deserialize(noise, 0)
    except DecodeError:
        return
    assert len(read) == 1


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(encode(-101) + END, 13, id="one answer too few"),
        pytest.param(HEADER.pack(77, 0, 0) + with_length(b""), 9, id="an unknown type"),
        pytest.param(
            HEADER.pack(4, 0, 0) + struct.pack("!i", 2**31 - 1), 9, id="data longer than the response"
        ),
        pytest.param(HEADER.pack(8, 0, 0) + struct.pack("!ii", 2**31 - 1, 2**31 - 1), 9, id="a huge count"),
        pytest.param(
            HEADER.pack(8, 0, 0) + struct.pack("!i", 1) + with_length(b"\xff"),
            9,
            id="a name that is not text",
        ),
    ],
)
def test_damaged_response_is_an_error_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        MultiRead(Operation.GET_DATA, ["/x", "/y"]).deserialize(damaged, 0)
    assert damage.value.offset == offset
