"""The tokens of a login to a bookie: DIGEST-MD5, or GSSAPI (Kerberos) with the package ``kerberos``.

    DIGEST-MD5   empty, answered by the challenge; the digest, answered by the bookie's own proof
    GSSAPI       as many tokens as Kerberos needs; then the bookie offers security layers, and the choice
                 (none) is the last token, which is not answered

The client speaks first. Of DIGEST-MD5 service, host and realm are ``bookkeeper`` wherever the bookie runs
(`SaslConstants`). Of GSSAPI the bookie's principal is ``bookkeeper/HOST``, with the host that it registered.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from puresasl import QOP
from puresasl.client import SASLClient

from auditor.sources.kerberos_errors import is_kerberos_error, kerberos_problem
from auditor.sources.metadata.credentials import Sasl

_DIGEST_HOST = "bookkeeper"


class SaslFailedError(Exception):
    """A login that fails on this side, before the bookie refuses it; the message has no secret."""


def missing_package(sasl: Sasl) -> str | None:
    """The Python package that a mechanism needs and that is not there; None if all is there."""
    return "kerberos" if sasl.mechanism == "GSSAPI" and importlib.util.find_spec("kerberos") is None else None


class SaslLogin:
    """One login on one connection. ``host`` is the bookie's, as registered.

    Raises:
        SaslFailedError: no ticket, or the package for tickets is not there; so do its methods.
    """

    def __init__(self, sasl: Sasl, host: str) -> None:
        self._sasl = sasl
        if (package := missing_package(sasl)) is not None:
            raise SaslFailedError(
                f"{sasl.mechanism} needs the Python package {package}, which is not installed"
            )
        self._principal = f"{sasl.service}/{host}"
        self._client: Any = self._call(self._new_client, host)  # pure-sasl has no types

    @property
    def is_complete(self) -> bool:
        """Whether nothing is to be heard any more."""
        return bool(self._client.complete)

    def first_token(self) -> bytes:
        """What the client begins with."""
        return self._call(self._client.process) or b""

    def next_token(self, challenge: bytes) -> bytes | None:
        """The answer to what the bookie sent; None if the login is done."""
        token: bytes | None = self._call(self._client.process, challenge)
        return None if self.is_complete and token is None else token or b""

    def _new_client(self, host: str) -> SASLClient:
        # No integrity or privacy layer: a bookie has none, and TLS is for that.
        if self._sasl.login is not None:
            return SASLClient(
                _DIGEST_HOST,
                self._sasl.service,
                mechanism=self._sasl.mechanism,
                qops=(QOP.AUTH,),
                username=self._sasl.login.user,
                password=self._sasl.login.password,
            )
        return SASLClient(
            host,
            self._sasl.service,
            mechanism=self._sasl.mechanism,
            qops=(QOP.AUTH,),
            principal=self._sasl.principal,
        )

    def _call(self, step: Any, *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except Exception as error:
            # A challenge that pure-sasl cannot read ends in whatever comes up; a wrong proof ("Invalid
            # server auth response") in an error that is no SASLError. None of them has a secret.
            if is_kerberos_error(error):
                raise SaslFailedError(kerberos_problem(error, self._principal)) from None
            raise SaslFailedError(f"{self._sasl.mechanism} failed: {error}") from None
