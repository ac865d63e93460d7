"""START_TLS and AUTH: bytes that real bookies received and sent, property tests, and damage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.handshake import (
    AUTH,
    MAX_HANDSHAKE_BYTES,
    NO_PLUGIN,
    SASL_PLUGIN,
    START_TLS,
    HandshakeAnswer,
    auth_request,
    handshake_answer,
    is_late_start_tls,
    start_tls_request,
)
from auditor.codecs.bookie.wire import LENGTH, read_request
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from auditor.errors import DecodeError

numbers = st.integers(0, 2**64 - 1)
payloads = st.binary(max_size=300)


def answer(
    operation: int, number: int, status: int, plugin: str | None = None, payload: bytes = b""
) -> bytes:
    header = pb.ResponseHeader(version=3, operation=operation, txnId=number)
    message = pb.HandshakeResponse(header=header, status=status)
    if plugin is not None:
        message.authResponse.CopyFrom(pb.AuthMessage(authPluginName=plugin, payload=payload))
    return message.SerializeToString()


@given(numbers)
def test_start_tls_request_has_the_empty_field_that_the_server_requires(number: int) -> None:
    frame = start_tls_request(number)
    assert LENGTH.unpack(frame[:4])[0] == len(frame) - 4
    message = pb.StartTlsRequest.FromString(frame[4:])
    assert (message.header.operation, message.header.txnId) == (START_TLS, number)
    assert message.HasField("startTLSRequest")


@given(numbers, payloads)
def test_auth_request_carries_the_whole_token_in_both_versions(number: int, payload: bytes) -> None:
    for version, skipped in ((3, 4), (2, 8)):
        frame = auth_request(number, payload, version)
        assert LENGTH.unpack(frame[:4])[0] == len(frame) - 4
        if version == 3:
            message = pb.AuthRequest.FromString(frame[4:])
            assert (message.header.operation, message.header.txnId) == (AUTH, number)
            auth = message.authRequest
        else:
            assert frame[4:8] == b"\x02\x03\x00\x00"
            auth = pb.AuthMessage.FromString(frame[skipped:])
        # Required: an empty token is there all the same.
        assert (auth.authPluginName, auth.HasField("payload"), auth.payload) == (SASL_PLUGIN, True, payload)


@given(st.sampled_from([AUTH, START_TLS, 1]), numbers, st.integers(0, 600), payloads)
def test_handshake_answers_are_decoded_with_operation_number_and_status(
    operation: int, number: int, status: int, payload: bytes
) -> None:
    assert handshake_answer(answer(operation, number, status)) == HandshakeAnswer(operation, status, number)
    result = handshake_answer(answer(operation, number, status, NO_PLUGIN, payload))
    assert result == HandshakeAnswer(operation, status, number, NO_PLUGIN, payload)


@given(payloads)
def test_version_2_answer_has_no_status_and_no_number(payload: bytes) -> None:
    message = pb.AuthMessage(authPluginName="sasl", payload=payload).SerializeToString()
    result = handshake_answer(b"\x02\x03\x00\x00" + message)
    assert result == HandshakeAnswer(AUTH, 0, None, "sasl", payload)


def test_late_start_tls_answer_is_recognised() -> None:
    assert is_late_start_tls(answer(START_TLS, 0, 501))
    for message in (answer(AUTH, 1, 0, "sasl"), answer(1, 1, 502), b"", b"\x0a", b"\x02\x02" + bytes(22)):
        assert not is_late_start_tls(message)
    assert not is_late_start_tls(read_request(1, 2, 3)[4:])


@given(st.binary(max_size=60))
def test_any_bytes_raise_only_decode_errors(message: bytes) -> None:
    with contextlib.suppress(DecodeError):
        handshake_answer(message)
    is_late_start_tls(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x02\x03",
        b"\x02\x02\x00\x00",
        b"\x02\x03\x00\x00\x0a",
        answer(AUTH, 1, 0)[:-1],
        b"\x0a" + bytes(MAX_HANDSHAKE_BYTES),
    ],
)
def test_truncated_or_too_long_answers_are_refused(message: bytes) -> None:
    with pytest.raises(DecodeError):
        handshake_answer(message)
