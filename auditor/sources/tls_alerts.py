"""Explanations of TLS alerts about the client's certificate.

An explanation names the credentials section to change.
"""

from __future__ import annotations

_REQUIRED_ALERTS = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE")
"""Alerts to a client without a certificate.

TLS 1.3 has the first; TLS 1.2 and Java send one of the others.
"""

_REFUSED_ALERTS = (
    *_REQUIRED_ALERTS,
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "UNSUPPORTED_CERTIFICATE",
)


def certificate_problem(
    reason: str, certificate: str | None, section: str, server: str = "server", has_section: bool = True
) -> str | None:
    """Return the server's objection to the client's certificate, with advice on how to resolve it.

    Return None if the alert does not concern the certificate.

    Args:
        reason: OpenSSL's name of the alert (`ssl.SSLError.reason`).
        certificate: path of the client's certificate; None if the client has none.
        section: name of the credentials section for the certificate.
        server: kind of server, for the message.
        has_section: True if the credentials file has this section.
    """
    if certificate is None and any(alert_name in reason for alert_name in _REQUIRED_ALERTS):
        keys = "certificate and key" if has_section else "ca, certificate and key"
        return f"the {server} requires a client certificate; add {keys} to {section}"
    if certificate is not None and any(alert_name in reason for alert_name in _REFUSED_ALERTS):
        alert = reason.lower().replace("_", " ")
        return f"the {server} refuses the client certificate {certificate} ({alert})"
    return None
