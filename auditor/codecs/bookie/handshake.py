"""The messages between client and bookie before the first request: the switch to TLS, and the login.

    START_TLS  protocol 3 only, unencrypted
      request   {header 1, startTLSRequest 106: {}}
      answer    {header 1, status 2}             then the client's TLS handshake; frames inside TLS look alike

A bookie may refuse a client after the TLS handshake. Either a login must follow, or the role in the client's
certificate is not authorised. Such a bookie answers the same START_TLS a second time. The second answer is
inside TLS and has the status EIO (`AuthHandler` and `BookieRequestProcessor.onStartTLSComplete` of the
server). So the client needs both the operation and the transaction number to find the request that an answer
belongs to.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from auditor.codecs.bookie.wire import LENGTH, VERSION, VERSION_2, Status
from auditor.codecs.protobuf import wire as proto_wire
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from auditor.errors import DecodeError

START_TLS = int(pb.START_TLS)
AUTH = int(pb.AUTH)
SASL_PLUGIN = "sasl"
"""Plugin name of `SASLBookieAuthProviderFactory`."""
NO_PLUGIN = "AuthDisabledPlugin"
"""Plugin name in the answer to AUTH if a bookie needs no login, or no further login step."""
MAX_HANDSHAKE_BYTES = 1 << 20
"""Largest handshake message in bytes. A Kerberos token with a large authorisation part has about 64 KiB."""

_FORMAT_NAME = "bookie's handshake"
_AUTH_HEADER_V2 = struct.Struct(">BBH")
_AUTH_OPERATION_V2 = 3  # BookieProtocol.AUTH
_HEADER_TAG = b"\x0a"  # field 1, the header: a message of version 2 begins with a 0, 1 or 2


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """A bookie's answer to a message of the handshake.

    ``payload`` and ``plugin`` are None if the answer contains no message of a login plugin. ``txn_id`` is
    None in version 2.
    """

    operation: int
    status: int
    txn_id: int | None = None
    plugin: str | None = None
    payload: bytes | None = None


def start_tls_request(txn_id: int) -> bytes:
    """Return the frame that asks for TLS, including the frame's length field.

    >>> start_tls_request(7).hex()
    '0000000b0a06080310091807d20600'
    """
    header = pb.RequestHeader(version=pb.VERSION_THREE, operation=pb.START_TLS, txnId=txn_id)
    return _add_length(pb.StartTlsRequest(header=header, startTLSRequest=pb.StartTls()).SerializeToString())


def auth_request(txn_id: int, payload: bytes, version: int = VERSION) -> bytes:
    """Return the frame that carries a SASL token, including the frame's length field.

    ``txn_id`` is not used in version 2.

    >>> auth_request(7, b"").hex()
    '000000130a06080310051807b206080a047361736c1200'
    >>> auth_request(7, b"", version=2).hex()
    '0000000c020300000a047361736c1200'
    """
    message = pb.AuthMessage(authPluginName=SASL_PLUGIN, payload=payload)
    if version == VERSION_2:
        return _add_length(
            _AUTH_HEADER_V2.pack(VERSION_2, _AUTH_OPERATION_V2, 0) + message.SerializeToString()
        )
    header = pb.RequestHeader(version=pb.VERSION_THREE, operation=pb.AUTH, txnId=txn_id)
    return _add_length(pb.AuthRequest(header=header, authRequest=message).SerializeToString())


def handshake_answer(message: bytes) -> HandshakeAnswer:
    """Read an answer in either version.

    ``message`` is a frame without its length field.

    >>> handshake_answer(bytes.fromhex("0a0608031005180710f603"))
    HandshakeAnswer(operation=5, status=502, txn_id=7, plugin=None, payload=None)
    >>> handshake_answer(bytes.fromhex("020300000a047361736c120161"))
    HandshakeAnswer(operation=5, status=0, txn_id=None, plugin='sasl', payload=b'a')

    Raises `DecodeError` if the message is not an answer. The function also reads answers to requests that
    are not part of the handshake. ``operation`` shows which kind of request was answered.
    """
    if len(message) > MAX_HANDSHAKE_BYTES:
        raise DecodeError(_FORMAT_NAME, 0, f"{len(message)} bytes, more than {MAX_HANDSHAKE_BYTES}")
    if message[:1] != _HEADER_TAG:
        return _read_answer_v2(message)
    response = proto_wire.parse(pb.HandshakeResponse, message, _FORMAT_NAME, max_bytes=MAX_HANDSHAKE_BYTES)
    header = response.header
    if header.version != VERSION:
        raise DecodeError(_FORMAT_NAME, 0, f"version {header.version}, not {VERSION}")
    if not response.HasField("authResponse"):
        return HandshakeAnswer(header.operation, response.status, header.txnId)
    auth_message = response.authResponse
    return HandshakeAnswer(
        header.operation, response.status, header.txnId, auth_message.authPluginName, auth_message.payload
    )


def is_late_start_tls(head: bytes) -> bool:
    """Return whether a frame that begins with ``head`` is the second answer to a START_TLS.

    A bookie sends it inside TLS if the TLS handshake alone is not enough.

    >>> is_late_start_tls(bytes.fromhex("0a0608031009180010f503")), is_late_start_tls(bytes(28))
    (True, False)
    """
    if head[:1] != _HEADER_TAG:
        return False
    try:
        return handshake_answer(head).operation == START_TLS
    except DecodeError:
        return False  # a cut answer to a request, or damage, which its own reader names


def _read_answer_v2(message: bytes) -> HandshakeAnswer:
    if len(message) < _AUTH_HEADER_V2.size:
        raise DecodeError(
            _FORMAT_NAME, len(message), f"{len(message)} bytes, fewer than {_AUTH_HEADER_V2.size}"
        )
    version, operation, _ = _AUTH_HEADER_V2.unpack_from(message)
    if (version, operation) != (VERSION_2, _AUTH_OPERATION_V2):
        raise DecodeError(
            _FORMAT_NAME, 0, f"version {version}, operation {operation}: not an answer to this request"
        )
    auth_message = proto_wire.parse(
        pb.AuthMessage, message, _FORMAT_NAME, _AUTH_HEADER_V2.size, max_bytes=MAX_HANDSHAKE_BYTES
    )
    # Version 2 has no status here: a bookie that refuses ends the connection.
    return HandshakeAnswer(AUTH, int(Status.EOK), None, auth_message.authPluginName, auth_message.payload)


def _add_length(message: bytes) -> bytes:
    return LENGTH.pack(len(message)) + message
