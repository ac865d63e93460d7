"""Diagnosis of failed TLS connections to a store over gRPC.

gRPC reports only that a connection failed. So this module opens a connection of its own, and sends nothing
except the handshake. A TLS 1.3 server refuses a client after the handshake, with an alert instead of its
first HTTP/2 frame. A TLS 1.2 server refuses the client during the handshake.
"""

from __future__ import annotations

import socket
import ssl

from auditor.sources.metadata.credentials import Tls
from auditor.sources.tls_alerts import certificate_problem

_PROBE_SECONDS = 3.0
_NOT_TLS_REASONS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING")


def tls_problem(address: str, tls: Tls | None, section: str) -> str | None:
    """Return the TLS problem between this client and a server, with advice on how to fix it.

    Return None if TLS works, or if nothing indicates that TLS is the problem.

    Args:
        address: HOST:PORT of the server.
        tls: the TLS files for the server from the credentials file; None for a connection without TLS.
        section: name of the credentials section with these files, such as etcd.tls.
    """
    section_text = f"[{section}] of the credentials file"
    host, _, port = address.rpartition(":")
    try:
        ssl_context = _ssl_context(tls)
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_SECONDS) as plain_socket,
            ssl_context.wrap_socket(plain_socket, server_hostname=host.strip("[]")) as tls_socket,
        ):
            has_answered = bool(tls_socket.recv(1))
    except ssl.SSLCertVerificationError as error:
        return (
            f"the certificate of the server is not accepted ({error.verify_message}); "
            f"set ca in {section_text} to the authority that issued the certificate"
        )
    except ssl.SSLError as error:
        return _alert_problem(error.reason or "", tls, section_text)
    except (OSError, ValueError):
        return None
    if tls is None and has_answered:
        return f"the server requires TLS; add ca to {section_text}"
    return None


def _alert_problem(reason: str, tls: Tls | None, section_text: str) -> str | None:
    if any(error_text in reason for error_text in _NOT_TLS_REASONS):
        return None if tls is None else f"the server does not use TLS; remove {section_text}"
    certificate = None if tls is None else tls.certificate
    return certificate_problem(reason, certificate, section_text, has_section=tls is not None)


def _ssl_context(tls: Tls | None) -> ssl.SSLContext:
    ssl_context = ssl.create_default_context(cafile=None if tls is None else tls.ca)
    if tls is None:
        # This only tests whether the server uses TLS. No data is exchanged, so no verification is needed.
        ssl_context.check_hostname = False
        ssl_context.verify_mode = ssl.CERT_NONE
    elif tls.certificate is not None:
        ssl_context.load_cert_chain(tls.certificate, tls.key, tls.key_password)
    ssl_context.set_alpn_protocols(["h2"])
    return ssl_context
