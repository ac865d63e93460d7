"""gRPC channels to a metadata store, without TLS or with the TLS files that the credentials file names."""

from __future__ import annotations

from typing import Any

import grpc

from auditor.errors import StoreError
from auditor.sources.metadata.credentials import Tls
from auditor.sources.regular_file import read_regular


def open_channel(address: str, tls: Tls | None, message_limit: int) -> Any:
    """Open a channel to a server. The channel connects at its first call.

    Args:
        address: HOST:PORT of the server.
        tls: the TLS files for the store, from the credentials file; None for a connection without TLS.
        message_limit: size of the largest answer to accept, in bytes.

    Raises:
        StoreError: a file that is named in the credentials file cannot be read.
    """
    options = [
        ("grpc.max_receive_message_length", message_limit),
        # Without this a new channel would inherit the back-off of the one before it.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if tls is None:
        return grpc.insecure_channel(address, options)
    files = (tls.ca, tls.key or tls.certificate, tls.certificate)  # one file may contain both
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*map(_read_file, files)), options)


def _read_file(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return read_regular(path)
    except OSError as error:
        raise StoreError(f"cannot read {path}, which the credentials file names: {error.strerror}") from error
