"""Executors that see none of the driver's files find what one process finds, though one of them is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from auditor.cli import main
from tests.executors.audits import COMPARISON, corpus, differing
from tests.executors.cluster import cluster, lost_executors
from tests.killed.ground import IN_A_NAMESPACE
from tests.killed.victims import large_plans
from tests.servers import s3
from tests.servers.bookies.jars import needs_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = "600m"


def test_executors_that_see_no_file_of_the_drivers_find_the_same_though_one_is_lost(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_java()
    mount = [*IN_A_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    tried = subprocess.run(mount, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"workers cannot have mounts of their own here: {tried.stderr.strip()}")
    with s3.running(tmp_path / "s3") as server, corpus(tmp_path, server) as bookies:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        alone, run = str(tmp_path / "run"), f"s3a://{s3.BUCKET}/run"
        arguments = bookies.arguments(str(bookies.collection), alone)
        with large_plans():
            here = CliRunner().invoke(main, ["audit", *arguments], obj=lambda: spark)
        with cluster(tmp_path / "spark", server, MEMORY) as executors:
            arguments = bookies.arguments(bookies.uploaded, run)
            ended = executors.submit(arguments, at=COMPARISON, deed=lambda: executors.kill_workers(1))
        assert ended.exit_code == here.exit_code, ended.said[-4000:]
        assert lost_executors(ended.said), ended.said[-4000:]
        assert "Traceback" not in ended.said
        assert not differing(alone, run)
