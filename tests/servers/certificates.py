"""Certificates of a test's own: an authority, a server and a client, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificates:
    """PEM files; the server's certificate names localhost and 127.0.0.1."""

    ca: Path
    server: Path
    server_key: Path
    server_store: Path  # both in one, as Java reads them
    client: Path
    client_key: Path


def certificates(directory: Path) -> Certificates:
    """Make them below ``directory``; skips where openssl is not installed."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    directory.mkdir(parents=True, exist_ok=True)
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def made(name: str, *more: str) -> tuple[Path, Path]:
        certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
        _openssl(
            *("req", "-x509", *new_key, "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(certificate), *more),
        )
        key.chmod(0o600)
        return certificate, key

    ca, ca_key = made("authority")
    signed = ("-CA", str(ca), "-CAkey", str(ca_key), "-addext", "basicConstraints=critical,CA:FALSE")
    server, server_key = made("localhost", *signed, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    client, client_key = made("client", *signed)
    store = directory / "server-store.pem"
    store.write_bytes(server_key.read_bytes() + server.read_bytes())
    return Certificates(ca, server, server_key, store, client, client_key)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
