"""Entry logs as 4.17.2 wrote them, and every kind of damage to a header or a ledgers map."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.entry_log import (
    HEADER_BYTES,
    EntryLogHeader,
    check_header,
    decode_map,
    decode_unchecked_header,
)
from auditor.errors import DecodeError

LOGS = Path(__file__).parents[2] / "data" / "entry-logs"
# Three entries of 18 bytes, ledger 5 twice and ledger 9, and the log closed.
MAP_AT = 0x442
MAP = bytes.fromhex(
    "00000034 ffffffffffffffff fffffffffffffffe 00000002"
    "0000000000000009 0000000000000016 0000000000000005 000000000000002c"
)
HEADER = bytes.fromhex("424b4c4f 00000001 0000000000000442 00000002")


def filled(header: bytes) -> bytes:
    return header.ljust(HEADER_BYTES, b"\0")


def record(ledgers: list[tuple[int, int]]) -> bytes:
    pairs = b"".join(struct.pack(">qq", *pair) for pair in ledgers)
    return struct.pack(">iqqi", 20 + len(pairs), -1, -2, len(ledgers)) + pairs


def test_map_written_by_a_server_is_decoded() -> None:
    header = decode_unchecked_header(filled(HEADER))
    assert (header, header.has_map) == (EntryLogHeader(1, MAP_AT, 2), True)
    assert decode_map(MAP, header).tolist() == [(9, 22), (5, 44)]
    assert decode_map(MAP + b"\xf0" * 100, header).tolist() == [(9, 22), (5, 44)]


@pytest.mark.parametrize("name", ["interleaved.log.gz", "dbledger.log.gz"])
def test_log_left_open_by_a_real_bookie_has_no_map(name: str) -> None:
    header = decode_unchecked_header(gzip.decompress((LOGS / name).read_bytes()))
    assert (header, header.has_map) == (EntryLogHeader(1, 0, 0), False)


def test_header_of_version_0_or_without_ledgers_has_no_map() -> None:
    assert not EntryLogHeader(0, 2048, 3).has_map
    assert not EntryLogHeader(1, 2048, 0).has_map


# hex of a header, how much of the file is there, where the damage begins
DAMAGED_HEADERS = {
    "an empty file": ("", 0, 0),
    "a header cut in its padding": ("424b4c4f 00000001", 1023, 1023),
    "another magic": ("424b4c45 00000001", 2048, 0),
    "nothing but zeros": ("", 2048, 0),
    "a newer version": ("424b4c4f 00000002", 2048, 4),
    "a negative version": ("424b4c4f ffffffff", 2048, 4),
    "a map inside the header": ("424b4c4f 00000001 0000000000000003 00000001", 2048, 8),
    "a map before the file": ("424b4c4f 00000001 ffffffffffffffff 00000001", 2048, 8),
    "a negative number of ledgers": ("424b4c4f 00000001 0000000000000442 ffffffff", 2048, 16),
}


@pytest.mark.parametrize(("text", "length", "offset"), DAMAGED_HEADERS.values(), ids=DAMAGED_HEADERS.keys())
def test_header_damage_is_refused_with_its_offset(text: str, length: int, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        check_header(decode_unchecked_header(bytes.fromhex(text)[:length].ljust(length, b"\0")))
    assert (damage.value.what, damage.value.offset) == ("entry log", offset)


# the map, how many ledgers the header promises, where the damage begins
DAMAGED_MAPS = {
    "no map": (b"", 1, 0),
    "cut in its size": (MAP[:3], 2, 0),
    "cut in its first numbers": (MAP[:20], 2, 20),
    "cut in its ledgers": (MAP[:-1], 2, len(MAP) - 1),
    "an entry in its place": (struct.pack(">iqqi", 52, 5, 0, 2) + MAP[24:], 2, 4),
    "a size that is not that of its ledgers": (b"\0\0\0\x35" + MAP[4:], 2, 0),
    "fewer than no ledgers": (struct.pack(">iqqi", 4, -1, -2, -1), 1, 0),
    "fewer ledgers than promised": (MAP, 3, len(MAP)),
    "more ledgers than promised": (MAP, 1, len(MAP)),
    "a second record of another kind": (MAP + struct.pack(">iqqi", 20, -1, -3, 0), 3, len(MAP) + 4),
    "a ledger of negative bytes": (record([(1, 1), (2, -1)]), 2, 24 + 16 + 8),
    "a negative ledger": (record([(1, 1), (-2, 1)]), 2, 24 + 16),
    "a ledger that is twice in it": (record([(1, 1)]) + record([(1, 1)]), 2, 0),
}


@pytest.mark.parametrize(("data", "ledger_count", "offset"), DAMAGED_MAPS.values(), ids=DAMAGED_MAPS.keys())
def test_map_damage_is_refused_with_its_offset(data: bytes, ledger_count: int, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode_map(data, EntryLogHeader(1, 4096, ledger_count))
    assert (damage.value.what, damage.value.offset) == ("entry log", 4096 + offset)


longs = st.integers(0, 2**63 - 1)


@given(st.lists(st.tuples(longs, longs), max_size=20, unique_by=lambda pair: pair[0]), st.integers(1, 5))
def test_written_map_is_read_back(whole: list[tuple[int, int]], largest: int) -> None:
    records = [whole[start : start + largest] for start in range(0, len(whole), largest)]
    header = EntryLogHeader(1, 4096, len(whole))
    data = b"".join(map(record, records))
    assert decode_map(data, header).tolist() == whole
    assert len(data) <= header.longest_map


@given(st.binary(max_size=200), st.integers(0, 5), st.booleans())
def test_any_map_bytes_are_decoded_or_refused_with_an_offset_inside(
    data: bytes, count: int, mapped: bool
) -> None:
    data = MAP + data if mapped else data
    offset = None
    try:
        assert len(decode_map(data, EntryLogHeader(1, 4096, count))) == count
    except DecodeError as damage:
        offset = damage.offset
    assert offset is None or 4096 <= offset <= 4096 + len(data)
