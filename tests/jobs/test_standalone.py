"""Jobs on a real standalone cluster: executors take package and interpreter as docs/operate.md says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pyarrow.parquet

from tests.corpora.corpora import unpack
from tests.servers.spark import LOOPBACK, SPARK, environment, standalone

ROOT = Path(__file__).parents[2]
LIMIT_S = 600
LEDGERS = 54

PYTHON = """#!/bin/sh
echo "$PWD" >> {told}
PYTHONPATH="$PYTHONPATH:{packages}" exec {python} -S "$@"
"""
"""Stands for a packed environment: without -S the package would be found where the tests run anyway."""


def packed_environment(folder: Path, told: Path) -> Path:
    """An archive with bin/python in it, as venv-pack makes one, which has all packages but this one."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    packages = os.pathsep.join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    python.write_text(PYTHON.format(told=told, packages=packages, python=sys.executable))
    python.chmod(0o755)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(folder / "bin", "bin")
    return folder / "environment.tar.gz"


def test_executors_take_interpreter_and_package_from_what_is_sent_along(tmp_path: Path) -> None:
    corpus = unpack("flat-v1", tmp_path / "corpus")
    told = tmp_path / "told"
    archive = packed_environment(tmp_path / "packed", told)
    submit = tmp_path / "submit"
    submit.mkdir()
    package = shutil.make_archive(str(tmp_path / "package" / "auditor"), "zip", ROOT, "auditor")
    settings = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": sys.executable,
        "spark.driver.host": LOOPBACK,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    with standalone(tmp_path / "spark") as master:
        for job, *arguments in (
            ("scan.py", "--metadata", f"dump://{corpus.dump}", "--out", str(tmp_path / "run")),
            ("collect.py", "--bookies", str(corpus.bookies), "--out", str(tmp_path / "collected")),
        ):
            command = [str(SPARK / "bin" / "spark-submit"), "--master", master]
            command += ["--archives", f"{archive}#environment", "--py-files", package]
            command += ["--properties-file", str(ROOT / "conf" / "spark-defaults.conf")]
            for name, value in settings.items():
                command += ["--conf", f"{name}={value}"]
            outcome = subprocess.run(
                [*command, str(ROOT / "jobs" / job), *arguments],
                cwd=submit,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            assert outcome.returncode == 0, outcome.stdout[-3000:]
    ledgers = pyarrow.parquet.read_table(tmp_path / "run" / "tables" / "ledgers")
    assert ledgers.num_rows == LEDGERS
    assert (tmp_path / "collected" / "collection.json").is_file()
    applications = (tmp_path / "spark" / "work").glob("app-*")
    executors = {application / "0" for application in applications}
    assert len(executors) == 2
    assert {Path(line) for line in told.read_text().splitlines()} == executors
