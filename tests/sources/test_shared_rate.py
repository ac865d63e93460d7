"""The rate at which all tasks together read a real ZooKeeper, as the server counts it.

Each request reads one znode here. So the server's count of requests counts znodes, except for the requests
that begin and maintain a session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest

from tests.servers.spark import LOOPBACK, daemon, wait_for
from tests.servers.zookeeper import ZooKeeperProcess, free_ports, write, writer

RATE = 300
LEDGERS = 1_200
WINDOW_SECONDS = 1.0
MARGIN = 1.25
"""For what begins a session, of which each part has one: some 40 requests in 4 s."""

ZNODES = {
    "/bk/LAYOUT": b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1",
    "/bk/INSTANCEID": b"d0b0c0a0-0000-4000-8000-000000000001",
    **{f"/bk/{n % 12:02}/0000/L{n:04}": b"" for n in range(LEDGERS)},
}

SCAN = f"""
import json, sys
from auditor import Audit, AuditOptions
from auditor.spark import execution
from auditor.spark.session import build_session

execution.DRIVER_READ_BYTES = -1  # else the driver alone reads so few
master, uri, out, conf = sys.argv[1:]
spark = build_session(master, json.loads(conf))
options = AuditOptions(rate_limit={RATE}, batch=1, in_flight=20)
print(Audit(uri, out=out, options=options).scan(spark)["ledgers"])
spark.stop()
"""

SETTINGS: dict[str, tuple[str, dict[str, str]]] = {
    "default": ("local[4]", {}),
    "one default partition": ("local[4]", {"spark.default.parallelism": "1"}),
    "many default partitions": ("local[2]", {"spark.default.parallelism": "64"}),
    "two cores per task": ("local[4]", {"spark.task.cpus": "2"}),
    "speculation": ("local[4]", {"spark.speculation": "true", "spark.speculation.interval": "100ms"}),
    "executors": ("standalone", {"spark.default.parallelism": "1"}),
    "executors with a bound": ("standalone", {"spark.cores.max": "3", "spark.executor.cores": "1"}),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper")) as running:
        with writer(running.hosts) as client:
            write(client, ZNODES)
        yield running


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Run a Spark master with two workers of two cores each, and yield its URL."""
    port = free_ports(1)[0]
    worker = ("--host", LOOPBACK, "--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"))
    with daemon(folder / "master", "Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", "0"):
        wait_for(port, folder / "master" / "Master.log")
        url = f"spark://{LOOPBACK}:{port}"
        with daemon(folder / "one", "Worker", *worker, url), daemon(folder / "two", "Worker", *worker, url):
            yield url


def scan_counts(
    server: ZooKeeperProcess, master: str, conf: Mapping[str, str], out: Path
) -> tuple[str, list[tuple[float, int]]]:
    """Scan in a separate process; return its output, and the server's count of requests by time."""
    command = [sys.executable, "-c", SCAN, master, f"zk://{server.hosts}/bk", str(out), json.dumps(conf)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "SPARK_LOCAL_IP": LOOPBACK}
    counts = []
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            counts.append((time.monotonic(), server.received()))
            time.sleep(0.1)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read()
        return process.stdout.read(), counts


def highest_rate(counts: Sequence[tuple[float, int]]) -> float:
    """Return the requests per second in the busiest time span of at least `WINDOW_SECONDS`."""
    return max(
        (last - first) / (end - begin)
        for (begin, first), (end, last) in combinations(counts, 2)
        if WINDOW_SECONDS <= end - begin <= 2 * WINDOW_SECONDS
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_rate_of_all_tasks_together_keeps_to_the_limit(
    name: str, server: ZooKeeperProcess, tmp_path: Path
) -> None:
    master, conf = SETTINGS[name]
    if master == "standalone":
        with standalone(tmp_path) as url:
            output, counts = scan_counts(server, url, conf, tmp_path / "run")
    else:
        output, counts = scan_counts(server, master, conf, tmp_path / "run")
    assert output.split() == [str(LEDGERS)]
    assert counts[-1][1] - counts[0][1] >= LEDGERS
    assert highest_rate(counts) <= MARGIN * RATE
