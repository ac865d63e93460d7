from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.entry_log import decode_metadata
from auditor.errors import DecodeError

# A server's value for a log with ledger 5 twice and ledger 9, in entries of 18 bytes.
GOLDEN = bytes.fromhex(
    "0000 0000000000000000 0000000000000042 0000000000000042 0000000000000002"
    "0000000000000009 0000000000000016 0000000000000005 000000000000002c"
)


def test_metadata_written_by_a_server_is_decoded() -> None:
    value = decode_metadata(GOLDEN)
    assert (value.log_id, value.total, value.remaining) == (0, 66, 66)
    assert value.ledgers.tolist() == [(9, 22), (5, 44)]


DAMAGE = {
    "nothing": (b"", 0),
    "cut before the ledgers": (GOLDEN[:33], 33),
    "another version": (b"\0\1" + GOLDEN[2:], 0),
    "less than no bytes": (GOLDEN[:10] + struct.pack(">q", -1) + GOLDEN[18:], 10),
    "more left than there were": (GOLDEN[:18] + struct.pack(">q", 67) + GOLDEN[26:], 18),
    "a ledger cut": (GOLDEN[:-1], 26),
    "a ledger too many": (GOLDEN + bytes(16), 26),
    "fewer than no ledgers": (GOLDEN[:26] + struct.pack(">q", -1), 26),
}


@pytest.mark.parametrize(("data", "offset"), DAMAGE.values(), ids=DAMAGE.keys())
def test_metadata_damage_is_refused_with_its_offset(data: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode_metadata(data)
    assert (damage.value.what, damage.value.offset) == ("entry log metadata", offset)


longs = st.integers(-(2**63), 2**63 - 1)


@given(longs, st.integers(0, 2**62), st.lists(st.tuples(longs, longs), max_size=5))
def test_written_metadata_is_read_back(log: int, total: int, ledgers: list[tuple[int, int]]) -> None:
    data = struct.pack(">hqqqq", 0, log, total, total // 2, len(ledgers))
    value = decode_metadata(data + b"".join(struct.pack(">qq", *pair) for pair in ledgers))
    assert (value.log_id, value.total, value.remaining) == (log, total, total // 2)
    assert value.ledgers.tolist() == ledgers
