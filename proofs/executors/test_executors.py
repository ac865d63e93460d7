"""Jobs on a standalone cluster whose executors have only the files sent to them, and share an S3 server."""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from auditor.cli import main
from proofs.executors.audits import corpus, find_differences
from proofs.executors.cluster import ROOT, WORKERS, Cluster, cluster
from tests.corpora.corpora import unpack
from tests.servers import s3
from tests.servers.bookies.jars import needs_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = "600m"
PYTHON = """#!/bin/sh
echo "$0" >> started
PYTHONPATH="{packages}:$PYTHONPATH" exec {python} -S "$@"
"""
"""A stand-in for the packed environment. Without -S it would find the package in the tests' environment."""


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a running cluster. If the tests run as root, executors cannot see the package itself."""
    needs_java()
    folder = tmp_path_factory.mktemp("executors")
    with (
        s3.running(folder / "s3") as server,
        cluster(folder, server, MEMORY, imports(folder), [ROOT / "auditor"]) as spark_cluster,
    ):
        yield spark_cluster


def imports(folder: Path) -> Path:
    """Write an archive like that of venv-pack, whose bin/python finds all packages except this one."""
    python = folder / "bin" / "python"
    python.parent.mkdir()
    packages = os.pathsep.join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    python.write_text(PYTHON.format(packages=packages, python=sys.executable))
    python.chmod(0o755)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(folder / "bin", "bin")
    return folder / "environment.tar.gz"


def test_audit_on_two_executors_equals_an_audit_of_one_process(
    executors: Cluster, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in executors.server.environment.items():
        monkeypatch.setenv(name, value)
    single_run, run = str(executors.folder / "run"), f"s3a://{s3.BUCKET}/run"
    with corpus(executors.folder, executors.server) as bookies:
        ended = executors.submit(bookies.arguments(str(bookies.collection), run))
        arguments = ["audit", *bookies.arguments(str(bookies.collection), single_run)]
        result = CliRunner().invoke(main, arguments, obj=lambda: spark)
    assert ended.exit_code == result.exit_code == 1, ended.said[-4000:] + result.output
    assert "Traceback" not in ended.said
    assert find_differences(single_run, run) == []
    started = executors.folder.glob("work*/app-*/*/started")
    assert len({path.relative_to(executors.folder).parts[0] for path in started}) == WORKERS


def test_collect_job_on_a_cluster_writes_a_collection(executors: Cluster) -> None:
    bookies = unpack("flat-v1", executors.folder / "bookies").bookies
    out = executors.folder / "made"
    arguments = ["--bookies", str(bookies), "--out", str(out)]
    ended = executors.submit(arguments, job=ROOT / "jobs" / "collect.py")
    assert ended.exit_code == 0, ended.said[-4000:]
    assert (out / "collection.json").is_file()
    assert (out / "availability" / "_SUCCESS").is_file()
