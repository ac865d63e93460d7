"""An S3 server for tests: moto's, on loopback, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from tests.servers.spark import LOOPBACK, wait_for
from tests.servers.zookeeper import free_ports

BUCKET = "audits"


@dataclass(frozen=True)
class S3:
    """A running server with one bucket; keys of any name are let in."""

    port: int

    @property
    def environment(self) -> dict[str, str]:
        """What pyarrow, and so the driver and every task, must know of it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self.port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "made-up",
            "AWS_REGION": "us-east-1",
        }

    @property
    def settings(self) -> dict[str, str]:
        """What Spark must know of it, for its own classes and for what tasks are started with."""
        own = {
            "spark.hadoop.fs.s3a.endpoint": f"http://{LOOPBACK}:{self.port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        return own | {f"spark.executorEnv.{name}": value for name, value in self.environment.items()}

    def files(self) -> fs.FileSystem:
        """Its file system, where it is no matter what the environment says."""
        return fs.S3FileSystem(
            access_key="key",
            secret_key="made-up",
            region="us-east-1",
            scheme="http",
            endpoint_override=f"{LOOPBACK}:{self.port}",
            allow_bucket_creation=True,
        )

    def upload(self, directory: Path, path: str) -> str:
        """Copy a directory there; returns its URI as Spark writes it."""
        fs.copy_files(str(directory), f"{BUCKET}/{path}", destination_filesystem=self.files())
        return f"s3a://{BUCKET}/{path}"


@contextmanager
def running(folder: Path) -> Iterator[S3]:
    """The server for the length of a block; its log lies in ``folder``."""
    [port] = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(port, folder / "s3.log")
        server = S3(port)
        server.files().create_dir(BUCKET)
        yield server
    finally:
        process.terminate()
        process.wait()
