"""Jars of one version of a program from Maven Central, and a Java file compiled against them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.servers.bookies.jars import compiled_classpath

JAVA = Path(__file__).parent / "java"
_DEPENDENCY = """
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"""
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bookkeeper-auditor</groupId><artifactId>truth</artifactId><version>1</version>
  <dependencies>{}
  </dependencies>
</project>
"""


def classpath(name: str, artifacts: Iterable[str], source: str) -> str:
    """Return the class path for ``java -cp`` to run ``source`` with these ``group:artifact:version``."""
    with tempfile.TemporaryDirectory() as scratch:
        pom = Path(scratch, "pom.xml")
        pom.write_text(
            _POM.format("".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts))
        )
        return compiled_classpath(name, pom, [JAVA / source])
