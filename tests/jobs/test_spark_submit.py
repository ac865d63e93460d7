"""The jobs run under a real spark-submit, with the package shipped as a zip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.notebook.run import open_run
from tests.corpora.corpora import unpack
from tests.servers.spark import SPARK, environment

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
LIMIT_S = 600
NOISE = 15
"""Lines that Java and spark-submit write before the job runs, and until Spark knows its level."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    base = tmp_path_factory.mktemp("package") / "auditor"
    return shutil.make_archive(str(base), "zip", ROOT, "auditor")


def submit(job: str, package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(SPARK / "bin" / "spark-submit"), "--master", "local[2]", "--py-files", package]
    # No --properties-file: the job sets the level of Spark's log by itself.
    command += ["--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.ui.enabled=false"]
    command += [str(ROOT / "jobs" / job), *arguments]
    values = {**environment(), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, env=values, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_submitted_audit_writes_a_report_and_ends_with_exit_code_1(tmp_path: Path, package: str) -> None:
    corpus = unpack("flat-v1", tmp_path / "corpus")
    outcome = submit(
        "audit.py",
        package,
        "--metadata",
        f"dump://{corpus.dump}",
        "--bookies",
        str(corpus.bookies),
        "--out",
        str(tmp_path / "run"),
    )
    assert outcome.returncode == 1, outcome.stderr
    assert "NOT HEALTHY" in outcome.stdout
    assert open_run(tmp_path / "run").report.counts["entry-lost"]
    # The report and little else: hundreds of lines of INFO, unless the job sets Spark's level.
    noise = [line for line in outcome.stderr.splitlines() if line.strip()]
    assert len(noise) <= NOISE, "\n".join(noise)


def test_wrong_usage_ends_before_spark_starts(tmp_path: Path, package: str) -> None:
    outcome = submit("scan.py", package, "--metadata", "nonsense", "--out", str(tmp_path / "run"))
    assert outcome.returncode == 2, outcome.stderr
    # spark-submit lets both streams of a Python program out on its own standard output.
    assert "bkaudit: 'nonsense' is not a metadata URI" in outcome.stdout
    assert "SparkContext" not in outcome.stderr
