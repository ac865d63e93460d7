"""One Java process for all tests, for any number of parallel test processes.

Java needs some twenty audits to compile the code that plans their queries, and a third of their processor
time. Parallel processes share that work. The first process that needs Spark starts a server with a context
in it. Each process has its own session there, with its own settings and views. The server ends when the
process that began the tests does.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.spark import session as sessions
from auditor.spark.java import ensure_java_home
from auditor.spark.query_plans import STATIC_PLAN_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_LIMIT_S = 300.0
CORES = 2
# Hundreds of audits make much garbage, and nearly all of it is short-lived: the more room it has, the less is
# copied. Every core has processes of tests to run: one thread collects.
# Five audits fill two thirds of the room that compiled code has by default.
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-Xms3g", "-Xmn2g", "-XX:ReservedCodeCacheSize=480m")
SETTINGS = {
    # As an audit of small tables plans: tables of tests are small.
    **STATIC_PLAN_SETTINGS,
    "spark.sql.shuffle.partitions": str(CORES),
    # Spark keeps what it would show of the last thousand queries and jobs; here nobody looks.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.python.daemon.module": "tests.servers.warm_daemon",
}


def start(processes: int = 1) -> SparkSession:
    """Return a session that plans for two cores, for the tests of ``processes`` processes.

    Each process runs as many tasks at once as if it were alone. A task may wait for a server that is gone.
    """
    settings = {**SETTINGS, "spark.default.parallelism": str(CORES)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "JAVA_OPTIONS", (*sessions.JAVA_OPTIONS, *JAVA_OPTIONS))
        return sessions.build_session(f"local[{CORES * processes}]", settings, driver_memory="4g")


def launch(place: Path, processes: int) -> None:
    """Start the server. After this returns, `attach` finds its address in the directory ``place``."""
    command = [sys.executable, "-m", __name__, str(place), str(os.getppid()), str(processes)]
    log = place / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + START_LIMIT_S
    while not (place / "gateway").exists():
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            raise RuntimeError(f"Spark for all tests does not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def serve(place: Path, controller: int, processes: int) -> None:
    """Start Spark, write its address into ``place``, and end when the process ``controller`` does."""
    ended = os.pidfd_open(controller)
    session = start(processes)
    gateway: Any = session.sparkContext._gateway
    parameters = gateway.gateway_parameters
    # The directory is this user's alone: who has the token can do in Spark what it likes.
    scratch = place / "gateway.new"
    scratch.write_text(json.dumps({"port": parameters.port, "token": parameters.auth_token}))
    scratch.rename(place / "gateway")
    select.select([ended], [], [])
    session.stop()


def attach(place: Path) -> SparkSession:
    """Return a separate session in the server that `launch` started."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # As `build_session` does.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ensure_java_home()
    address = json.loads((place / "gateway").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_GATEWAY_PORT", str(address["port"]))
        patch.setenv("PYSPARK_GATEWAY_SECRET", address["token"])
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    java: Any = gateway.jvm
    running = java.org.apache.spark.SparkContext.getOrCreate()
    context = SparkContext(
        gateway=gateway,
        jsc=java.JavaSparkContext.fromSparkContext(running),
        conf=SparkConf(_jconf=running.conf()),
    )
    return SparkSession(context).newSession()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
