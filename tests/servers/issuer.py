"""An OpenID Connect issuer on loopback, in the test's own process, and the tokens that it signs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

AUDIENCE = "oxia"
KEY_ID = "test"
HOUR_S = 3600


class Issuer:
    """The issuer that `running_issuer` serves. ``url`` is its name in tokens."""

    def __init__(self, url: str, key: RSAPrivateKey) -> None:
        self.url = url
        self._key = key

    def token(self, user: str, lasts_s: int = HOUR_S) -> str:
        """Return a token of a user for the audience."""
        now_s = int(time.time())
        claims = {"iss": self.url, "sub": user, "aud": AUDIENCE, "iat": now_s, "exp": now_s + lasts_s}
        parts = [_encode_json({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}), _encode_json(claims)]
        signature = self._key.sign(".".join(parts).encode(), PKCS1v15(), SHA256())
        return ".".join([*parts, _text(signature)])

    def documents(self) -> dict[str, object]:
        """Return the documents that the issuer serves, by path."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID}
        key |= {"n": _text(_octets(numbers.n)), "e": _text(_octets(numbers.e))}
        about = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        about |= {f"{name}_endpoint": f"{self.url}/{name}" for name in ("authorization", "token")}
        return {"/.well-known/openid-configuration": about, "/keys": {"keys": [key]}}


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """Yield an issuer that runs as long as the block."""
    key = generate_private_key(public_exponent=65537, key_size=2048)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = issuer.documents().get(self.path)
            body = json.dumps(document).encode()
            self.send_response(404 if document is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}", key)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def _octets(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _encode_json(value: object) -> str:
    return _text(json.dumps(value).encode())
