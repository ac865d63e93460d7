"""Ledger data of 4.17.2 and 4.18.0 bookies, the parts that may not be kept, and damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.ledger_data import LedgerData, decode, flags, have_required_fields_only
from auditor.codecs.protobuf.pb.ledger_data_pb2 import LedgerData as Wire
from auditor.errors import DecodeError

GOLDEN = {
    "new": ("080110001a00", LedgerData(True, False, False, False, False)),
    "with a key": (
        "080110001a14e793cbc379107648537183605cd361d3bb789a39",
        LedgerData(True, False, True, False, False),
    ),
    "fenced and in limbo": ("080110011a036162632801", LedgerData(True, True, True, False, True)),
    "fenced with an explicit LAC": (
        "080110011a14850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
        "2218000000000000000100000000000000020000000015ce3e3a",
        LedgerData(True, True, True, True, False),
    ),
}

values = st.builds(
    lambda exists, fenced, key, lac, limbo: Wire(
        exists=exists, fenced=fenced, masterKey=key, explicitLac=lac, limbo=limbo
    ).SerializeToString(),
    st.booleans(),
    st.booleans(),
    st.binary(max_size=200),
    st.none() | st.binary(max_size=24),
    st.none() | st.booleans(),
)


@pytest.mark.parametrize(("golden", "ledger_data"), GOLDEN.values(), ids=GOLDEN.keys())
def test_value_written_by_a_bookie_is_decoded(golden: str, ledger_data: LedgerData) -> None:
    assert decode(bytes.fromhex(golden)) == ledger_data


def offsets(data: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.cumsum([0, *map(len, data)])


@given(st.lists(values | st.binary(max_size=30), max_size=20))
def test_value_marked_plain_has_no_optional_fields(data: list[bytes]) -> None:
    joined = np.frombuffer(b"".join(data), np.uint8)
    for value, is_plain in zip(data, have_required_fields_only(joined, offsets(data)).tolist(), strict=True):
        try:
            ledger_data = decode(value)
        except DecodeError:
            assert not is_plain
        else:
            short = len(value) < 0x80 and value[:3] == b"\x08\x01\x10"
            if is_plain:
                assert ledger_data.exists
                assert not ledger_data.has_explicit_lac
                assert not ledger_data.limbo
            elif short and value[3:5] in (b"\x00\x1a", b"\x01\x1a"):
                assert value[5] != len(value) - 6  # more follows the key


def test_real_values_are_plain_unless_they_have_optional_fields() -> None:
    data = [bytes.fromhex(golden) for golden, _ in GOLDEN.values()]
    assert have_required_fields_only(np.frombuffer(b"".join(data), np.uint8), offsets(data)).tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_master_key_is_not_in_the_decoded_value() -> None:
    assert "abc" not in repr(decode(bytes.fromhex("080110011a036162632801")))


@pytest.mark.parametrize(("golden", "_"), GOLDEN.values(), ids=GOLDEN.keys())
def test_cut_value_is_refused_unless_only_optional_fields_are_missing(golden: str, _: LedgerData) -> None:
    value = bytes.fromhex(golden)
    required = 6 + value[5]
    for length in range(len(value)):
        if length == required:
            assert not decode(value[:length]).limbo
            continue
        with pytest.raises(DecodeError) as damage:
            decode(value[:length])
        assert 0 <= damage.value.offset <= length


@pytest.mark.parametrize("length", [0, 7, 9])
def test_flags_of_another_length_than_8_bytes_are_refused(length: int) -> None:
    with pytest.raises(DecodeError) as damage:
        flags(bytes(length))
    assert damage.value.offset == min(length, 8)
