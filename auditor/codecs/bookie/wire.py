"""The two requests that are sent to a bookie: a list of a ledger's entries, and a plain read of one entry.

The list request, protocol version 3:

    byte  0          4
          length     protobuf message of that many bytes
          uint32     big-endian; the length does not count itself

    request   {header 1: {version 1, operation 2, txnId 3},
               getListOfEntriesOfLedgerRequest 108: {ledgerId 1}}
    response  {header 1, status 2,
               getListOfEntriesOfLedgerResponse 108: {status 1, ledgerId 2, availability 3}}

GET_LIST_OF_ENTRIES_OF_LEDGER (since 4.10) reads the index. It neither fences a ledger nor writes. Answers
may arrive in any order, and ``txnId`` connects an answer with its request. The messages are those of
``BookkeeperProtocol.proto``, seen in 4.17.2.

The read request, protocol versions 3 and 2:

    version 3, protobuf, in the same frames
      request   {header 1: {version 1, operation 2, txnId 3}, readRequest 100: {ledgerId 1, entryId 2}}
      response  {header 1, status 2,
                 readResponse 100: {status 1, ledgerId 2, entryId 3, body 4, maxLAC 5}}

    version 2, big-endian, after the frame's length
      request   0: version u8 = 2, 1: operation u8 = 2, 2: flags u16 = 0, 4: ledger i64, 12: entry i64
      response  0: version u8, 1: operation u8, 2: 0, 4: status i32, 8: ledger i64, 16: entry i64, 24: body
                an answer has no txnId: its ledger and entry connect it with its request

    A ledger is in limbo if the bookie does not know which of the ledger's entries it should have. Version 3
    then answers EUNKNOWNLEDGERSTATE for every entry, but still sends the entry if the bookie has it.
    Version 2 sends the entry if the bookie has it, without this status.

    body        0: ledger i64, 8: entry i64, then the rest of the entry, which the client never examines

The server's read request can also fence a ledger if it carries a flag and a master key. This module can
send neither. Its version 3 message has no such field, and the flags of its version 2 message are always 0.
So no request of this module can stop a ledger's writer.

Only the first `HEAD_BYTES` of an answer are examined. They contain the status, the ids and the first 16
bytes of the body, which repeat the ids. The receiver discards the rest as it arrives.
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
"""Largest answer to accept, in bytes. It has room for 2.8 million runs of entries.

A server accepts frames of up to 5 MiB (``nettyMaxFrameSizeBytes``), but sends longer frames. It does not fold
runs into groups, so that each run of a striped ledger takes 24 bytes.
"""
VERSION, VERSION_2 = 3, 2
IMPOSSIBLE_LEDGER = -2
"""A ledger id that no bookie can have. Clients refuse to create ids below 0.

Every id from 0 to 2^63 - 1 may exist. -1 is avoided, because the server uses it for "no ledger". The storages
of 4.17.2 answer "no such ledger" for -2, and the request creates nothing.
"""
OPERATION = int(pb.GET_LIST_OF_ENTRIES_OF_LEDGER)

_FORMAT_NAME = "bookie's answer"
_LISTING_FIELD = 108  # the field of the operation's own part


class Status(IntEnum):
    """Status of a bookie's answer, with the server's names."""

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
    """A bookie's answer to the list request ``txn_id``.

    ``status`` is a number, which need not be a member of `Status`. ``ledger_id`` is None if the bookie
    refused the request without reading it. ``availability`` is the encoded list of entries
    (`auditor.codecs.availability.wire`). It is present if the status is EOK, and None otherwise.
    ``availability_offset`` is the offset of this value in the message, in bytes.
    """

    txn_id: int
    status: int
    ledger_id: int | None = None
    availability: bytes | None = None
    availability_offset: int = 0


def list_request(txn_id: int, ledger_id: int) -> bytes:
    """Return the frame that asks a bookie which entries of a ledger it has.

    The upper 64 bits of the ledger's id (its scope) must be 0. The frame includes its length field. Version 2
    has no such request.

    >>> list_request(7, 99).hex()
    '0000000d0a060803100b1807e206020863'
    """
    message = pb.ListRequest(
        header=pb.RequestHeader(
            version=pb.VERSION_THREE, operation=pb.GET_LIST_OF_ENTRIES_OF_LEDGER, txnId=txn_id
        ),
        getListOfEntriesOfLedgerRequest=pb.GetListOfEntriesOfLedgerRequest(ledgerId=ledger_id),
    ).SerializeToString()
    return LENGTH.pack(len(message)) + message


ILLEGAL_OP = "ILLEGAL_OP"
"""BP-35's name for the failure of a request of version 2 with a scope other than 0."""


def unaskable_scope_reason(scope_id: int) -> str | None:
    """Return why no request can be sent for a ledger of this scope, or None for scope 0.

    The scope is the upper 64 bits of a 128-bit ledger id. According to BP-35, version 2 of the protocol
    immediately fails requests for any other scope, with ILLEGAL_OP. Version 3 has no field number for the
    scope yet. A bookie would therefore treat the ledger as a ledger of scope 0.

    >>> unaskable_scope_reason(7)[:52]
    'ILLEGAL_OP: scope 7: protocol version 2 has no scope'
    """
    if not scope_id:
        return None
    return (
        f"{ILLEGAL_OP}: scope {scope_id}: protocol version {VERSION_2} has no scope, and BP-35 assigns no "
        f"field number to the scope in version {VERSION}"
    )


def frame_length(length_prefix: bytes) -> int:
    """Return the number of message bytes that follow the first four bytes of a frame.

    >>> frame_length(bytes.fromhex("0000009d"))
    157

    Raises `DecodeError` at byte 0 if the length is 0 or more than `MAX_FRAME_BYTES`.
    """
    if len(length_prefix) != LENGTH.size:
        raise DecodeError(
            _FORMAT_NAME,
            len(length_prefix),
            f"only {len(length_prefix)} of the {LENGTH.size} bytes of its length prefix",
        )
    (length,) = LENGTH.unpack(length_prefix)
    if not 0 < length <= MAX_FRAME_BYTES:
        raise DecodeError(_FORMAT_NAME, 0, f"a frame of {length} bytes; 1 to {MAX_FRAME_BYTES} expected")
    return int(length)


def list_answer(message: bytes) -> BookieAnswer:
    """Read the answer to a list request.

    ``message`` is a frame without its length field. Offsets in errors count from the start of ``message``.

    >>> list_answer(bytes.fromhex("0a060803100b1807 109203 e20605 089203 1063"))
    BookieAnswer(txn_id=7, status=402, ledger_id=99, availability=None, availability_offset=0)

    Raises `DecodeError` if the message is not an answer to a list request, or if its parts contradict each
    other. Also raises it for a list of entries with a status other than EOK, and for EOK without a list.
    """
    response = proto_wire.parse(pb.ListResponse, message, _FORMAT_NAME, max_bytes=MAX_FRAME_BYTES)
    header = _require_header(response.header, OPERATION)
    if not response.HasField("getListOfEntriesOfLedgerResponse"):
        if response.status == Status.EOK:
            raise DecodeError(_FORMAT_NAME, len(message), "status 0 (EOK) without a listing")
        return BookieAnswer(header.txnId, response.status)
    body = response.getListOfEntriesOfLedgerResponse
    offset = proto_wire.value_start(message, _LISTING_FIELD)
    if body.status != response.status:
        raise DecodeError(
            _FORMAT_NAME, offset, f"status {response.status} in the response, but {body.status} in its body"
        )
    has_listing = body.HasField("availabilityOfEntriesOfLedger")
    if has_listing != (response.status == Status.EOK):
        presence_word = "with" if has_listing else "without"
        raise DecodeError(_FORMAT_NAME, offset, f"status {response.status} {presence_word} a listing")
    if not has_listing:
        return BookieAnswer(header.txnId, response.status, body.ledgerId)
    value = body.availabilityOfEntriesOfLedger
    return BookieAnswer(
        header.txnId,
        response.status,
        body.ledgerId,
        value,
        proto_wire.value_start(message, _LISTING_FIELD, 3),
    )


def _require_header(header: pb.ResponseHeader, operation: int) -> pb.ResponseHeader:
    if header.version != VERSION:
        raise DecodeError(_FORMAT_NAME, 0, f"version {header.version}, not {VERSION}")
    if header.operation != operation:
        raise DecodeError(
            _FORMAT_NAME, 0, f"operation {header.operation}, not {operation}: not an answer to this request"
        )
    return header


def status_text(status: int) -> str:
    """Return the number of a status, with BookKeeper's name for it if there is one.

    >>> status_text(502), status_text(999)
    ('EUA (502)', 'status 999')
    """
    return f"{Status(status).name} ({status})" if status in list(Status) else f"status {status}"


HEAD_BYTES = 128
"""Largest number of bytes of an answer up to the 16th byte of the entry.

Header 26, status 11, three numbers 33, tags and lengths 24, ids 16.
"""

_READ_OPERATION = int(pb.READ_ENTRY)
_READ_FIELD, _ENTRY_FIELD = 100, 4  # the fields of the operation's own part, and of the entry in it
_ENTRY_IDS = struct.Struct(">qq")
_REQUEST_STRUCT_2 = struct.Struct(">BBxxqq")
_RESPONSE_STRUCT_2 = struct.Struct(">BBxxiqq")
_READ_OPERATION_2 = 2
# Codes of ``BookieProtocol``; version 3 has other numbers for the same answers.
_STATUS_BY_CODE_2 = {
    0: Status.EOK,
    1: Status.ENOLEDGER,
    2: Status.ENOENTRY,
    100: Status.EBADREQ,
    101: Status.EIO,
    102: Status.EUA,
    103: Status.EBADVERSION,
    104: Status.EFENCED,
    105: Status.EREADONLY,
    106: Status.ETOOMANYREQUESTS,
    107: Status.EUNKNOWNLEDGERSTATE,
}


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """A bookie's answer to a read of one entry, without the entry itself.

    ``status`` is a status number of version 3, which need not be a member of `Status`. EOK means that the
    bookie has the entry and sent it. ``txn_id`` is None in version 2. The ids are None if the bookie
    refused the request without reading it.
    """

    status: int
    ledger_id: int | None
    entry_id: int | None
    txn_id: int | None = None


def read_request(txn_id: int, ledger_id: int, entry_id: int, version: int = VERSION) -> bytes:
    """Return the frame that asks for one entry of a ledger whose id has no upper 64 bits (scope 0).

    The frame includes its length field. ``txn_id`` is not used in version 2.

    >>> read_request(7, 99, 5).hex()
    '0000000f0a06080310011807a2060408631005'
    >>> read_request(7, 99, 5, version=2).hex()
    '000000140202000000000000000000630000000000000005'

    Raises `UsageError` for an entry below 0, which would request the last add confirmed instead.
    """
    if entry_id < 0:
        raise UsageError(f"entry {entry_id}: entry ids start at 0")
    if version == VERSION_2:
        message = _REQUEST_STRUCT_2.pack(VERSION_2, _READ_OPERATION_2, ledger_id, entry_id)
    else:
        message = pb.EntryRequest(
            header=pb.RequestHeader(version=pb.VERSION_THREE, operation=pb.READ_ENTRY, txnId=txn_id),
            readRequest=pb.ReadRequest(ledgerId=ledger_id, entryId=entry_id),
        ).SerializeToString()
    return LENGTH.pack(len(message)) + message


def read_answer(head: bytes, length: int, version: int = VERSION) -> ReadAnswer:
    """Read the beginning of the answer to a read of one entry.

    ``head`` is the message without the frame's length field, or its first `HEAD_BYTES`. ``length`` is the
    length of the whole message. Offsets in errors count from the start of ``head``.

    >>> read_answer(bytes.fromhex("0a06080310011807 109303 a20607 089303 1063 1805"), 21)
    ReadAnswer(status=403, ledger_id=99, entry_id=5, txn_id=7)

    Raises `DecodeError` if the message is not an answer to a read, or if its parts contradict each other.
    Also raises it if the ids in the entry differ from those of the answer, and for EOK without an entry. An
    entry is allowed only with EOK or, in version 3, EUNKNOWNLEDGERSTATE.
    """
    if not 0 < length <= MAX_FRAME_BYTES or len(head) < min(length, HEAD_BYTES):
        raise DecodeError(_FORMAT_NAME, len(head), f"{len(head)} of {length} bytes")
    return _read_answer_v2(head, length) if version == VERSION_2 else _read_answer_v3(head, length)


def _read_answer_v3(head: bytes, length: int) -> ReadAnswer:
    # HEAD_BYTES may cut the entry off, and protobuf refuses what is cut: only what is before it is parsed.
    read_field = proto_wire.find_bytes_field(head, _READ_FIELD, _FORMAT_NAME, 0, length)
    envelope_end = length if read_field is None else read_field[0]
    response = proto_wire.parse(pb.EntryResponse, head, _FORMAT_NAME, 0, envelope_end)
    header = _require_header(response.header, _READ_OPERATION)
    if read_field is None:
        if response.status == Status.EOK:
            raise DecodeError(_FORMAT_NAME, length, "status 0 (EOK) without an entry")
        return ReadAnswer(response.status, None, None, header.txnId)
    field_tag, start, end = read_field
    entry_field = proto_wire.find_bytes_field(head, _ENTRY_FIELD, _FORMAT_NAME, start, end)
    inner_response = proto_wire.parse(
        pb.ReadResponse, head, _FORMAT_NAME, start, end if entry_field is None else entry_field[0]
    )
    if inner_response.status != response.status:
        raise DecodeError(
            _FORMAT_NAME,
            field_tag,
            f"status {response.status} in the response, but {inner_response.status} in its body",
        )
    is_extra_entry = entry_field is not None and response.status == Status.EUNKNOWNLEDGERSTATE
    if not is_extra_entry and (entry_field is not None) != (response.status == Status.EOK):
        presence_word = "without" if entry_field is None else "with"
        raise DecodeError(_FORMAT_NAME, field_tag, f"status {response.status} {presence_word} an entry")
    if entry_field is not None:
        _require_same_ids(
            head, entry_field[1], entry_field[2], inner_response.ledgerId, inner_response.entryId
        )
    return ReadAnswer(inner_response.status, inner_response.ledgerId, inner_response.entryId, header.txnId)


def _read_answer_v2(head: bytes, length: int) -> ReadAnswer:
    if length < _RESPONSE_STRUCT_2.size:
        raise DecodeError(_FORMAT_NAME, length, f"{length} bytes, fewer than {_RESPONSE_STRUCT_2.size}")
    version, operation, code, ledger_id, entry_id = _RESPONSE_STRUCT_2.unpack_from(head)
    if version > VERSION_2:
        raise DecodeError(_FORMAT_NAME, 0, f"version {version}, not {VERSION_2}")
    if operation != _READ_OPERATION_2:
        raise DecodeError(
            _FORMAT_NAME, 1, f"operation {operation}, not {_READ_OPERATION_2}: not an answer to this request"
        )
    status = int(_STATUS_BY_CODE_2.get(code, code))
    if (length > _RESPONSE_STRUCT_2.size) != (status == Status.EOK):
        presence_word = "with" if length > _RESPONSE_STRUCT_2.size else "without"
        raise DecodeError(_FORMAT_NAME, 4, f"status {code} {presence_word} an entry")
    if status == Status.EOK:
        _require_same_ids(head, _RESPONSE_STRUCT_2.size, length, ledger_id, entry_id)
    return ReadAnswer(status, ledger_id, entry_id)


def _require_same_ids(head: bytes, start: int, end: int, ledger_id: int, entry_id: int) -> None:
    """Raise `DecodeError` if the ids at the start of the entry differ from the ids of the answer."""
    if end - start < _ENTRY_IDS.size:
        raise DecodeError(
            _FORMAT_NAME,
            start,
            f"an entry of {end - start} bytes, shorter than its {_ENTRY_IDS.size} bytes of ids",
        )
    if start + _ENTRY_IDS.size > len(head):
        raise DecodeError(_FORMAT_NAME, start, f"the entry begins after the first {HEAD_BYTES} bytes")
    ids = _ENTRY_IDS.unpack_from(head, start)
    if ids != (ledger_id, entry_id):
        raise DecodeError(
            _FORMAT_NAME,
            start,
            f"entry {ids[1]} of ledger {ids[0]}, announced as entry {entry_id} of ledger {ledger_id}",
        )
