"""Explanations of Oxia's errors, with advice.

Servers up to release 0.14 have status codes of their own. gRPC shows all of these as UNKNOWN, so only the
texts of the errors distinguish them. Later releases use gRPC's status codes. This module recognises both.
"""

from __future__ import annotations

import grpc
from google.protobuf.message import DecodeError

from auditor.codecs.protobuf.pb import oxia_pb2 as pb
from auditor.errors import StoreError
from auditor.sources.metadata.credentials import Tls
from auditor.sources.metadata.tls_probe import tls_problem

_TEMPORARY_CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,  # "node is not leader", from 0.15 on
    grpc.StatusCode.INTERNAL,
)
_TEMPORARY_MESSAGES = (
    "not leader",
    "shard not found",  # it was split
    "not initialized yet",
    "already closed",  # a leader that is being replaced
    "invalid status",  # one that is being elected
    "operation was cancelled",
)
_NO_NAMESPACE_MESSAGE = "namespace not found"
_NOT_OXIA_MESSAGE = "deserializing"
_TOO_LARGE_MESSAGE = "larger than max"
_HANDSHAKE_MESSAGES = ("ssl", "tls", "handshake", "certificate", "socket closed")
_TLS_SECTION = "oxia.tls"


def is_temporary(error: grpc.RpcError) -> bool:
    """Return whether a retry of the same question may succeed, later or on another server."""
    details = error.details() or ""
    if _NOT_OXIA_MESSAGE in details or _NO_NAMESPACE_MESSAGE in details:
        return False
    return error.code() in _TEMPORARY_CODES or any(
        temporary_message in details for temporary_message in _TEMPORARY_MESSAGES
    )


def hinted_leader(error: grpc.RpcError, shard: int) -> str | None:
    """Return the address of a shard's leader that an error names, or None if it names none."""
    for trailer_name, trailer_value in error.trailing_metadata() or ():
        if trailer_name != "grpc-status-details-bin":
            continue
        try:
            for error_detail in pb.OxiaErrorStatus.FromString(trailer_value).details:
                if error_detail.type_url.endswith("google.rpc.ErrorInfo"):
                    error_facts = pb.OxiaErrorInfo.FromString(error_detail.value).facts
                    return (
                        (error_facts.get("leader") or None)
                        if error_facts.get("shard") == str(shard)
                        else None
                    )
        except (DecodeError, UnicodeDecodeError):
            return None  # the assignments are asked for
    return None


def refusal_error(name: str, namespace: str, error: grpc.RpcError) -> StoreError:
    """Return the error for an answer that a retry would not change.

    Args:
        name: name of this Oxia in the message.
        namespace: the namespace in the request.
        error: the server's answer.
    """
    status_code, details = error.code(), error.details() or ""
    if _NO_NAMESPACE_MESSAGE in details or (
        status_code is grpc.StatusCode.NOT_FOUND and "namespace" in details
    ):
        return StoreError(
            f"{name}: there is no namespace {namespace}. Use the namespace in the bookies' "
            "metadataServiceUri, or, for owners, in the brokers' metadataStoreUrl, as in "
            "metadata-store:oxia://host:6648/NAMESPACE"
        )
    if status_code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return StoreError(
            f"not authorised to read {name} ({details}). Set token or token_env in the [oxia] "
            "section of the credentials file to a token that the server accepts"
        )
    if status_code is grpc.StatusCode.UNIMPLEMENTED or _NOT_OXIA_MESSAGE in details:
        return StoreError(
            f"{name}: no Oxia server answers there ({details}); use Oxia's public address, "
            "with port 6648 unless it was changed"
        )
    if _TOO_LARGE_MESSAGE in details:
        return StoreError(f"{name}: an answer is too large to be read: {details}")
    return StoreError(f"{name} refused to answer: {status_code.name}: {details}")


def unreachable(
    address: str, server_role: str, error: grpc.RpcError, timeout_s: float, tls: Tls | None
) -> StoreError:
    """Return the error for a server that still fails after the last retry.

    Args:
        address: HOST:PORT of the server.
        server_role: role of the server in the message, such as the leader of a shard.
        error: the last error of the call.
        timeout_s: time limit of each call, in seconds.
        tls: the TLS files for Oxia from the credentials file; None for a connection without TLS.
    """
    status_code, details = error.code(), error.details() or ""
    if (
        any(temporary_message in details for temporary_message in _TEMPORARY_MESSAGES)
        or status_code is grpc.StatusCode.ABORTED
    ):
        return StoreError(f"{address}, {server_role}: {details}; no other server took over: try again later")
    if (tls_problem_text := tls_problem(address, tls, _TLS_SECTION)) is not None:
        return StoreError(f"{address}: {tls_problem_text}")
    if status_code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return StoreError(
            f"{address}, {server_role}: no answer within {timeout_s:g} s; raise --timeout if it is slow"
        )
    if any(handshake_message in details.lower() for handshake_message in _HANDSHAKE_MESSAGES):
        return StoreError(f"{address}, {server_role}: no TLS connection: {details}")
    return StoreError(
        f"cannot reach {address}, {server_role}: {details}. Check the host of the metadata URI. This machine "
        "must reach every Oxia server by the name that Oxia announces"
    )
