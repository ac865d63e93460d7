"""The commands in docs/secured.md convert Java key stores to the files that a credentials file names."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from auditor.sources.bookies.rpc.access import read_access
from auditor.spark.java import find_java
from tests.servers.certificates import certificates
from tests.test_document_commands import blocks

PAGE = Path(__file__).parents[1] / "docs" / "secured.md"
SECTION = "## Certificates from Java's key stores\n"
PASSWORD = "changeit"
ANSWERS = {
    "-importkeystore": ["-srcstorepass", PASSWORD, "-deststorepass", PASSWORD],
    "-exportcert": ["-storepass", PASSWORD],
    "pkcs12": ["-passin", f"pass:{PASSWORD}"],
}
"""What a person would type where the commands ask for passwords, by the word that begins each."""


@pytest.mark.process
def test_documented_commands_convert_java_key_stores_for_credentials(tmp_path: Path) -> None:
    pem_files = certificates(tmp_path / "made")
    run(
        tmp_path,
        *("openssl", "pkcs12", "-export", "-name", "client", "-in", str(pem_files.client)),
        *("-inkey", str(pem_files.client_key), "-passout", f"pass:{PASSWORD}", "-out", "made.p12"),
    )
    run(
        tmp_path,
        *("keytool", "-importkeystore", "-srckeystore", "made.p12", "-srcstorepass", PASSWORD),
        *("-destkeystore", "client.jks", "-deststoretype", "JKS", "-deststorepass", PASSWORD),
    )
    run(
        tmp_path,
        *("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(pem_files.ca)),
        *("-keystore", "truststore.jks", "-storetype", "JKS", "-storepass", PASSWORD),
    )
    [commands] = [
        lines
        for info, lines in blocks(PAGE.read_text("utf-8").partition(SECTION)[2].partition("\n## ")[0])
        if not info and lines
    ]
    for command in commands:
        words = shlex.split(command)
        run(tmp_path, *words, *ANSWERS.get(words[1], []))
    assert (tmp_path / "client.pem").stat().st_mode & 0o777 == 0o600
    file = tmp_path / "auditor.toml"
    file.write_text('[bookies.tls]\nca = "ca.pem"\ncertificate = "client.pem"\n')
    file.chmod(0o600)
    assert read_access(str(file)) is not None


def run(folder: Path, *command: str) -> None:
    path = f"{find_java().executable.resolve().parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}  # keytool is beside Java
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
