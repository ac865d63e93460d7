"""The tokens of a login to a bookie: DIGEST-MD5, or GSSAPI (Kerberos) with the package ``kerberos``.

    DIGEST-MD5   The client sends an empty token, and the bookie answers with the challenge. The client
                 then sends the digest, and the bookie answers with its proof.
    GSSAPI       Client and bookie exchange as many tokens as Kerberos needs. Then the bookie offers
                 security layers. The client chooses none. This is the last token, and the bookie does not
                 answer it.

The client sends the first token. For DIGEST-MD5, service, host and realm are all ``bookkeeper``, on every
bookie (`SaslConstants`). For GSSAPI, the bookie's principal is ``bookkeeper/HOST``, where HOST is the host
that the bookie registered.
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
    """A login that failed in the client, before the bookie could refuse it. The message has no secret."""


def missing_package(sasl: Sasl) -> str | None:
    """Return the Python package that a SASL mechanism needs but that is not installed, or None."""
    return "kerberos" if sasl.mechanism == "GSSAPI" and importlib.util.find_spec("kerberos") is None else None


class SaslLogin:
    """A single login on a single connection. ``host`` is the host that the bookie registered.

    Raises:
        SaslFailedError: from any method, for example if there is no Kerberos ticket or if the package for
            Kerberos is not installed.
    """

    def __init__(self, sasl: Sasl, host: str) -> None:
        self._sasl = sasl
        if (package_name := missing_package(sasl)) is not None:
            raise SaslFailedError(
                f"{sasl.mechanism} needs the Python package {package_name}, which is not installed"
            )
        self._principal = f"{sasl.service}/{host}"
        self._client: Any = self._call(self._new_client, host)  # pure-sasl has no types

    @property
    def is_complete(self) -> bool:
        """Whether the login is complete, so that no further answer from the bookie is needed."""
        return bool(self._client.complete)

    def first_token(self) -> bytes:
        """Return the client's first token."""
        return self._call(self._client.process) or b""

    def next_token(self, challenge: bytes) -> bytes | None:
        """Return the token that answers the bookie's challenge, or None if the login is complete."""
        token: bytes | None = self._call(self._client.process, challenge)
        return None if self.is_complete and token is None else token or b""

    def _new_client(self, host: str) -> SASLClient:
        # No integrity or privacy layer: a bookie supports none, and TLS provides both.
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

    def _call(self, client_call: Any, *arguments: Any) -> Any:
        try:
            return client_call(*arguments)
        except Exception as error:
            # pure-sasl raises arbitrary errors for a challenge that it cannot parse, and no SASLError for a
            # wrong proof ("Invalid server auth response"). Their texts have no secret.
            if is_kerberos_error(error):
                raise SaslFailedError(kerberos_problem(error, self._principal)) from None
            raise SaslFailedError(f"{self._sasl.mechanism} failed: {error}") from None
