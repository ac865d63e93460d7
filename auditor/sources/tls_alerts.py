"""What a TLS alert says about the client's certificate, and which section of the credentials file helps."""

from __future__ import annotations

_REQUIRED = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE")
"""Alerts to a client without a certificate: RFC 8446 has the first, TLS 1.2 and Java one of the others."""

_REFUSED = (*_REQUIRED, "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "UNSUPPORTED_CERTIFICATE")


def certificate_problem(
    reason: str, certificate: str | None, section: str, server: str = "server", has_section: bool = True
) -> str | None:
    """Return what a server has against the client's certificate, and what to do.

    Returns None if the alert is about something else.

    Args:
        reason: the name that OpenSSL gives to the alert (`ssl.SSLError.reason`).
        certificate: the path of the client's certificate; None if it has none.
        section: where the credentials file names it.
        server: what the server is.
        has_section: whether the credentials file has that section.
    """
    if certificate is None and any(word in reason for word in _REQUIRED):
        keys = "certificate and key" if has_section else "ca, certificate and key"
        return f"the {server} requires a client certificate; add {keys} to {section}"
    if certificate is not None and any(word in reason for word in _REFUSED):
        alert = reason.lower().replace("_", " ")
        return f"the {server} refuses the client certificate {certificate} ({alert})"
    return None
