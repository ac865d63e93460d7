"""The servers of a standalone Spark for tests, run from pyspark's own jars on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from auditor.spark.java import archive_options, find_java
from tests.servers.java import SHORT_LIVED

SPARK = Path(pyspark.__file__).parent
START_LIMIT_S = 120.0
STOP_LIMIT_S = 60.0
LOOPBACK = "127.0.0.1"


def environment() -> dict[str, str]:
    """Return the environment of Spark's scripts. Java loads Spark's classes from an archive if it exists."""
    java = find_java()
    own = {"JAVA_HOME": str(java.home), "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": LOOPBACK}
    options = " ".join((*SHORT_LIVED, *archive_options(java)))
    return {**os.environ, **own, "SPARK_DAEMON_MEMORY": "256m", "JDK_JAVA_OPTIONS": options}


@contextmanager
def daemon(folder: Path, kind: str, *arguments: str) -> Iterator[None]:
    """Run a master or a worker for the length of a block. Its log is in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
    with (folder / f"{kind}.log").open("ab") as log:
        process = subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), name, *arguments],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()  # a worker ends its executors
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(port: int, log: Path) -> None:
    """Wait until a server listens on a loopback port. On a timeout, fail with the end of its log."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
