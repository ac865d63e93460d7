"""Headers that 4.17.2 bookies wrote (20 master key bytes cleared), and every way to damage a header."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.index_file import HEADER_BYTES, IndexHeader, check_headers, decode_header
from auditor.errors import DecodeError

KEY = "6d61737465726b6579"
WIPED = "00" * 20
GOLDEN = {
    "version 0, new": (f"424b4c45 00000000 00000009 {KEY}", IndexHeader(0, False, None, True)),
    "version 0, fenced": (f"424b4c45 00000000 00000009 {KEY} 00000001", IndexHeader(0, True, None, True)),
    "version 1, fenced, with a LAC": (
        f"424b4c45 00000001 00000009 {KEY} 00000001 00000014 0000000000000007 0000000000000029 cafebabe",
        IndexHeader(1, True, 41, True),
    ),
    "fenced by a recovery": (
        f"424b4c45 00000001 00000014 {WIPED} 00000001 00000018"
        "0000000000000001 0000000000000002 0000000015ce3e3a",
        IndexHeader(1, True, 2, True),
    ),
    "written by a bookie, version 1": (
        f"424b4c45 00000001 00000014 {WIPED}",
        IndexHeader(1, False, None, True),
    ),
    "written by a bookie, version 0": (
        f"424b4c45 00000000 00000014 {WIPED}",
        IndexHeader(0, False, None, True),
    ),
    "without a key": ("424b4c45 00000001 00000000", IndexHeader(1, False, None, False)),
    "a negative version, as the server reads it": (
        "424b4c45 ffffffff 00000000 00000001 00000005",
        IndexHeader(-1, True, None, False),
    ),
}
# hex of a header, how much of the file is there, where the damage begins
DAMAGED = {
    "an empty file": ("", 0, 0),
    "a header cut in its fields": ("424b4c45 00000001 0000", 10, 10),
    "a header cut in its padding": (f"424b4c45 00000001 00000014 {WIPED}", 1023, 1023),
    "another magic": (f"58585858 00000000 00000014 {WIPED}", 9216, 0),
    "nothing but zeros": ("", 9216, 0),
    "a newer version": (f"424b4c45 00000007 00000014 {WIPED}", 9216, 4),
    "a negative key length": ("424b4c45 00000001 ffffffff", 9216, 8),
    "a key beyond the header": ("424b4c45 00000001 00000400", 9216, 8),
    "a key beyond any memory": ("424b4c45 00000001 7fffffff", 9216, 8),
    "a key that leaves no room for the state, version 0": ("424b4c45 00000000 000003f1", 9216, 8),
    "a key that leaves no room for the LAC length, version 1": ("424b4c45 00000001 000003ed", 9216, 8),
    "a LAC too short": ("424b4c45 00000001 00000000 00000000 0000000f", 9216, 16),
    "a LAC of negative length": (f"424b4c45 00000001 00000009 {KEY} 00000000 ffffffff", 9216, 25),
    "a LAC beyond the header": (f"424b4c45 00000001 00000009 {KEY} 00000000 000003e4", 9216, 25),
}


def filled(text: str) -> bytes:
    return bytes.fromhex(text).ljust(HEADER_BYTES, b"\0")


@pytest.mark.parametrize(("text", "header"), GOLDEN.values(), ids=GOLDEN.keys())
def test_golden_headers_are_decoded(text: str, header: IndexHeader) -> None:
    assert decode_header(filled(text)) == header
    assert decode_header(filled(text) + bytes(8192)) == header


@pytest.mark.parametrize(("text", "length", "offset"), DAMAGED.values(), ids=DAMAGED.keys())
def test_header_damage_is_refused_with_its_offset(text: str, length: int, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode_header(filled(text)[:length].ljust(length, b"\0"))
    assert (damage.value.what, damage.value.offset) == ("index file", offset)


def test_batch_of_headers_is_checked_row_by_row() -> None:
    good = [(filled(text), 9216, None) for text, _ in GOLDEN.values()]
    bad = [(filled(text), length, offset) for text, length, offset in DAMAGED.values()]
    mixed = [row for pair in zip(bad, good + good, strict=False) for row in pair]
    headers = np.frombuffer(b"".join(header for header, _, _ in mixed), np.uint8)
    starts = np.arange(len(mixed)) * HEADER_BYTES
    errors = check_headers(headers, starts, np.array([length for _, length, _ in mixed]))
    assert {row: error.offset for row, error in errors.items()} == {
        row: offset for row, (_, _, offset) in enumerate(mixed) if offset is not None
    }


def test_largest_lengths_that_fit_are_decoded() -> None:
    assert decode_header(filled("424b4c45 00000000 000003f0")).version == 0
    assert decode_header(filled("424b4c45 00000001 000003ec")).explicit_lac is None
    assert decode_header(filled("424b4c45 00000001 00000000 00000000 000003ec")).explicit_lac == 0


@given(
    key=st.binary(max_size=64),
    state=st.integers(-(2**31), 2**31 - 1),
    lac=st.integers(-1, 2**63 - 1),
    mac=st.binary(max_size=20),
)
def test_written_header_is_decoded_without_keeping_the_key(
    key: bytes, state: int, lac: int, mac: bytes
) -> None:
    packet = struct.pack(">qq", 7, lac) + mac
    header_bytes = (
        struct.pack(">4sii", b"BKLE", 1, len(key)) + key + struct.pack(">ii", state, len(packet)) + packet
    )
    header = decode_header(header_bytes.ljust(HEADER_BYTES, b"\0"))
    assert header == IndexHeader(1, bool(state & 1), lac, bool(key))


@given(st.binary(max_size=1100), st.booleans())
def test_any_header_bytes_are_decoded_or_refused_with_an_offset_inside(data: bytes, magic: bool) -> None:
    data = b"BKLE" + data if magic else data
    header = np.frombuffer(data[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0"), np.uint8)
    errors = check_headers(header, np.array([0]), np.array([len(data)]))
    if not errors:
        decode_header(data)
    assert all(0 <= error.offset <= min(len(data), HEADER_BYTES) for error in errors.values())
