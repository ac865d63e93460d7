"""Explanations of Kerberos errors, with advice about tickets, principals, host names and clocks."""

from __future__ import annotations

import sys
from typing import TypeGuard

_HELP_OF_MESSAGES = (
    (
        ("No Kerberos credentials available", "No credentials cache found", "Credentials cache"),
        "there is no ticket. Run kinit as the user of this process, or set "
        "KRB5_CLIENT_KTNAME to a keytab, here and on every executor",
    ),
    (("expired",), "the ticket is expired; run kinit again, or set KRB5_CLIENT_KTNAME to a keytab"),
    (
        ("not found in Kerberos database",),
        "the KDC has no principal {principal}. Use the host name in the server's own principal "
        "(rdns and dns_canonicalize_hostname in krb5.conf can change the requested name)",
    ),
    (("Clock skew",), "set the clocks of this machine, the KDC and the server by NTP"),
    (
        ("Cannot contact any KDC", "Cannot find KDC", "Cannot resolve"),
        "no KDC of the realm answers; check [realms] in krb5.conf, or the file that KRB5_CONFIG names",
    ),
    (
        ("Can't find client principal", "Matching credential not found", "principal in cache"),
        "there is no ticket for that principal; run kinit for it, or check principal in the credentials file",
    ),
)


def is_kerberos_error(error: object) -> TypeGuard[BaseException]:
    """Return whether an object is an exception of the optional package ``kerberos``."""
    error_class = getattr(sys.modules.get("kerberos"), "KrbError", None)
    return error_class is not None and isinstance(error, error_class)


def kerberos_problem(error: BaseException, principal: str) -> str:
    """Return Kerberos's own message for an error, followed by advice if the message is a known one.

    Args:
        error: an exception of the package ``kerberos``. Its arguments are pairs (text, code). The last pair
            is the most specific.
        principal: the server's principal, without its realm.

    >>> kerberos_problem(Exception(("Unspecified GSS failure", 1), ("Ticket expired", 2)), "bookkeeper/bk1")
    'Kerberos: Ticket expired: the ticket is expired; run kinit again, or set KRB5_CLIENT_KTNAME to a keytab'
    """
    error_parts = [
        error_argument[0] if isinstance(error_argument, tuple) and error_argument else error_argument
        for error_argument in error.args
    ]
    message = str(error_parts[-1]) if error_parts else type(error).__name__
    for error_texts, advice_template in _HELP_OF_MESSAGES:
        if any(error_text in message for error_text in error_texts):
            return f"Kerberos: {message}: {advice_template.format(principal=principal)}"
    return f"Kerberos: {message}"
