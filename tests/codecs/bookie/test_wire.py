"""Frames as a 4.18.0 bookie sent them, generated frames, and damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability import wire as availability
from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.wire import encode_unfolded
from auditor.codecs.bookie.wire import (
    LENGTH,
    MAX_FRAME_BYTES,
    BookieAnswer,
    Status,
    frame_length,
    list_answer,
    list_request,
    status_text,
    unaskable_scope_reason,
)
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from auditor.errors import DecodeError
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import mutations

HEADER = "0a060803100b1807"
RUNS = [(1, 1, 2, 0), (4, 4, 2, 0), (7, 7, 2, 0)]
LISTED = bytes.fromhex(
    f"0000009d {HEADER} 1000 e2068f01 0800 1000 1a8801 00000000 00000003 {'00' * 56}"
    + "".join(f"{first:016x} {last:016x} {size:08x} {period:08x}" for first, last, size, period in RUNS)
)
LACKED = bytes.fromhex(f"00000013 {HEADER} 109203 e20605 089203 1063")
OTHER_VERSION = bytes.fromhex(f"00000013 {HEADER} 10f703 e20605 08f703 1000")
NOT_AUTHORISED = bytes.fromhex(f"0000000b {HEADER} 10f603")

ledger_ids = st.integers(-(2**63), 2**63 - 1)
txn_ids = st.integers(0, 2**64 - 1)


def message_of(frame: bytes) -> bytes:
    assert frame_length(frame[:4]) == len(frame) - 4
    return frame[4:]


def list_response(txn_id: int, status: int, ledger_id: int, value: bytes | None) -> bytes:
    """Return a response as a server encodes it."""
    body = pb.GetListOfEntriesOfLedgerResponse(status=status, ledgerId=ledger_id)
    if value is not None:
        body.availabilityOfEntriesOfLedger = value
    header = pb.ResponseHeader(version=3, operation=11, txnId=txn_id)
    response = pb.ListResponse(header=header, status=status, getListOfEntriesOfLedgerResponse=body)
    return response.SerializeToString()


@pytest.mark.parametrize(
    ("ledger_id", "frame"),
    [(0, f"0000000d {HEADER} e206020800"), (99, f"0000000d {HEADER} e206020863")],
)
def test_list_request_has_the_bytes_that_a_real_bookie_answered(ledger_id: int, frame: str) -> None:
    assert list_request(7, ledger_id) == bytes.fromhex(frame)


def test_listing_of_a_server_is_decoded() -> None:
    answer = list_answer(message_of(LISTED))
    assert (answer.txn_id, answer.status, answer.ledger_id) == (7, Status.EOK, 0)
    assert answer.availability == LISTED[4 + answer.availability_offset :]
    assert availability.decode(answer.availability).tolist() == RUNS


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        pytest.param(LACKED, BookieAnswer(7, Status.ENOLEDGER, 99), id="no such ledger"),
        pytest.param(
            OTHER_VERSION, BookieAnswer(7, Status.EBADVERSION, 0), id="a version that it does not speak"
        ),
        pytest.param(
            NOT_AUTHORISED, BookieAnswer(7, Status.EUA), id="not authorised, without a word on the ledger"
        ),
    ],
)
def test_refusal_of_a_server_is_decoded(frame: bytes, answer: BookieAnswer) -> None:
    assert list_answer(message_of(frame)) == answer


def test_protocol_has_only_the_allowed_requests() -> None:
    # 1 reads an entry (tests/codecs/bookie/test_read.py), 5 and 9 are a handshake (test_handshake.py).
    assert list(pb.OperationType.values()) == [1, 5, 9, 11]
    assert [field.name for field in pb.ListRequest.DESCRIPTOR.fields] == [
        "header",
        "getListOfEntriesOfLedgerRequest",
    ]


def test_ledger_of_another_scope_cannot_be_requested() -> None:
    """The requests have no field for a scope; a caller that names one gets the reason."""
    assert unaskable_scope_reason(0) is None
    assert str(unaskable_scope_reason(1)).startswith("ILLEGAL_OP: scope 1: ")


@given(txn_ids, ledger_ids)
def test_list_request_contains_its_number_and_the_ledger(txn_id: int, ledger_id: int) -> None:
    parsed = pb.ListRequest.FromString(message_of(list_request(txn_id, ledger_id)))
    assert parsed.header.txnId == txn_id
    assert parsed.getListOfEntriesOfLedgerRequest.ledgerId == ledger_id


@given(txn_ids, ledger_ids, st.sets(st.integers(0, 500)))
def test_listing_with_entries_is_decoded_unchanged(txn_id: int, ledger_id: int, entries: set[int]) -> None:
    runs = np.array([(entry, entry, 1, 0) for entry in sorted(entries)], GROUP)
    value = encode_unfolded(runs)
    answer = list_answer(list_response(txn_id, 0, ledger_id, value))
    assert answer == BookieAnswer(txn_id, 0, ledger_id, value, answer.availability_offset)
    assert availability.expand(availability.decode(value)).tolist() == sorted(entries)


@given(txn_ids, st.integers(1, 2**31 - 1), ledger_ids)
def test_every_refusal_status_is_decoded_and_shown(txn_id: int, status: int, ledger_id: int) -> None:
    assert list_answer(list_response(txn_id, status, ledger_id, None)) == BookieAnswer(
        txn_id, status, ledger_id
    )
    assert str(status) in status_text(status)


@pytest.mark.parametrize(
    ("length", "refused"), [(0, True), (1, False), (MAX_FRAME_BYTES, False), (MAX_FRAME_BYTES + 1, True)]
)
def test_announced_length_out_of_bounds_is_refused(length: int, refused: bool) -> None:
    error = refusal(frame_length, LENGTH.pack(length))
    assert isinstance(error, DecodeError) == refused
    assert error is None or error.args[1] == 0


@pytest.mark.parametrize(
    ("damaged", "offset", "reason"),
    [
        pytest.param(b"", 0, "missing", id="nothing"),
        pytest.param(LISTED[4:100], 10, "cut", id="a listing cut short"),
        pytest.param(LACKED[4:] + b"\x07", 19, "cut off or invalid", id="a field that is none"),
        pytest.param(bytes.fromhex("0a04 0803100b 1000"), 8, "txnId", id="a header without a txnId"),
        pytest.param(bytes.fromhex("0a060802100b1807 1000"), 0, "version 2", id="another version"),
        pytest.param(
            bytes.fromhex("0a06080310011807 109303 a20607 089303 1000 1800"),
            0,
            "operation 1",
            id="a read's answer",
        ),
        pytest.param(
            bytes.fromhex(f"{HEADER} 109203 e20605 08f503 1063"),
            14,
            "status 402 in the response, but 501",
            id="two statuses",
        ),
        pytest.param(bytes.fromhex(f"{HEADER} 1000"), 10, "without", id="agreed, and no part of its own"),
        pytest.param(bytes.fromhex(f"{HEADER} 1000 e20604 08001063"), 13, "without", id="agreed, no listing"),
        pytest.param(list_response(7, 402, 99, bytes(64)), 14, "with a", id="a listing of what it lacks"),
    ],
)
def test_listing_damage_is_refused_with_its_offset(damaged: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as damage:
        list_answer(damaged)
    assert damage.value.offset == offset


@given(st.one_of(st.binary(max_size=40), mutations(LISTED[4:]), mutations(LACKED[4:])))
def test_damaged_listing_raises_only_typed_errors(damaged: bytes) -> None:
    assert points_within(refusal(list_answer, damaged), damaged)


@given(st.binary(max_size=6))
def test_length_prefix_is_decoded_or_refused(prefix: bytes) -> None:
    assert points_within(refusal(frame_length, prefix), prefix)
