"""What is said to a bookie and heard from it: the listing of a ledger's entries, protocol version 3.

    byte  0          4
          length     protobuf message of that many bytes
          uint32     big-endian; the length does not count itself

    request   {header 1: {version 1, operation 2, txnId 3},
               getListOfEntriesOfLedgerRequest 108: {ledgerId 1}}
    response  {header 1, status 2,
               getListOfEntriesOfLedgerResponse 108: {status 1, ledgerId 2, availability 3}}

Only one request can be written here: GET_LIST_OF_ENTRIES_OF_LEDGER (since 4.10), which consults the index; a
plain read is in `auditor.codecs.bookie.read`.
Nothing here fences a ledger or writes. Answers may come in any order; ``txnId`` says which
request one is for. The messages are those of ``BookkeeperProtocol.proto``, seen in 4.17.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from auditor.errors import DecodeError, UsageError

LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 64 << 20
"""The longest answer that is taken: 2.8 million runs of entries.

A server takes frames of up to 5 MiB (``nettyMaxFrameSizeBytes``) and sends longer ones: it does not fold, so
that each run of a striped ledger costs 24 bytes.
"""
VERSION = 3
OPERATION = int(pb.GET_LIST_OF_ENTRIES_OF_LEDGER)

_WHAT = "bookie's answer"
_BODY = 108  # the field of the operation's own part


class Status(IntEnum):
    """What a bookie says of a request; the names are the server's."""

    EOK = 0
    ENOLEDGER = 402
    ENOENTRY = 403
    EBADREQ = 404
    EIO = 501
    EUA = 502
    EBADVERSION = 503
    EFENCED = 504
    EREADONLY = 505
    ETOOMANYREQUESTS = 506
    EUNKNOWNLEDGERSTATE = 507


@dataclass(frozen=True, slots=True)
class BookieAnswer:
    """What a bookie answered to the request ``txn_id``.

    ``status`` is a number that `Status` may not know. ``ledger_id`` is None where the request was refused
    before it was looked at; ``availability`` is the encoded value (`auditor.codecs.availability.wire`), there
    if and only if the status is EOK. ``at`` is the byte of the message at which that value begins.
    """

    txn_id: int
    status: int
    ledger_id: int | None = None
    availability: bytes | None = None
    at: int = 0


def list_request(txn_id: int, ledger_id: int, scope_id: int = 0, version: int = VERSION) -> bytes:
    """Write the frame that asks which entries of a ledger a bookie holds, its length included.

    >>> list_request(7, 99).hex()
    '0000000d0a060803100b1807e206020863'

    Raises `UsageError` for what no bookie can be asked: see `unaskable`.
    """
    reason = unaskable(scope_id, version)
    if reason is not None:
        raise UsageError(reason)
    message = pb.ListRequest(
        header=pb.RequestHeader(
            version=pb.VERSION_THREE, operation=pb.GET_LIST_OF_ENTRIES_OF_LEDGER, txnId=txn_id
        ),
        getListOfEntriesOfLedgerRequest=pb.GetListOfEntriesOfLedgerRequest(ledgerId=ledger_id),
    ).SerializeToString()
    return LENGTH.pack(len(message)) + message


def unaskable(scope_id: int, version: int = VERSION) -> str | None:
    """Why a ledger of this scope cannot be asked for over this version of the protocol; None if it can.

    Version 2 has no list request and, by BP-35, fails every scope but 0. Version 3 has no number for the
    field of the scope yet, so that a bookie would take the ledger for that of scope 0.

    >>> unaskable(7)
    'scope 7: protocol version 3 names ledgers of scope 0 only; BP-35 gives its field no number'
    """
    if version != VERSION:
        scopes = f"; BP-35 has scope {scope_id} fail there" if scope_id else ""
        return f"protocol version {version} cannot ask which entries a bookie holds{scopes}"
    if scope_id:
        return (
            f"scope {scope_id}: protocol version {VERSION} names ledgers of scope 0 only; "
            "BP-35 gives its field no number"
        )
    return None


def frame_length(prefix: bytes) -> int:
    """How many bytes of message follow the first four of a frame.

    >>> frame_length(bytes.fromhex("0000009d"))
    157

    Raises `DecodeError` at byte 0 for an announcement of nothing, or of more than `MAX_FRAME_BYTES`.
    """
    if len(prefix) != LENGTH.size:
        raise DecodeError(_WHAT, len(prefix), f"{len(prefix)} of {LENGTH.size} bytes of length")
    (length,) = LENGTH.unpack(prefix)
    if not 0 < length <= MAX_FRAME_BYTES:
        raise DecodeError(_WHAT, 0, f"a frame of {length} bytes, not 1 to {MAX_FRAME_BYTES}")
    return int(length)


def answer(message: bytes) -> BookieAnswer:
    """Read an answer: a frame without its length, from which offsets count.

    >>> answer(bytes.fromhex("0a060803100b1807 109203 e20605 089203 1063"))
    BookieAnswer(txn_id=7, status=402, ledger_id=99, availability=None, at=0)

    Raises `DecodeError` for what is no answer to a list request, where its parts disagree, and for a listing
    that is not there or should not be.
    """
    response = proto_wire.parse(pb.ListResponse, message, _WHAT, most=MAX_FRAME_BYTES)
    header = response.header
    if header.version != VERSION:
        raise DecodeError(_WHAT, 0, f"version {header.version}, not {VERSION}")
    if header.operation != OPERATION:
        raise DecodeError(
            _WHAT, 0, f"operation {header.operation}, not {OPERATION}: an answer to no question"
        )
    if not response.HasField("getListOfEntriesOfLedgerResponse"):
        if response.status == Status.EOK:
            raise DecodeError(_WHAT, len(message), "status 0 (EOK) without a listing")
        return BookieAnswer(header.txnId, response.status)
    body = response.getListOfEntriesOfLedgerResponse
    at = proto_wire.begins(message, _BODY)
    if body.status != response.status:
        raise DecodeError(_WHAT, at, f"status {response.status} outside and {body.status} inside")
    listed = body.HasField("availabilityOfEntriesOfLedger")
    if listed != (response.status == Status.EOK):
        found = "with" if listed else "without"
        raise DecodeError(_WHAT, at, f"status {response.status} {found} a listing")
    if not listed:
        return BookieAnswer(header.txnId, response.status, body.ledgerId)
    value = body.availabilityOfEntriesOfLedger
    return BookieAnswer(
        header.txnId, response.status, body.ledgerId, value, proto_wire.begins(message, _BODY, 3)
    )


def status_text(status: int) -> str:
    """A status in words, for a reader who will look it up.

    >>> status_text(502), status_text(999)
    ('EUA (502)', 'status 999')
    """
    return f"{Status(status).name} ({status})" if status in list(Status) else f"status {status}"
