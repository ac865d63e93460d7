"""Helm: the manifests that it makes of a chart, and its objections to the chart.

Tests use Helm itself if it is on the PATH. Otherwise a separate process loads Helm's own code as a library
from Maven Central (helm-java). Building Helm would take minutes.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.servers.bookies.jars import jars_of, kept_directory

RELEASE = "0.0.16"
"""Of helm-java; it has the code of Helm 3.17."""

HELM_LIMIT_S = 120.0
_ARTIFACTS = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}


def template(release: str, chart: Path, values: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
    """Return the manifests of a release as Helm prints them. Later files of values override earlier ones."""
    files = [f"--values={path}" for path in values]
    return _helm("template", release, str(chart), *files)


def lint(chart: Path) -> subprocess.CompletedProcess[str]:
    """Return the faults that Helm finds in a chart with its strictest setting."""
    return _helm("lint", "--strict", str(chart))


def _helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("helm"):
        command = ["helm", *arguments]
    else:
        command = [sys.executable, "-m", "tests.servers.helm", str(_library()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HELM_LIMIT_S)


def _library() -> Path:
    """Return the path of the shared library for this machine. Skip the test if it cannot be fetched."""
    artifact = _ARTIFACTS.get(platform.machine())
    if artifact is None or sys.platform != "linux" or not shutil.which("mvn"):
        import pytest

        pytest.skip("needs mvn")

    def unpack(target: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            pom = Path(scratch, "pom.xml")
            pom.write_text(_POM.format(artifact=artifact, release=RELEASE), "utf-8")
            [jar] = jars_of("helm", pom).glob("*.jar")
        with zipfile.ZipFile(jar) as archive:
            archive.extract(f"helm-{artifact}.so", target)

    return kept_directory(f"helm-{RELEASE}-{artifact}", [Path(__file__)], unpack) / f"helm-{artifact}.so"


_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bookkeeper.auditor</groupId>
  <artifactId>helm</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.marcnuri.helm-java</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{release}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.6.1</version>
      </plugin>
    </plugins>
  </build>
</project>
"""


class _Result(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("out", "err", "stdout", "stderr")]


_TEXT, _FLAG = ctypes.c_char_p, ctypes.c_int


class _TemplateOptions(ctypes.Structure):
    _fields_ = [
        ("name", _TEXT),
        ("version", _TEXT),
        ("chart", _TEXT),
        ("namespace", _TEXT),
        ("dependency_update", _FLAG),
        ("values", _TEXT),
        ("values_files", _TEXT),
        ("cert_file", _TEXT),
        ("key_file", _TEXT),
        ("ca_file", _TEXT),
        ("insecure_skip_tls_verify", _FLAG),
        ("plain_http", _FLAG),
        ("keyring", _TEXT),
        ("debug", _FLAG),
        ("repository_config", _TEXT),
    ]


class _LintOptions(ctypes.Structure):
    _fields_ = [("path", _TEXT), ("strict", _FLAG), ("quiet", _FLAG)]


def main(library: str, command: str, *arguments: str) -> int:
    """Print results to standard output and faults to standard error, as Helm does."""
    code = ctypes.CDLL(library)
    options: ctypes.Structure
    if command == "lint":
        options, call = _LintOptions(path=arguments[-1].encode(), strict=1), code.Lint
    else:
        release, chart, *files = arguments
        names = ",".join(file.removeprefix("--values=") for file in files)
        options = _TemplateOptions(
            name=release.encode(),
            chart=chart.encode(),
            namespace=b"default",
            values_files=names.encode() or None,
        )
        call = code.Template
    call.restype = _Result
    result = call(ctypes.byref(options))
    sys.stdout.write((result.out or b"").decode())
    sys.stderr.write((result.err or b"").decode())
    return 1 if result.err or b"Failed: true" in (result.out or b"") else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
