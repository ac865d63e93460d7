"""The start of a connection to a bookie: TLS and then a login, as configured in the credentials file.

The settings are in the section ``[bookies]`` of that file. A bookie accepts TLS and login in either order.
This program starts TLS first, so that it never sends a login token unencrypted. With ``[bookies.tls]``, TLS
is mandatory. If a bookie then refuses START_TLS, the program sends it no request.

A bookie that rejects a login sends no answer (`SASLBookieAuthProvider` logs a stack trace and drops the
message). Therefore, AUTH has its own time limit. After this time, the program asks on the same connection
for an entry that cannot exist. If the bookie answers that it refuses the read, the bookie works but rejects
the login.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from auditor.codecs.bookie.handshake import (
    AUTH,
    MAX_HANDSHAKE_BYTES,
    NO_PLUGIN,
    START_TLS,
    HandshakeAnswer,
    auth_request,
    handshake_answer,
    is_late_start_tls,
    start_tls_request,
)
from auditor.codecs.bookie.wire import (
    IMPOSSIBLE_LEDGER,
    LENGTH,
    Status,
    frame_length,
    read_answer,
    read_request,
    status_text,
)
from auditor.errors import DecodeError, RefusedError, UnreadError, UsageError
from auditor.sources.bookies.rpc.sasl import SaslFailedError, SaslLogin, missing_package
from auditor.sources.metadata.credentials import Sasl, Tls, read_credentials
from auditor.sources.tls_alerts import certificate_problem

AUTH_SECONDS = 5.0
"""Longest wait for the answer to a login token, in seconds. A bookie answers in milliseconds, or never."""

TLS_SECTION = "[bookies.tls] of the credentials file"
SASL_SECTION = "[bookies.sasl] of the credentials file"


@dataclass(frozen=True)
class BookieAccess:
    """The TLS and login settings for connections to bookies. Each process creates its own with `read_access`.

    ``ssl_context`` is set if and only if ``tls`` is set. If ``tls`` and ``sasl`` are both None, the
    connection is unencrypted and without a login.
    """

    tls: Tls | None = None
    sasl: Sasl | None = None
    ssl_context: ssl.SSLContext | None = None

    @property
    def refusal_text(self) -> str:
        """The likely reason why a bookie answered "not authorised" (EUA), and what the user should do."""
        if self.sasl is not None:
            return f"the bookie does not accept the login of {SASL_SECTION} (saslJaasClientAllowedIds)"
        if self.tls is None:
            return (
                "the bookie requires authentication; add [bookies.sasl] or [bookies.tls] to the "
                "credentials file"
            )
        if self.tls.certificate is None:
            return (
                "the bookie requires a login, or a client certificate with one of its roles. Add "
                f"[bookies.sasl], or certificate and key to {TLS_SECTION}"
            )
        return (
            "the bookie accepts neither the role in the client certificate nor a client without a login. "
            "Compare the certificate's OU with the bookie's authorizedRoles, or add [bookies.sasl]"
        )

    def connection_error(self, address_text: str, error: OSError) -> UnreadError:
        """Return the error for a broken connection. It is a `RefusedError` if a certificate is the reason."""
        if self.tls is None or not isinstance(error, ssl.SSLError):
            return UnreadError(address_text, f"the connection broke: {error.strerror or error}")
        if isinstance(error, ssl.SSLCertVerificationError):
            advice = (
                f"remove check_hostname from {TLS_SECTION}, or issue a certificate with that name"
                if "mismatch" in error.verify_message
                else f"set ca in {TLS_SECTION} to the authority that issued the certificate"
            )
            return RefusedError(
                address_text,
                f"the certificate of the bookie is not accepted ({error.verify_message}); {advice}",
            )
        certificate_text = certificate_problem(
            error.reason or "", self.tls.certificate, TLS_SECTION, "bookie"
        )
        if certificate_text is not None:
            return RefusedError(address_text, certificate_text)
        return UnreadError(address_text, f"TLS failed: {error.reason or error}")


CLEAR_ACCESS = BookieAccess()


def read_access(credentials: str | None) -> BookieAccess:
    """Read the sections for bookies in a credentials file, and the certificates that these sections name.

    Raises:
        UsageError: the file is invalid (see `read_credentials`), a certificate or key is not in PEM format,
            or the Python package for GSSAPI is not installed.
    """
    bookies = read_credentials(credentials).bookies
    if bookies.sasl is not None and (package_name := missing_package(bookies.sasl)):
        raise UsageError(
            f"bookies.sasl.mechanism: {bookies.sasl.mechanism} needs the Python package {package_name}, "
            "which is not installed: pip install kerberos"
        )
    return BookieAccess(bookies.tls, bookies.sasl, None if bookies.tls is None else _tls_context(bookies.tls))


def _tls_context(tls: Tls) -> ssl.SSLContext:
    try:
        ssl_context = ssl.create_default_context(cafile=tls.ca)
    except (OSError, ValueError):
        raise UsageError(f"bookies.tls.ca: {tls.ca} contains no PEM certificate") from None
    ssl_context.minimum_version = ssl.TLSVersion.TLSv1_2
    ssl_context.check_hostname = tls.check_hostname
    if not tls.verify:
        ssl_context.verify_mode = ssl.CERT_NONE
    if tls.certificate is not None:
        try:
            # Without a password OpenSSL would ask for it at the terminal if the key is encrypted.
            ssl_context.load_cert_chain(tls.certificate, tls.key, tls.key_password or "")
        except (OSError, ValueError):
            raise UsageError(
                f"bookies.tls.certificate: {tls.certificate} and its key are not a PEM pair, or key_password "
                "does not open the key. docs/secured.md describes how to convert JKS and PKCS12"
            ) from None
    return ssl_context


async def start_session(
    reader: StreamReader,
    writer: StreamWriter,
    address_text: str,
    host: str,
    version: int,
    timeout_s: float,
    access: BookieAccess,
) -> None:
    """Start TLS and log in on a new connection, if ``access`` requires it.

    Args:
        reader: The reader of the connection.
        writer: The writer of the connection.
        address_text: The bookie's address, for messages.
        host: The host that the bookie registered.
        version: The protocol version of the requests that follow.
        timeout_s: The longest time to wait for an answer, in seconds.
        access: The TLS and login settings.

    Raises:
        RefusedError: the bookie refuses this client.
        UnreadError: the bookie did not answer, or the connection broke.
    """
    if access.tls is not None:
        await start_tls(reader, writer, address_text, host, timeout_s, access)
    if access.sasl is not None:
        await log_in(reader, writer, address_text, host, version, timeout_s, access)


async def start_tls(
    reader: StreamReader,
    writer: StreamWriter,
    address_text: str,
    host: str,
    timeout_s: float,
    access: BookieAccess,
) -> None:
    """Switch the connection to TLS and verify the bookie's name. Raises the same errors as `start_session`.

    ``host`` is the name to verify. It is the host that the bookie registered.
    """
    assert access.ssl_context is not None
    try:
        async with asyncio.timeout(timeout_s):
            writer.write(start_tls_request(0))
            answer = await _read_answer(reader, START_TLS, 0)
            if answer.status != Status.EOK:
                raise RefusedError(
                    address_text,
                    f"the bookie refuses TLS ({status_text(answer.status)} to START_TLS), and {TLS_SECTION} "
                    "allows no other connection. Configure TLS on the bookie, or remove the section",
                )
            await writer.start_tls(access.ssl_context, server_hostname=host)
    except (TimeoutError, IncompleteReadError, OSError, ValueError, DecodeError) as error:
        _raise_handshake_error(error, address_text, "START_TLS", timeout_s, access)


async def log_in(
    reader: StreamReader,
    writer: StreamWriter,
    address_text: str,
    host: str,
    version: int,
    timeout_s: float,
    access: BookieAccess,
) -> None:
    """Log in with SASL. Raises the same errors as `start_session`."""
    assert access.sasl is not None
    limit_seconds = min(timeout_s, AUTH_SECONDS)
    try:
        login = SaslLogin(access.sasl, host)
        token: bytes | None = login.first_token()
        message_number = 0
        while token is not None:
            message_number += 1
            writer.write(auth_request(message_number, token, version))
            if login.is_complete:
                await writer.drain()
                return  # the last token of GSSAPI is not answered
            async with asyncio.timeout(limit_seconds):
                answer = await _read_answer(reader, AUTH, message_number)
            if answer.status != Status.EOK:
                raise RefusedError(
                    address_text,
                    f"the bookie does not use SASL ({status_text(answer.status)} to AUTH). If it authorises "
                    "certificate roles, add a client certificate: [bookies.tls]",
                )
            if answer.plugin == NO_PLUGIN:
                return  # the bookie requires no login, or accepts the certificate's role
            token = login.next_token(answer.payload or b"")
    except SaslFailedError as error:
        raise RefusedError(address_text, f"{error}; see {SASL_SECTION}") from None
    except TimeoutError:
        if await _refuses_reads(reader, writer, version, limit_seconds):
            raise RefusedError(
                address_text,
                f"the bookie rejects the login: no answer to AUTH within {limit_seconds:g} s, and reads are "
                f"refused; check user and password of {SASL_SECTION}, and saslJaasClientAllowedIds "
                "of the bookie",
            ) from None
        raise UnreadError(address_text, f"no answer to AUTH within {limit_seconds:g} s") from None
    except (IncompleteReadError, OSError, ValueError, DecodeError) as error:
        _raise_handshake_error(error, address_text, "AUTH", limit_seconds, access)


class AuthRequirement(StrEnum):
    """The kind of authentication that a bookie requires of every client."""

    LOGIN = "login"  # SASL, over TLS or not
    CERTIFICATE = "certificate"  # TLS, and a client certificate with a role
    OTHER = "other"  # an authentication that this program does not have


async def find_requirement(
    reader: StreamReader, writer: StreamWriter, address_text: str, timeout_s: float
) -> AuthRequirement:
    """Find out which authentication a bookie requires, after it refused a read.

    The program sends an empty first token. A bookie with SASL answers it with a challenge (DIGEST-MD5) or
    not at all (GSSAPI). A bookie with any other provider refuses the name of the plugin at once. The bookie
    logs an ERROR unless it uses DIGEST-MD5. Close the connection afterwards, because no other request can
    use it.

    Raises:
        UnreadError: the bookie did not answer, or the connection broke.
    """
    limit_seconds = min(timeout_s, AUTH_SECONDS)
    try:
        try:
            async with asyncio.timeout(limit_seconds):
                writer.write(auth_request(1, b""))
                if (await _read_answer(reader, AUTH, 1)).status == Status.EOK:
                    return AuthRequirement.LOGIN
        except TimeoutError:
            return AuthRequirement.LOGIN
        async with asyncio.timeout(limit_seconds):
            writer.write(start_tls_request(0))
            if (await _read_answer(reader, START_TLS, 0)).status == Status.EOK:
                return AuthRequirement.CERTIFICATE
            return AuthRequirement.OTHER
    except (TimeoutError, IncompleteReadError, OSError, DecodeError) as error:
        _raise_handshake_error(error, address_text, "START_TLS", limit_seconds, CLEAR_ACCESS)


async def _refuses_reads(
    reader: StreamReader, writer: StreamWriter, version: int, limit_seconds: float
) -> bool:
    """Return whether a bookie that did not answer AUTH also refuses a read.

    A bookie refuses reads from a client that has not logged in.
    """
    try:
        async with asyncio.timeout(limit_seconds):
            writer.write(read_request(0, IMPOSSIBLE_LEDGER, 0, version=version))
            while is_late_start_tls(frame := await _read_frame(reader)):
                pass
            return read_answer(frame, len(frame), version).status == Status.EUA
    except (TimeoutError, IncompleteReadError, OSError, DecodeError):
        return False


async def _read_answer(reader: StreamReader, operation: int, message_number: int) -> HandshakeAnswer:
    """Return the answer to one message of a handshake. Skip a late second answer to START_TLS."""
    while True:
        answer = handshake_answer(await _read_frame(reader))
        if answer.operation == operation and answer.txn_id in (message_number, None):
            return answer
        if answer.operation != START_TLS:
            raise DecodeError("bookie's handshake", 0, f"unexpected answer, operation {answer.operation}")


async def _read_frame(reader: StreamReader) -> bytes:
    frame_bytes = frame_length(await reader.readexactly(LENGTH.size))
    if frame_bytes > MAX_HANDSHAKE_BYTES:
        raise DecodeError("bookie's handshake", 0, f"{frame_bytes} bytes, more than {MAX_HANDSHAKE_BYTES}")
    return await reader.readexactly(frame_bytes)


def _raise_handshake_error(
    error: Exception, address_text: str, step_name: str, limit_seconds: float, access: BookieAccess
) -> NoReturn:
    """Raise an `UnreadError` or `RefusedError` for the ``error`` that ended a handshake."""
    if isinstance(error, TimeoutError):
        raise UnreadError(address_text, f"no answer to {step_name} within {limit_seconds:g} s") from None
    if isinstance(error, IncompleteReadError):
        raise UnreadError(address_text, f"the bookie closed the connection after {step_name}") from None
    if isinstance(error, OSError):
        raise access.connection_error(address_text, error) from None
    raise UnreadError(address_text, f"{step_name} failed: {error}") from None
