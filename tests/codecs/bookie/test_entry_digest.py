"""Digests of entries, under every type, as a client of 4.17.2 wrote them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.entry_digest import DIGEST_BYTES, crc32c, digest_matches, mac_key
from tests.codecs.bookie.test_entry import PREFIX, REAL

CHECKED = ("CRC32", "MAC", "CRC32C")
KEY = mac_key(b"secret")


def entry(digest_type: str, payload: bytes = b"entry-0") -> bytes:
    return bytes.fromhex(PREFIX + REAL[digest_type]) + payload


@pytest.mark.parametrize("digest_type", CHECKED)
def test_a_digest_that_a_client_wrote_is_right(digest_type: str) -> None:
    assert digest_matches(entry(digest_type), 32, digest_type, KEY) is True


@given(st.sampled_from(CHECKED), st.data())
def test_any_byte_that_is_another_is_wrong(digest_type: str, data: st.DataObject) -> None:
    whole = bytearray(entry(digest_type))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    assert digest_matches(bytes(whole), 32, digest_type, KEY) is False


@given(st.sampled_from(CHECKED), st.integers(0, 38))
def test_a_cut_entry_is_wrong_and_no_error(digest_type: str, length: int) -> None:
    assert digest_matches(entry(digest_type)[:length], 32, digest_type, KEY) is False


def test_without_a_digest_or_a_password_nothing_is_said() -> None:
    assert digest_matches(entry("DUMMY"), 32, "DUMMY", KEY) is None
    assert digest_matches(entry("MAC"), 32, "MAC") is None
    assert digest_matches(entry("MAC"), 32, "MAC", mac_key(b"another")) is False


def test_an_entry_of_the_second_format_is_held_to_its_longer_header() -> None:
    head = struct.pack(">Bqqqqq", 0xA3, 1, 2, 3, 2, 7)
    whole = head + crc32c(head, b"entry-3").to_bytes(DIGEST_BYTES["CRC32C"], "big") + b"entry-3"
    assert digest_matches(whole, len(head), "CRC32C") is True
    assert digest_matches(whole, 32, "CRC32C") is False
