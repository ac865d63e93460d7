"""Diagnosis of failed TLS connections to a store over gRPC.

gRPC reports only that a connection failed. So this module opens a connection of its own, and sends nothing
except the handshake. A TLS 1.3 server refuses a client after the handshake, with an alert instead of its
first HTTP/2 frame. A TLS 1.2 server refuses the client during the handshake.

Both a server without TLS and a TLS server may close or reset the connection during the handshake. Only an
HTTP/2 frame without TLS proves that a server does not use TLS. The advice to remove the TLS section needs
this proof, because without TLS a client sends the login in the clear.
"""

from __future__ import annotations

import socket
import ssl

from auditor.sources.metadata.credentials import Tls
from auditor.sources.tls_alerts import certificate_problem

_PROBE_SECONDS = 3.0
_SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS_FRAME
"""The first bytes of an HTTP/2 client (RFC 9113, section 3.4). They ask for nothing."""


def tls_problem(address: str, tls: Tls | None, section: str) -> str | None:
    """Return the TLS problem between this client and a server, with advice on how to fix it.

    Return None if TLS works, or if nothing indicates that TLS is the problem.

    Args:
        address: HOST:PORT of the server.
        tls: the TLS files for the server from the credentials file; None for a connection without TLS.
        section: name of the credentials section with these files, such as etcd.tls.
    """
    section_text = f"[{section}] of the credentials file"
    try:
        ssl_context = _ssl_context(tls)
        host = _host_and_port(address)[0]
        with (
            socket.create_connection(_host_and_port(address), timeout=_PROBE_SECONDS) as plain_socket,
            ssl_context.wrap_socket(plain_socket, server_hostname=host) as tls_socket,
        ):
            has_answered = bool(tls_socket.recv(1))
    except ssl.SSLCertVerificationError as error:
        return (
            f"the certificate of the server is not accepted ({error.verify_message}); "
            f"set ca in {section_text} to the authority that issued the certificate"
        )
    except (OSError, ValueError) as error:
        certificate = None if tls is None else tls.certificate
        alert_name = getattr(error, "reason", None) or ""
        certificate_text = certificate_problem(
            alert_name, certificate, section_text, has_section=tls is not None
        )
        if certificate_text is None and tls is not None and _answers_without_tls(address):
            return f"the server does not use TLS; remove {section_text}"
        return certificate_text
    if tls is None and has_answered:
        return f"the server requires TLS; add ca to {section_text}"
    return None


def _answers_without_tls(address: str) -> bool:
    """Return True if the server answers an HTTP/2 client without TLS with its first frame, SETTINGS."""
    try:
        with socket.create_connection(_host_and_port(address), timeout=_PROBE_SECONDS) as plain_socket:
            plain_socket.sendall(_HTTP2_PREFACE)
            first_frame = plain_socket.recv(len(_SETTINGS_FRAME), socket.MSG_WAITALL)
    except (OSError, ValueError):
        return False
    # A frame starts with 3 bytes for its length, 1 for its type, 1 for flags and 4 for its stream.
    return len(first_frame) == len(_SETTINGS_FRAME) and first_frame[3:] == _SETTINGS_FRAME[3:]


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


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
