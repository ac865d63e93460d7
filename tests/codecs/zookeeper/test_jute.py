"""Jute: a reader returns the values that were written, and reads nothing beyond the end."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.zookeeper.encodings import JuteReader
from auditor.errors import DecodeError


def test_null_reads_as_empty() -> None:
    reader = JuteReader(bytes.fromhex("ffffffff ffffffff ffffffff 01"), "test")
    assert (reader.buffer(), reader.string(), reader.count(4), reader.boolean()) == (b"", "", 0, True)
    assert reader.remaining_bytes == 0


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(),
    st.text(st.characters(codec="utf-8")),
)
def test_written_jute_values_are_read_back(small: int, large: int, octets: bytes, text: str) -> None:
    encoded = text.encode()
    data = struct.pack(">iqi", small, large, len(octets)) + octets + struct.pack(">i", len(encoded)) + encoded
    reader = JuteReader(b"before" + data + b"after", "test", 6, 6 + len(data))
    assert (reader.int32(), reader.int64(), reader.buffer(), reader.string(), reader.remaining_bytes) == (
        small,
        large,
        octets,
        text,
        0,
    )


@pytest.mark.parametrize(
    ("data", "method"),
    [
        pytest.param("00000005 61626364", "buffer", id="a buffer longer than what is there"),
        pytest.param("7fffffff 61626364", "string", id="a string longer than memory"),
        pytest.param("fffffffe", "buffer", id="a length below null"),
        pytest.param("00000001 ff", "string", id="no UTF-8"),
        pytest.param("0000", "int32", id="half a number"),
        pytest.param("00000000 000000", "int64", id="most of a number"),
        pytest.param("", "boolean", id="nothing"),
    ],
)
def test_jute_damage_is_refused_with_its_offset(data: str, method: str) -> None:
    reader = JuteReader(b"xx" + bytes.fromhex(data), "test", 2)
    with pytest.raises(DecodeError) as damage:
        getattr(reader, method)()
    assert damage.value.offset == 2


def test_count_that_cannot_fit_is_refused() -> None:
    with pytest.raises(DecodeError) as damage:
        JuteReader(struct.pack(">i", 2**31 - 1) + bytes(40), "test").count(4)
    assert damage.value.offset == 0
