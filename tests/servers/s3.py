"""An S3 server for tests: moto's, on loopback, in a separate process."""

from __future__ import annotations

import json
import os
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
    """A running server with one bucket. It accepts access keys of any name."""

    port: int

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which pyarrow, in the driver and in every task, reaches the server."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self.port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "made-up",
            "AWS_REGION": "us-east-1",
        }

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings with which Spark's own classes and its tasks reach the server."""
        own = {
            "spark.hadoop.fs.s3a.endpoint": f"http://{LOOPBACK}:{self.port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        return own | {f"spark.executorEnv.{name}": value for name, value in self.environment.items()}

    def files(self) -> fs.FileSystem:
        """Return its file system, independent of the environment of this process."""
        return file_system(self.environment)

    def upload(self, directory: Path, path: str, files: fs.FileSystem | None = None) -> str:
        """Copy a directory to the bucket, and return its URI as Spark writes it."""
        fs.copy_files(str(directory), f"{BUCKET}/{path}", destination_filesystem=files or self.files())
        return f"s3a://{BUCKET}/{path}"


def file_system(environment: dict[str, str]) -> fs.FileSystem:
    """Return the file system that a process with these variables would use."""
    return fs.S3FileSystem(
        access_key=environment["AWS_ACCESS_KEY_ID"],
        secret_key=environment["AWS_SECRET_ACCESS_KEY"],
        region=environment["AWS_REGION"],
        scheme="http",
        endpoint_override=environment["AWS_ENDPOINT_URL"].removeprefix("http://"),
        allow_bucket_creation=True,
    )


@contextmanager
def running(folder: Path) -> Iterator[S3]:
    """Yield the server for the length of a block. Its log is in ``folder``."""
    with _running_server(folder, {}) as server:
        server.files().create_dir(BUCKET)
        yield server


RIGHTS = {
    "writer": ["s3:*"],
    "reader": ["s3:ListBucket", "s3:GetObject"],
    "lister": ["s3:ListBucket"],
    "stranger": ["ec2:RunInstances"],
}
"""Users of `running_with_users`, and what they may do."""


@contextmanager
def running_with_users(folder: Path) -> Iterator[tuple[S3, dict[str, dict[str, str]]]]:
    """Yield a server that authenticates its clients, and the environment of each user of `RIGHTS` by name."""
    import boto3

    setup = 1 + 3 * len(RIGHTS)  # requests before it begins to ask
    with _running_server(folder, {"INITIAL_NO_AUTH_ACTION_COUNT": str(setup)}) as server:
        options = {"endpoint_url": server.environment["AWS_ENDPOINT_URL"], "region_name": "us-east-1"}
        options |= {"aws_access_key_id": "setup", "aws_secret_access_key": "setup"}
        boto3.client("s3", **options).create_bucket(Bucket=BUCKET)
        iam = boto3.client("iam", **options)
        users = {}
        for name, actions in RIGHTS.items():
            statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=policy)
            key = iam.create_access_key(UserName=name)["AccessKey"]
            users[name] = server.environment | {
                "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
            }
        yield server, users


@contextmanager
def _running_server(folder: Path, environment: dict[str, str]) -> Iterator[S3]:
    [port] = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | environment
        )
    try:
        wait_for(port, folder / "s3.log")
        yield S3(port)
    finally:
        process.terminate()
        process.wait()
