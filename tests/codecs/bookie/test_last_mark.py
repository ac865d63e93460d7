"""The journal mark (lastMark) as a 4.17.2 bookie writes it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.last_mark import START, LastMark, decode
from auditor.errors import DecodeError
from tests.codecs.ledger_strategies import int64s

GOLDEN = bytes.fromhex("000001a1fc8020c3 0000000000001a00")


def test_mark_written_by_a_server_is_decoded() -> None:
    mark = decode(GOLDEN)
    assert mark == LastMark(0x1A1FC8020C3, 0x1A00)
    assert mark.file_name == "1a1fc8020c3.txn"


@given(int64s, int64s)
def test_written_mark_is_read_back(file_id: int, offset: int) -> None:
    assert decode(struct.pack(">qq", file_id, offset)) == LastMark(file_id, offset)


def test_the_greatest_mark_is_the_latest() -> None:
    assert max(LastMark(2, 0), START, LastMark(1, 900), LastMark(2, 512)) == LastMark(2, 512)


@given(st.binary(max_size=15))
def test_truncated_mark_is_refused(damaged: bytes) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged)
    assert damage.value.offset == len(damaged)


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=9))
def test_bytes_after_a_mark_are_ignored(mark: bytes, rest: bytes) -> None:
    assert decode(mark + rest) == decode(mark)
