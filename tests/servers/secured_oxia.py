"""An Oxia that requires a certificate and a token of its clients, and bookies with Pulsar's driver on it.

Pulsar's driver uses TLS and sends tokens, but presents no certificate. A proxy next to the bookies does
(`tests.servers.sidecar`). The proxy has the port that Oxia gives to clients. In the bookies' JVM alone, the
name of the host leads to the address of the proxy.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from auditor.spark.java import find_java
from tests.servers.certificates import Certificates, certificates
from tests.servers.issuer import AUDIENCE, running_issuer
from tests.servers.oxia import Oxia, running_cluster
from tests.servers.sidecar import running_sidecar

HOST = "localhost"
SIDECAR_ADDRESS = "127.0.0.2"
STORE_PASSWORD = "changeit"
LOGIN_CLASS = "io.oxia.client.auth.TokenAuthentication"


@dataclass(frozen=True)
class SecuredOxia:
    """A running secured Oxia. ``folder`` has the files of its clients."""

    oxia: Oxia
    files: Certificates
    token: str
    folder: Path

    @property
    def bookies_uri(self) -> str:
        """Return the metadata URI of the bookies. Pulsar's driver reads its settings from a file."""
        return f"{self.oxia.uri}?configFilePath={self.folder / 'driver.properties'}"

    def in_namespace(self, name: str) -> Oxia:
        """Return a writer to another namespace of the same servers."""
        return replace(self.oxia, namespace=name)

    def java_options(self) -> list[str]:
        """Return options of the bookies' JVM: its trusted authority, and the address of the proxy."""
        store = f"-Djavax.net.ssl.trustStore={self.folder / 'authority.p12'}"
        password = f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}"
        return [store, password, f"-Djdk.net.hosts.file={self.folder / 'hosts'}"]


@contextmanager
def running_secured(folder: Path, namespaces: Mapping[str, Mapping[str, Any]]) -> Iterator[SecuredOxia]:
    """Yield a started secured Oxia, with the proxy for its bookies."""
    files = certificates(folder / "certificates")
    with running_issuer() as issuer:
        token = issuer.token("auditor")
        parameters = json.dumps({"allowedIssueURLs": issuer.url, "allowedAudiences": AUDIENCE})
        flags = ["--auth-provider-name", "oidc", "--auth-provider-params", parameters]
        with running_cluster(
            folder / "oxia", namespaces=namespaces, host=HOST, tls=files, token=token, flags=flags
        ) as oxia:
            port = int(oxia.host.rpartition(":")[2])
            with running_sidecar(SIDECAR_ADDRESS, port, (HOST, port), files):
                secured = SecuredOxia(oxia, files, token, folder)
                _write_driver_files(secured, issuer.token("bookies"))
                yield secured


def _write_driver_files(secured: SecuredOxia, token: str) -> None:
    settings = {"enableTls": "true", "authPluginClassName": LOGIN_CLASS, "authParams": f"token:{token}"}
    lines = [f"{name}={value}\n" for name, value in settings.items()]
    (secured.folder / "driver.properties").write_text("".join(lines))
    own_name = f"127.0.0.1 {socket.gethostname()}\n"
    (secured.folder / "hosts").write_text(f"{SIDECAR_ADDRESS} {HOST}\n{own_name}")
    keytool = str(find_java().executable.resolve().with_name("keytool"))
    imported = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(secured.files.ca)]
    store = ["-keystore", str(secured.folder / "authority.p12"), "-storepass", STORE_PASSWORD]
    subprocess.run([keytool, *imported, *store], check=True, capture_output=True)
