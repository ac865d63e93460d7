"""A second version of ZooKeeper: the server that Debian packages, 3.8 in Debian 12."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.embedded.zookeeper import EmbeddedZooKeeper

JAVA = Path("/usr/share/java")
# What zookeeper.jar needs besides is named in its manifest, but for something that logs.
NEEDED = ("zookeeper.jar", "zookeeper-jute.jar", "slf4j-api.jar", "slf4j-simple.jar", "snappy-java.jar")


def debian_zookeeper(data_dir: Path) -> EmbeddedZooKeeper:
    """Return a server of that version on this directory. Skip the test if the package is not installed."""
    return EmbeddedZooKeeper(data_dir, jars=debian_jars())


def debian_jars() -> list[Path]:
    """Return the class path of that version. Skip the test if the package is not installed."""
    jars = [JAVA / name for name in NEEDED]
    if not all(jar.exists() for jar in jars):
        pytest.skip("needs Debian's libzookeeper-java")
    return jars
