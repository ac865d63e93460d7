"""Jobs on a real standalone cluster: executors take package and interpreter as docs/operate.md says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet
import pytest

from tests.corpora.corpora import unpack
from tests.servers.spark import LOOPBACK, SPARK, environment, standalone

ROOT = Path(__file__).parents[2]
LIMIT_S = 600
LEDGERS = 54
MORE = 80_000
"""Ledgers besides: fewer would be read by the driver."""

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


def many(dump: Path, path: Path) -> Path:
    """A dump with so many more ledgers, all like one of it."""
    lines = dump.read_text().splitlines()
    one = next(node for node in map(json.loads, lines) if re.fullmatch(r"/ledgers/L\d{10}", node["path"]))
    more = [{**one, "path": f"/ledgers/L{number:010d}"} for number in range(10**6, 10**6 + MORE)]
    path.write_text("".join(f"{line}\n" for line in [*lines, *map(json.dumps, more)]))
    return path


class Done(NamedTuple):
    """Where two jobs were run, and the directories in which Python was started for them."""

    place: Path
    started: set[Path]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A scan and a collection, submitted one after the other."""
    place = tmp_path_factory.mktemp("standalone")
    corpus = unpack("flat-v1", place / "corpus")
    dump = many(corpus.dump, place / "many.jsonl")
    told = place / "told"
    archive = packed_environment(place / "packed", told)
    submit = place / "submit"
    submit.mkdir()
    package = shutil.make_archive(str(place / "package" / "auditor"), "zip", ROOT, "auditor")
    settings = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": sys.executable,
        "spark.driver.host": LOOPBACK,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    with standalone(place / "spark") as master:
        for job, *arguments in (
            ("scan.py", "--metadata", f"dump://{dump}", "--out", str(place / "run")),
            ("collect.py", "--bookies", str(corpus.bookies), "--out", str(place / "collected")),
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
    return Done(place, {Path(line) for line in told.read_text().splitlines()})


def test_executors_take_interpreter_and_package_from_what_is_sent_along(done: Done) -> None:
    ledgers = pyarrow.parquet.read_table(done.place / "run" / "tables" / "ledgers")
    assert ledgers.num_rows == LEDGERS + MORE
    assert (done.place / "collected" / "collection.json").is_file()
    applications = (done.place / "spark" / "work").glob("app-*")
    executors = {application / "0" for application in applications}
    assert len(executors) == 2
    assert done.started == executors


def test_a_collection_is_made_by_sparks_tasks(done: Done) -> None:
    assert (done.place / "collected" / "collection.json").is_file()
    assert (done.place / "collected" / "availability" / "_SUCCESS").is_file()
