"""Channels of gRPC to a metadata store: plain, or with the TLS that the credentials file has for it."""

from __future__ import annotations

from typing import Any

import grpc

from auditor.errors import StoreError
from auditor.sources.metadata.credentials import Tls
from auditor.sources.regular_file import read_regular


def open_channel(address: str, tls: Tls | None, message_limit: int) -> Any:
    """Make a channel to a server, which connects at its first call.

    Args:
        address: HOST:PORT of the server.
        tls: what the credentials file has for it; None is a plain connection.
        message_limit: bytes of the largest answer that is taken.

    Raises:
        StoreError: a file that the credentials name cannot be read.
    """
    options = [
        ("grpc.max_receive_message_length", message_limit),
        # Or a new channel would inherit how long the one before it was going to wait.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if tls is None:
        return grpc.insecure_channel(address, options)
    files = (tls.ca, tls.key or tls.certificate, tls.certificate)  # one may hold both
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*map(_read_file, files)), options)


def _read_file(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return read_regular(path)
    except OSError as error:
        raise StoreError(f"cannot read {path}, which the credentials file names: {error.strerror}") from error
