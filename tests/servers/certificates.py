"""Certificates for a test: an authority, a server and a client, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificates:
    """PEM files. The server's certificate names localhost and 127.0.0.1."""

    ca: Path
    server: Path
    server_key: Path
    server_store: Path  # both in one, as Java reads them
    client: Path
    client_key: Path


def certificates(directory: Path) -> Certificates:
    """Make certificates below ``directory``, which has none yet. Skip if openssl is not installed."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    directory.mkdir(parents=True, exist_ok=True)
    ca, ca_key = _issue(directory, "authority")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    server, server_key = _issue(directory, "localhost", *_signing_options(ca, ca_key), "-addext", names)
    client, client_key = _issue(directory, "client", *_signing_options(ca, ca_key))
    store = directory / "server-store.pem"
    store.write_bytes(server_key.read_bytes() + server.read_bytes())
    return Certificates(ca, server, server_key, store, client, client_key)


def client_certificate(directory: Path, name: str, unit: str) -> tuple[Path, Path]:
    """Return the certificate and key of one more client, made once. Its subject has ``unit`` as its OU.

    `certificates` must have made the authority in the same directory.
    """
    signed = _signing_options(directory / "authority.pem", directory / "authority.key")
    return _issue(directory, name, *signed, subject=f"/OU={unit}/CN={name}")


def _signing_options(ca: Path, ca_key: Path) -> tuple[str, ...]:
    return ("-CA", str(ca), "-CAkey", str(ca_key), "-addext", "basicConstraints=critical,CA:FALSE")


def _issue(directory: Path, name: str, *options: str, subject: str | None = None) -> tuple[Path, Path]:
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    if not certificate.exists():
        new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _openssl(
            *("req", "-x509", *new_key, "-days", "2", "-subj", subject or f"/CN={name}"),
            *("-keyout", str(key), "-out", str(certificate), *options),
        )
        key.chmod(0o600)
    return certificate, key


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
