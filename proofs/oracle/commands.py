"""Commands of an operator: ZooKeeper's ``zkCli.sh``, by its Java class."""

from __future__ import annotations

import subprocess

from auditor.spark.java import find_java
from tests.clusters.store import Store
from tests.servers.bookies.jars import classpath
from tests.servers.java import SHORT_LIVED

LIMIT_S = 60.0


def zkcli(store: Store, *words: str) -> None:
    """Run one command of ``zkCli.sh``."""
    hosts = store.uri.split("/")[2]
    _run("org.apache.zookeeper.ZooKeeperMain", "-server", hosts, *words)


def _run(main: str, *words: str) -> None:
    command = [str(find_java().executable), *SHORT_LIVED, "-cp", classpath(), main, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{main} {words}: {done.stdout}{done.stderr}"
