"""A standalone master, two workers that cannot see the driver's files, and jobs submitted to them.

Each worker has its own mount and process namespaces, in which the hidden directories are empty. When a
worker is killed, its executors and their Python processes end too, as if a machine failed. Namespaces need
root. Without root a worker has only its own directory and address, and no directory is hidden.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from auditor.spark.java import find_java, user_cache
from proofs.killed.ground import IN_A_NAMESPACE
from tests.servers.bookies.jars import jars_of, kept_directory
from tests.servers.limits import end_within
from tests.servers.s3 import S3
from tests.servers.spark import LOOPBACK, SPARK, daemon, environment, wait_for
from tests.servers.zookeeper import free_ports

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("job.py")
DRIVER_DIRECTORIES = (ROOT, Path(sys.prefix), user_cache(), Path(tempfile.gettempdir()))
"""Directories that another machine would not have: checkout, environment, cache and temporary files."""
WORKERS = 2
"""Number of workers, with one core each."""
JOB_LIMIT_S = 400.0
OWN_NAMESPACE = (*IN_A_NAMESPACE, "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
PLACE = "/mnt"
CLASS = "org.apache.spark.deploy.worker.Worker"
WORKER = f"""
set -e
spark=$1 work=$2; shift 2
mount -t tmpfs tmpfs {PLACE}
mkdir {PLACE}/spark {PLACE}/work
mount --bind "$spark" {PLACE}/spark
mount --bind "$work" {PLACE}/work
while [ "$1" != -- ]; do [ ! -d "$1" ] || mount -t tmpfs tmpfs "$1"; shift; done
shift
exec {PLACE}/spark/bin/spark-class {CLASS} --work-dir {PLACE}/work "$@"
"""


@dataclass(frozen=True)
class JobResult:
    """The exit code, seconds and output of an ended job. spark-submit merges standard output and error."""

    exit_code: int
    seconds: float
    said: str


@dataclass
class Cluster:
    """A running master and its workers.

    ``url`` is the master's address. ``sent`` has the options of spark-submit for files that it sends to
    executors. ``hidden`` has the directories that executors cannot see.
    """

    url: str
    folder: Path
    memory: str
    sent: Sequence[str]
    server: S3
    hidden: Sequence[Path]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_workers(self) -> None:
        """Start workers until there are `WORKERS` again."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < WORKERS:
            self.workers.append(self._worker())

    def kill_workers(self, number: int = WORKERS) -> None:
        """Kill the first ``number`` workers with SIGKILL."""
        for worker in self.workers[:number]:
            worker.kill()
            worker.wait()

    def submit(
        self,
        arguments: Sequence[str],
        local: bool = False,
        job: Path = JOB,
        stage: str = "",
        action: Callable[[], object] = lambda: None,
    ) -> JobResult:
        """Run a job on the cluster, or in one process with as many cores.

        Args:
            arguments: The arguments of the job.
            local: Run the job in one process.
            job: The program to submit.
            stage: The stage at which to call ``action``. Empty if none.
            action: Called once, when the job's output names the stage.
        """
        master = ["--master", f"local[{WORKERS}]"] if local else ["--master", self.url, *self.sent]
        settings = {
            **self.server.settings,
            "spark.jars": ",".join(map(str, sorted(s3_classes().glob("*.jar")))),
            "spark.driver.host": LOOPBACK,
            "spark.executor.memory": self.memory,
            "spark.executor.cores": "1",
            "spark.sql.shuffle.partitions": str(4 * WORKERS),
            "spark.pyspark.driver.python": sys.executable,
            "spark.pyspark.python": sys.executable if local else "./environment/bin/python",
        }
        command = [str(SPARK / "bin" / "spark-submit"), *master]
        command += ["--properties-file", str(ROOT / "conf" / "spark-defaults.conf")]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        variables = {**environment(), **self.server.environment, "PYTHONPATH": str(ROOT)}
        began, output, done = time.monotonic(), "", False
        with subprocess.Popen(
            [*command, str(job), *arguments, "-v"],
            env=variables,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            # A job that gets no executors waits for them for ever.
            with end_within(process, JOB_LIMIT_S):
                for line in process.stdout:
                    output += line
                    if stage and f"({stage})" in line and not done:
                        done = True
                        action()
        assert done or not stage, f"no {stage}: {output[-3000:]}"
        return JobResult(process.returncode, time.monotonic() - began, output)

    def _worker(self) -> subprocess.Popen[bytes]:
        number = len(list(self.folder.glob("worker*.log")))
        work = self.folder / f"work{number}"
        work.mkdir()
        [ui] = free_ports(1)
        # Each worker has its own address. Executors on one host would read shuffle files from disk.
        host = f"127.0.0.{2 + number}"
        options = ["--host", host, "--webui-port", str(ui), "--cores", "1", "--memory", self.memory, self.url]
        if self.hidden:
            spark = Path(PLACE, "spark")
            hiding = ["sh", "-c", WORKER, "worker", str(SPARK), str(work), *map(str, self.hidden), "--"]
            command = [*OWN_NAMESPACE, *hiding, *options]
        else:
            spark = SPARK
            command = [str(spark / "bin" / "spark-class"), CLASS, "--work-dir", str(work), *options]
        variables = {"PATH": os.defpath, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark)}
        variables |= {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
        variables |= {"JDK_JAVA_OPTIONS": environment()["JDK_JAVA_OPTIONS"]}
        with (self.folder / f"worker{number}.log").open("wb") as log:
            return subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@contextmanager
def cluster(
    folder: Path, server: S3, memory: str, imports: Path, hidden: Sequence[Path]
) -> Iterator[Cluster]:
    """Run a master with its workers for the length of a block.

    Args:
        folder: The directory for logs and working directories.
        server: The S3 server that all jobs use.
        memory: The memory of each executor.
        imports: An archive of the package's dependencies. It is sent with the package.
        hidden: The directories that workers must not see.
    """
    port, ui = free_ports(2)
    master = ("Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", str(ui))
    package = shutil.make_archive(str(folder / "package" / "auditor"), "zip", ROOT, "auditor")
    sent = ["--py-files", package, "--archives", f"{imports}#environment"]
    with ExitStack() as ending:
        ending.enter_context(daemon(folder, *master))
        wait_for(port, folder / "Master.log")
        url = f"spark://{LOOPBACK}:{port}"
        spark_cluster = Cluster(url, folder, memory, sent, server, hidden if namespaces() else ())
        ending.callback(spark_cluster.kill_workers)
        spark_cluster.start_workers()
        yield spark_cluster


def namespaces() -> bool:
    """Return whether this process may create mount namespaces."""
    mount = [*OWN_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", PLACE]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def packed_environment() -> Path:
    """Return an archive of the package's dependencies except Spark, which workers have. It is built once."""
    name = f"environment-{sys.version_info.major}.{sys.version_info.minor}"
    return (
        kept_directory(name, [ROOT / "pyproject.toml", ROOT / "constraints.txt"], _pack)
        / "environment.tar.gz"
    )


def _pack(target: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    packages = [dependency for dependency in project["dependencies"] if not re.match("pyspark", dependency)]
    venv_dir = target / "environment"
    pip = ["-m", "pip", "--python", str(venv_dir / "bin" / "python"), "install", "-qq", "--no-compile"]
    for command in (
        ["-m", "venv", "--without-pip", str(venv_dir)],
        [*pip, "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"), *packages],
        [
            "-m",
            "venv_pack",
            "-q",
            "--compress-level",
            "1",
            "-p",
            str(venv_dir),
            "-o",
            str(target / "environment.tar.gz"),
        ],
    ):
        subprocess.run([sys.executable, *command], check=True)
    shutil.rmtree(venv_dir)


def s3_classes() -> Path:
    """Return the directory of the jars that Spark needs for ``s3a://``. They are fetched once."""
    return jars_of("s3a", Path(__file__).with_name("pom.xml"))


def lost_executors(output: str) -> int:
    """Count the lost executors that Spark's output reports."""
    return len(re.findall("Lost executor", output))
