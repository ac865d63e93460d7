"""The addWatch request and its events: bytes of a 3.9.5 server, encoding and decoding, and damage."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import DecodeError
from auditor.sources.metadata.zookeeper.requests import AddWatch, EventType, WatchEvent

# Sent to and received from a 3.9.5 server: a watch of /bk, while one znode was made, changed and deleted.
GOLDEN_REQUEST = "00000003 2f626b 00000001"
GOLDEN_EVENTS = {
    "00000001 00000003 00000009 2f62 6b2f 3030 2f4c 31": EventType.CREATED,
    "00000003 00000003 00000009 2f62 6b2f 3030 2f4c 31": EventType.CHANGED,
    "00000002 00000003 00000009 2f62 6b2f 3030 2f4c 31": EventType.DELETED,
}


def test_watch_request_is_persistent_and_recursive() -> None:
    assert AddWatch("/bk").serialize() == bytes.fromhex(GOLDEN_REQUEST)
    assert AddWatch.type == 106


@pytest.mark.parametrize("event", GOLDEN_EVENTS)
def test_server_events_are_decoded(event: str) -> None:
    assert WatchEvent.read(bytes.fromhex(event), 0) == (GOLDEN_EVENTS[event], "/bk/00/L1")


@given(st.integers(-(2**31), 2**31 - 1), st.text(st.characters(codec="utf-8"), max_size=20), st.binary())
def test_every_event_is_decoded_at_any_offset(type: int, path: str, before: bytes) -> None:
    encoded = path.encode()
    event = before + struct.pack("!iii", type, 3, len(encoded)) + encoded
    assert WatchEvent.read(event, len(before)) == (type, path)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("00000001 00000003", "requires"),
        ("00000001 00000003 00000009 2f62", "a path of 9 bytes expected, 2 present"),
        ("00000001 00000003 ffffffff 2f62", "a path of -1 bytes"),
        ("00000001 00000003 00000002 2fff", "can't decode"),
    ],
)
def test_damaged_event_is_an_error_with_its_offset(event: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        WatchEvent.read(b"...." + bytes.fromhex(event), 4)
    assert caught.value.offset == 4
