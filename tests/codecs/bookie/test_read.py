"""Plain reads: responses of 4.17.2 bookies (two storages, the same bytes), generated ones, and damage."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.wire import (
    HEAD_BYTES,
    LENGTH,
    MAX_FRAME_BYTES,
    ReadAnswer,
    Status,
    read_answer,
    read_request,
)
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from auditor.errors import DecodeError, UsageError
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import mutations
from tests.sources.fake_bookie import read_frame

HEADER = "0a06080310011807"
IDS = "0000000000000005 0000000000000001"
# Entry 1 of ledger 5: ids, last confirmed, length, checksum, and the payload "entry-000001".
ENTRY = f"{IDS} 0000000000000000 0000000000000018 5c55cae8 656e7472792d303030303031"
SERVED = bytes.fromhex(f"00000047 {HEADER} 1000 a2063a 0800 1005 1801 2230 {ENTRY} 2801")
NO_ENTRY = bytes.fromhex(f"00000015 {HEADER} 109303 a20607 089303 1005 1809")
NO_LEDGER = bytes.fromhex(f"00000015 {HEADER} 109203 a20607 089203 1063 1805")
OTHER_VERSION = bytes.fromhex(f"00000015 {HEADER} 10f703 a20607 08f703 1005 1801")
NOT_AUTHORISED = bytes.fromhex(f"0000000b {HEADER} 10f603")
# Of a ledger in limbo 4.17.2 refuses an entry, and sends it all the same.
IN_LIMBO = bytes.fromhex(
    "00000047 0a06080310011801 10fb03 a20639 08fb03 1001 1804 2230 0000000000000001 0000000000000004"
    "0000000000000003 000000000000003c 6efda2e8 656e7472792d303030303034"
)
ABSENT_IN_LIMBO = bytes.fromhex("00000015 0a06080310011801 10fb03 a20607 08fb03 1001 1807")
SERVED_2 = bytes.fromhex(f"00000048 02020000 00000000 {IDS} {ENTRY}")
NO_ENTRY_2 = bytes.fromhex("00000018 02020000 00000002 0000000000000005 0000000000000009")
NO_LEDGER_2 = bytes.fromhex("00000018 02020000 00000001 0000000000000063 0000000000000005")

ids = st.integers(-(2**63), 2**63 - 1)
entry_ids = st.integers(0, 2**63 - 1)
txn_ids = st.integers(0, 2**64 - 1)


def read(frame: bytes, version: int = 3) -> ReadAnswer:
    """Decode a frame as a connection does: from its first bytes and its length."""
    (length,) = LENGTH.unpack_from(frame)
    assert length == len(frame) - LENGTH.size
    return read_answer(frame[LENGTH.size :][:HEAD_BYTES], length, version)


def read_message(message: bytes, version: int) -> object:
    return read_answer(message[:HEAD_BYTES], len(message), version)


def entry(ledger_id: int, entry_id: int, payload: bytes) -> bytes:
    return ledger_id.to_bytes(8, "big", signed=True) + entry_id.to_bytes(8, "big", signed=True) + payload


@pytest.mark.parametrize(
    ("frame", "version", "answer"),
    [
        pytest.param(SERVED, 3, ReadAnswer(Status.EOK, 5, 1, 7), id="served"),
        pytest.param(NO_ENTRY, 3, ReadAnswer(Status.ENOENTRY, 5, 9, 7), id="no such entry"),
        pytest.param(NO_LEDGER, 3, ReadAnswer(Status.ENOLEDGER, 99, 5, 7), id="no such ledger"),
        pytest.param(OTHER_VERSION, 3, ReadAnswer(Status.EBADVERSION, 5, 1, 7), id="another version"),
        pytest.param(NOT_AUTHORISED, 3, ReadAnswer(Status.EUA, None, None, 7), id="not authorised"),
        pytest.param(IN_LIMBO, 3, ReadAnswer(Status.EUNKNOWNLEDGERSTATE, 1, 4, 1), id="in limbo"),
        pytest.param(ABSENT_IN_LIMBO, 3, ReadAnswer(507, 1, 7, 1), id="in limbo, and not there"),
        pytest.param(SERVED_2, 2, ReadAnswer(Status.EOK, 5, 1), id="version 2: served"),
        pytest.param(NO_ENTRY_2, 2, ReadAnswer(Status.ENOENTRY, 5, 9), id="version 2: no such entry"),
        pytest.param(NO_LEDGER_2, 2, ReadAnswer(Status.ENOLEDGER, 99, 5), id="version 2: no such ledger"),
    ],
)
def test_answer_of_a_real_bookie_is_decoded(frame: bytes, version: int, answer: ReadAnswer) -> None:
    assert read(frame, version) == answer


@pytest.mark.parametrize(
    ("version", "frame"),
    [
        (3, f"0000000f {HEADER} a206040805 1001"),
        (2, f"00000014 02020000 {IDS}"),
    ],
)
def test_read_request_has_the_bytes_that_a_real_bookie_answered(version: int, frame: str) -> None:
    assert read_request(7, 5, 1, version=version) == bytes.fromhex(frame)


def test_request_has_no_field_for_a_flag_or_a_key() -> None:
    assert [field.name for field in pb.ReadRequest.DESCRIPTOR.fields] == ["ledgerId", "entryId"]
    assert [field.name for field in pb.EntryRequest.DESCRIPTOR.fields] == ["header", "readRequest"]
    assert [field.name for field in pb.RequestHeader.DESCRIPTOR.fields] == ["version", "operation", "txnId"]
    assert pb.OperationType.items() == [
        ("READ_ENTRY", 1),
        ("AUTH", 5),
        ("START_TLS", 9),
        ("GET_LIST_OF_ENTRIES_OF_LEDGER", 11),
    ]


@given(ids, entry_ids)
def test_version_2_request_has_zero_flags(ledger_id: int, entry_id: int) -> None:
    frame = read_request(1, ledger_id, entry_id, version=2)
    assert len(frame) == LENGTH.size + 20  # a master key would make it longer
    assert frame[4:8] == bytes([2, 2, 0, 0])
    assert frame[8:] == entry(ledger_id, entry_id, b"")


@given(txn_ids, ids, entry_ids)
def test_request_contains_only_its_number_and_the_entry(txn_id: int, ledger_id: int, entry_id: int) -> None:
    parsed = pb.EntryRequest.FromString(read_request(txn_id, ledger_id, entry_id)[LENGTH.size :])
    assert parsed == pb.EntryRequest(
        header=pb.RequestHeader(version=pb.VERSION_THREE, operation=pb.READ_ENTRY, txnId=txn_id),
        readRequest=pb.ReadRequest(ledgerId=ledger_id, entryId=entry_id),
    )


@pytest.mark.parametrize("version", [2, 3])
def test_request_for_a_negative_entry_is_refused(version: int) -> None:
    with pytest.raises(UsageError, match="entry ids start at 0"):
        read_request(1, 5, -1, version)


@given(txn_ids, ids, entry_ids, st.binary(max_size=300), st.sampled_from([2, 3]))
def test_answer_with_an_entry_is_decoded_without_its_payload(
    txn_id: int, ledger_id: int, entry_id: int, payload: bytes, version: int
) -> None:
    frame = read_frame(txn_id, 0, ledger_id, entry_id, entry(ledger_id, entry_id, payload), version)
    assert read(frame, version) == ReadAnswer(0, ledger_id, entry_id, txn_id if version == 3 else None)


@given(txn_ids, st.sampled_from([s for s in Status if s]), ids, entry_ids, st.sampled_from([2, 3]))
def test_every_refusal_status_is_decoded(
    txn_id: int, status: Status, ledger_id: int, entry_id: int, version: int
) -> None:
    frame = read_frame(txn_id, status, ledger_id, entry_id, None, version)
    assert read(frame, version) == ReadAnswer(status, ledger_id, entry_id, txn_id if version == 3 else None)


def test_unknown_status_is_decoded() -> None:
    assert read(read_frame(7, 999, 5, 1, None)).status == 999


def test_head_of_a_large_answer_is_enough_to_decode_it() -> None:
    least, most = -(2**63), 2**63 - 1
    frame = read_frame(2**64 - 1, 0, least, most, entry(least, most, bytes(5 << 20)))
    assert read(frame) == ReadAnswer(0, least, most, 2**64 - 1)


def test_a_secret_in_an_entry_is_in_no_answer_and_no_error() -> None:
    secret = b"SECRET" * 20
    served = read(read_frame(7, 0, 5, 1, entry(5, 1, secret)))
    assert "SECRET" not in repr(served)
    for body in (entry(5, 2, secret), secret):
        with pytest.raises(DecodeError) as error:
            read(read_frame(7, 0, 5, 1, body))
        assert "SECRET" not in repr(error.value)


@pytest.mark.parametrize(
    ("message", "version", "offset", "reason"),
    [
        pytest.param("", 3, 0, "0 of 0", id="nothing"),
        pytest.param(f"{HEADER} 1000", 3, 10, "without", id="agreed, and no part of its own"),
        pytest.param(f"{HEADER} 1000 a20606 0800 1005 1801", 3, 10, "without", id="agreed, and no entry"),
        pytest.param(
            f"{HEADER} 109303 a20607 089203 1005 1809",
            3,
            11,
            "403 in the response, but 402 in its body",
            id="two statuses",
        ),
        pytest.param(
            f"{HEADER} 109303 a20609 089303 1005 1809 2200", 3, 11, "with an", id="refused and sent"
        ),
        pytest.param("0a060803100b1807 109203 a20607 089203 1063 1805", 3, 0, "operation 11", id="a listing"),
        pytest.param(
            "0a06080210011807 109203 a20607 089203 1063 1805", 3, 0, "version 2", id="version 2 in 3"
        ),
        pytest.param(
            f"{HEADER} 1000 a20608 0800 1005 1801 2200", 3, 21, "16 bytes of ids", id="an empty entry"
        ),
        pytest.param(f"{HEADER} 1000 a20608 0800 1005 1801 2230", 3, 19, "cut|longer", id="too short a part"),
        pytest.param(
            f"{HEADER} 1000 a2064a 0800 1005 1801 2230", 3, 10, "cut|longer", id="longer than the frame"
        ),
        pytest.param(f"a20607 089303 1005 1809 {HEADER} 109303", 3, 0, "required", id="its part comes first"),
        pytest.param("0202000000000000", 2, 8, "8 bytes", id="version 2: cut"),
        pytest.param("0a06080310011807" * 3, 2, 0, "version 10", id="version 3 in 2"),
        pytest.param(f"02010000 00000002 {IDS}", 2, 1, "operation 1", id="version 2: an add's answer"),
        pytest.param(f"02020000 00000000 {IDS}", 2, 4, "without", id="version 2: no entry"),
        pytest.param(f"02020000 00000002 {IDS} {ENTRY}", 2, 4, "with an", id="version 2: refused and sent"),
        pytest.param(f"02020000 00000000 {IDS} 00", 2, 24, "1 bytes", id="version 2: an entry of a byte"),
    ],
)
def test_answer_damage_is_refused_with_its_offset(
    message: str, version: int, offset: int, reason: str
) -> None:
    with pytest.raises(DecodeError, match=reason) as damage:
        read_message(bytes.fromhex(message), version)
    assert damage.value.offset == offset


@pytest.mark.parametrize("version", [2, 3])
def test_entry_with_another_id_than_announced_is_refused(version: int) -> None:
    with pytest.raises(DecodeError, match="entry 2 of ledger 5, announced as entry 1 of ledger 5"):
        read(read_frame(7, 0, 5, 1, entry(5, 2, b"payload"), version), version)


def test_entry_after_an_unknown_field_is_refused() -> None:
    inner = pb.ReadResponse(status=0, ledgerId=5, entryId=1).SerializeToString()
    inner += b"\x3a\x80\x01" + bytes(128) + b"\x22\x30" + bytes.fromhex(ENTRY)  # a field that no server sends
    message = (
        bytes.fromhex(f"{HEADER} 1000 a206") + bytes([len(inner) & 0x7F | 0x80, len(inner) >> 7]) + inner
    )
    with pytest.raises(DecodeError):
        read_message(message, 3)


@pytest.mark.parametrize("length", [0, MAX_FRAME_BYTES + 1])
def test_frame_length_out_of_bounds_is_refused(length: int) -> None:
    with pytest.raises(DecodeError):
        read_answer(bytes(HEAD_BYTES), length)


GOLDEN = [
    (frame[4:], version) for frame, version in ((SERVED, 3), (NO_ENTRY, 3), (SERVED_2, 2), (NO_LEDGER_2, 2))
]


@given(st.data(), st.sampled_from(GOLDEN))
def test_damaged_answer_raises_only_typed_errors(data: st.DataObject, golden: tuple[bytes, int]) -> None:
    message, version = golden
    damaged = data.draw(st.one_of(st.binary(max_size=40), mutations(message)))
    assert points_within(refusal(lambda body: read_message(body, version), damaged), damaged)


@given(st.binary(min_size=HEAD_BYTES, max_size=HEAD_BYTES), st.integers(HEAD_BYTES, MAX_FRAME_BYTES))
def test_head_of_a_long_answer_is_decoded_or_refused(head: bytes, length: int) -> None:
    for version in (2, 3):
        error = refusal(partial(_beginning, length=length, version=version), head)
        assert not isinstance(error, DecodeError) or 0 <= error.offset <= length


def _beginning(head: bytes, length: int, version: int) -> ReadAnswer:
    return read_answer(head, length, version)
