"""What an audit needs of the machine that it is started on: Java, Spark, Python, open files."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from auditor.errors import JavaMissingError, SparkError, UsageError
from auditor.model.options import AuditOptions
from auditor.model.report import UNREACHABLE
from auditor.reports.doctor import Line, State
from auditor.spark.java import look_for_java

FILES = 4096
"""Open files that are enough for Spark's shuffles and for a bookie's databases side by side."""

START_LIMIT_S = 60.0
PYTHON = "PYSPARK_PYTHON"


def machine(options: AuditOptions, start_spark: bool) -> Iterator[Line]:
    """Look at this machine; a Spark session is started only if ``start_spark``."""
    java = _java()
    yield java
    yield _spark()
    yield _python(options.master)
    if java.state is State.FAIL:
        yield Line("here", "session", State.NOT_ASKED, "Spark cannot start without Java")
    elif start_spark:
        yield _session(options)
    else:
        yield Line(
            "here",
            "session",
            State.NOT_ASKED,
            "no Spark session was started",
            "--spark starts one, with one Python worker; it takes some ten seconds",
        )
    yield _files()


def _java() -> Line:
    try:
        java = look_for_java()
    except JavaMissingError as error:
        return Line("here", "Java", State.FAIL, str(error), None, UNREACHABLE)
    said = f"version {java.version} from {java.origin}: {java.executable}"
    if java.wrapped:
        said += (
            "; a wrapper in the user's cache directory starts it, because Spark asks for a module it lacks"
        )
    return Line("here", "Java", State.OK, said)


def _spark() -> Line:
    installed = version("pyspark")
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return Line("here", "Spark", State.OK, f"version {installed}, as the Python package pyspark")
    found = [jar.name.removesuffix(".jar").rpartition("-")[2] for jar in Path(home).glob("jars/spark-core_*")]
    if found == [installed]:
        return Line("here", "Spark", State.OK, f"version {installed} in SPARK_HOME={home}")
    there = f"version {found[0]}" if found else "no Spark"
    return Line(
        "here",
        "Spark",
        State.WARN,
        f"SPARK_HOME={home} has {there}, and the Python package pyspark is {installed}",
        "unset SPARK_HOME, or let it name a Spark of the package's version",
    )


def _python(master: str) -> Line:
    named = os.environ.get(PYTHON)
    mine = ".".join(map(str, sys.version_info[:3]))
    if named in (None, sys.executable) or shutil.which(named) == sys.executable:
        return Line("here", "Python", State.OK, f"{mine} for driver and workers: {sys.executable}")
    said = f"workers run {PYTHON}={named}"
    way_out = f"unset {PYTHON}, or let it name an environment with this program's packages on every executor"
    script = "import sys, auditor, pandas, pyarrow; print(*sys.version_info[:2], sep='.')"
    try:
        outcome = subprocess.run(
            [named, "-c", script], capture_output=True, text=True, timeout=START_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        said += f", which cannot be started here: {error}"
        if master.startswith("local"):
            return Line("here", "Python", State.FAIL, said, way_out, UNREACHABLE)
        return Line("here", "Python", State.WARN, f"{said}; executors may have it", way_out)
    if outcome.returncode:
        reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
        return Line("here", "Python", State.WARN, f"{said}, which does not do here: {reason}", way_out)
    theirs = outcome.stdout.strip()
    if theirs != ".".join(map(str, sys.version_info[:2])):
        return Line(
            "here", "Python", State.FAIL, f"{said}, which is {theirs}; this is {mine}", way_out, UNREACHABLE
        )
    return Line("here", "Python", State.OK, f"{said}, {theirs} as this one")


def _session(options: AuditOptions) -> Line:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from auditor.spark.session import build_session

    running = SparkSession.getActiveSession()
    try:
        session = build_session(options.master, driver_memory=options.driver_memory, given=running)
        try:
            cores = session.sparkContext.defaultParallelism
            told = session.range(1).repartition(1).mapInArrow(_worker, "python string").first()
        finally:
            if running is None:  # else it is somebody's, a notebook's say
                session.stop()
    except (UsageError, SparkError) as error:
        return Line(
            "here", "session", State.FAIL, str(error), "--master chooses another one", error.exit_code
        )
    except (PySparkException, Py4JError, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Line(
            "here",
            "session",
            State.FAIL,
            f"Spark on {options.master} does not work: {first}",
            "the lines that Spark wrote above say more; --master chooses another one",
            UNREACHABLE,
        )
    worker = told["python"] if told else "none"
    return Line(
        "here",
        "session",
        State.OK,
        f"Spark on {options.master}, {cores} cores; a worker runs Python {worker}",
    )


def _worker(batches: Iterator[object]) -> Iterator[object]:
    """Runs in a Python worker: what an audit's tasks import can be imported there."""
    import platform

    import pyarrow

    import auditor.sources.metadata.spark_source

    assert auditor.sources.metadata.spark_source is not None
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [platform.python_version()]})


def _files() -> Line:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "any number" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    said = f"{most} may be open where a program asks for it, as Java does; {soft:,} otherwise"
    if resource.RLIM_INFINITY != hard < FILES:
        return Line("here", "open files", State.WARN, said, f"raise the hard limit to {FILES:,} or more")
    return Line("here", "open files", State.OK, said)
