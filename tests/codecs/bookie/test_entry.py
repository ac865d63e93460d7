"""Entry headers of both versions, and digests of every type, as a 4.17.2 client wrote them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.entry import (
    DIGEST_BYTES,
    DIGESTS,
    EntryHeader,
    crc32c,
    decode_header,
    digest_matches,
    mac_key,
)
from auditor.errors import DecodeError
from auditor.model.ledger_id import LedgerId

LONGS = st.integers(-(2**63), 2**63 - 1)
NATURALS = st.integers(0, 2**63 - 1)
# Ledger 0, entry 0 with payload entry-0 under each digest, as a client of 4.17.2 wrote it.
PREFIX = "00000000000000000000000000000000ffffffffffffffff0000000000000007"
REAL = {
    "CRC32": "0000000059580afe",
    "MAC": "c0853fbb1bd38ac7dbe02016ee460f0cf2fd2198",
    "CRC32C": "2e233f22",
    "DUMMY": "",
}
# The example of version 2: scope 1, ledger 2, entry 3, no digest.
SCOPED = "a400000000000000010000000000000002000000000000000300000000000000020000000000000007656e7472792d33"


@pytest.mark.parametrize("digest", REAL.values(), ids=REAL)
def test_header_written_by_a_client_is_decoded_with_any_digest(digest: str) -> None:
    data = bytes.fromhex(PREFIX + digest) + b"entry-0"
    assert decode_header(data) == EntryHeader(1, LedgerId(0), 0, -1, 7, None, 32)


def test_first_byte_identifies_a_scoped_header() -> None:
    header = decode_header(bytes.fromhex(SCOPED))
    assert header == EntryHeader(2, LedgerId(2, scope=1), 3, 2, 7, "DUMMY", 41)


@given(NATURALS, NATURALS, LONGS, NATURALS)
def test_version_1_header_is_decoded_completely(ledger: int, entry: int, confirmed: int, length: int) -> None:
    data = struct.pack(">qqqq", ledger, entry, confirmed, length)
    assert decode_header(data) == EntryHeader(1, LedgerId(ledger), entry, confirmed, length, None, 32)


@given(LONGS, LONGS, NATURALS, LONGS, NATURALS, st.sampled_from(sorted(DIGESTS)), st.sampled_from([0, 2]))
def test_version_2_header_keeps_all_bits_of_scope_and_ledger(
    scope: int, ledger: int, entry: int, confirmed: int, length: int, digest: int, version: int
) -> None:
    flags = 0x80 | version << 4 | digest
    data = struct.pack(">Bqqqqq", flags, scope, ledger, entry, confirmed, length)
    expected = EntryHeader(2, LedgerId(ledger, scope=scope), entry, confirmed, length, DIGESTS[digest], 41)
    assert decode_header(data) == expected


@pytest.mark.parametrize(("data", "size"), [(bytes.fromhex(PREFIX), 32), (bytes.fromhex(SCOPED)[:41], 41)])
def test_truncated_header_is_refused_at_its_end(data: bytes, size: int) -> None:
    for length in range(size):
        with pytest.raises(DecodeError) as raised:
            decode_header(data[:length])
        assert raised.value.offset == length


@pytest.mark.parametrize(
    "flags", [f for f in range(0x80, 0x100) if f >> 4 & 7 not in (0, 2) or not 1 <= f & 15 <= 4]
)
def test_undefined_flags_are_refused(flags: int) -> None:
    with pytest.raises(DecodeError) as raised:
        decode_header(bytes([flags]) + bytes(40))
    assert raised.value.offset == 0


CHECKED = ("CRC32", "MAC", "CRC32C")
KEY = mac_key(b"secret")


def entry(digest_type: str, payload: bytes = b"entry-0") -> bytes:
    return bytes.fromhex(PREFIX + REAL[digest_type]) + payload


@pytest.mark.parametrize("digest_type", CHECKED)
def test_digest_written_by_a_client_matches(digest_type: str) -> None:
    assert digest_matches(entry(digest_type), 32, digest_type, KEY) is True


@given(st.sampled_from(CHECKED), st.data())
def test_digest_of_an_altered_entry_does_not_match(digest_type: str, data: st.DataObject) -> None:
    entry_bytes = bytearray(entry(digest_type))
    entry_bytes[data.draw(st.integers(0, len(entry_bytes) - 1))] ^= data.draw(st.integers(1, 255))
    assert digest_matches(bytes(entry_bytes), 32, digest_type, KEY) is False


@given(st.sampled_from(CHECKED), st.integers(0, 38))
def test_digest_of_a_truncated_entry_does_not_match(digest_type: str, length: int) -> None:
    assert digest_matches(entry(digest_type)[:length], 32, digest_type, KEY) is False


def test_digest_without_type_or_password_gives_no_answer() -> None:
    assert digest_matches(entry("DUMMY"), 32, "DUMMY", KEY) is None
    assert digest_matches(entry("MAC"), 32, "MAC") is None
    assert digest_matches(entry("MAC"), 32, "MAC", mac_key(b"another")) is False


def test_digest_of_a_scoped_entry_uses_its_longer_header() -> None:
    head = struct.pack(">Bqqqqq", 0xA3, 1, 2, 3, 2, 7)
    entry_bytes = head + crc32c(head, b"entry-3").to_bytes(DIGEST_BYTES["CRC32C"], "big") + b"entry-3"
    assert digest_matches(entry_bytes, len(head), "CRC32C") is True
    assert digest_matches(entry_bytes, 32, "CRC32C") is False
