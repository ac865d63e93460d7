"""Check of the machine: Java, Spark, Python, open files, and the run directory. Nothing is written."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from auditor.audit.lock import read_lock_holder
from auditor.errors import JavaMissingError, RunError, SparkError, UsageError
from auditor.model.amounts import size
from auditor.model.options import AuditOptions
from auditor.model.report import EXIT_UNREACHABLE, EXIT_USAGE
from auditor.model.run_facts import MANIFEST, REPORT
from auditor.reports.doctor import MACHINE_TOPIC as HERE
from auditor.reports.doctor import RUN_TOPIC as OUT
from auditor.reports.doctor import AnswerLine, AnswerState
from auditor.runs.directory import RunDirectory
from auditor.sources.file_systems import absolute_path
from auditor.sources.metadata.uri import MetadataUri
from auditor.spark.java import look_for_java

MIN_OPEN_FILES = 4096
"""Limit of open files that is enough for Spark's shuffles together with the databases of a bookie."""

MAX_PYTHON_START_S = 60.0
PYTHON_VARIABLE = "PYSPARK_PYTHON"


def check_machine(options: AuditOptions, starts_spark: bool) -> Iterator[AnswerLine]:
    """Check this machine. Start a Spark session if ``starts_spark`` is True."""
    java = _java_line()
    yield java
    yield _spark_line()
    yield _python_line(options.master)
    if java.state is AnswerState.FAIL:
        yield HERE.not_asked("session", "Spark cannot start without Java")
    elif starts_spark:
        yield _session_line(options)
    else:
        yield HERE.not_asked(
            "session",
            "no Spark session was started",
            "pass --spark to start one with one Python worker; this takes about ten seconds",
        )
    yield _open_files_line()


def _java_line() -> AnswerLine:
    try:
        java = look_for_java()
    except JavaMissingError as error:
        return HERE.fail("Java", str(error), None, EXIT_UNREACHABLE)
    text = f"version {java.version} from {java.origin}: {java.executable}"
    if java.needs_wrapper:
        text += (
            "; a wrapper in the user's cache directory starts it, because Spark requires a "
            "module that this Java lacks"
        )
    return HERE.ok("Java", text)


def _spark_line() -> AnswerLine:
    package_version = version("pyspark")
    spark_home = os.environ.get("SPARK_HOME")
    if spark_home is None:
        return HERE.ok("Spark", f"version {package_version}, from the Python package pyspark")
    spark_versions = [
        spark_core_jar.name.removesuffix(".jar").rpartition("-")[2]
        for spark_core_jar in Path(spark_home).glob("jars/spark-core_*")
    ]
    if spark_versions == [package_version]:
        return HERE.ok("Spark", f"version {package_version} in SPARK_HOME={spark_home}")
    spark_text = f"version {spark_versions[0]}" if spark_versions else "no Spark"
    return HERE.warn(
        "Spark",
        f"SPARK_HOME={spark_home} contains {spark_text}; the Python package pyspark is {package_version}",
        "unset SPARK_HOME, or set it to a Spark installation of the same version as the package",
    )


def _python_line(master: str) -> AnswerLine:
    worker_python = os.environ.get(PYTHON_VARIABLE)
    driver_version = ".".join(map(str, sys.version_info[:3]))
    if worker_python in (None, sys.executable) or shutil.which(worker_python) == sys.executable:
        return HERE.ok("Python", f"{driver_version} for driver and workers: {sys.executable}")
    text = f"workers run {worker_python} ({PYTHON_VARIABLE})"
    remedy = (
        f"unset {PYTHON_VARIABLE}, or set it to a Python that has this program's packages on every executor"
    )
    import_script = "import sys, auditor, pandas, pyarrow; print(*sys.version_info[:2], sep='.')"
    try:
        python_process = subprocess.run(
            [worker_python, "-c", import_script],
            capture_output=True,
            text=True,
            timeout=MAX_PYTHON_START_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        text += f", which cannot be started here: {error}"
        if master.startswith("local"):
            return HERE.fail("Python", text, remedy, EXIT_UNREACHABLE)
        return HERE.warn("Python", f"{text}; executors may have it", remedy)
    if python_process.returncode:
        reason = (python_process.stderr.strip().splitlines() or ["no reason given"])[-1]
        return HERE.warn("Python", f"{text}, which does not work here: {reason}", remedy)
    worker_version = python_process.stdout.strip()
    if worker_version != ".".join(map(str, sys.version_info[:2])):
        return HERE.fail(
            "Python",
            f"{text}, version {worker_version}; the driver runs version {driver_version}",
            remedy,
            EXIT_UNREACHABLE,
        )
    return HERE.ok("Python", f"{text}, version {worker_version}, the same as the driver")


def _session_line(options: AuditOptions) -> AnswerLine:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from auditor.spark.running_session import running_session
    from auditor.spark.session import build_session

    running_spark = running_session()
    try:
        session = build_session(
            options.master, driver_memory=options.driver_memory, user_session=running_spark
        )
        try:
            cores = session.sparkContext.defaultParallelism
            row = session.range(1).repartition(1).mapInArrow(_report_worker_python, "python string").first()
        finally:
            if running_spark is None:  # a session that ran before belongs to others, such as a notebook
                session.stop()
    except (UsageError, SparkError) as error:
        return HERE.fail("session", str(error), "choose another Spark master with --master", error.exit_code)
    except (PySparkException, Py4JError, OSError) as error:
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return HERE.fail(
            "session",
            f"Spark on {options.master} does not work: {first_line}",
            "see the output of Spark above, or choose another Spark master with --master",
            EXIT_UNREACHABLE,
        )
    worker_version = row["python"] if row else "none"
    return HERE.ok(
        "session", f"Spark on {options.master}, {cores} cores; a worker runs Python {worker_version}"
    )


def _report_worker_python(batches: Iterator[object]) -> Iterator[object]:
    """Import the modules that audit tasks need, and yield the Python version of this Spark worker."""
    import platform

    import pyarrow

    import auditor.sources.metadata.spark_source

    assert auditor.sources.metadata.spark_source is not None
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [platform.python_version()]})


def _open_files_line() -> AnswerLine:
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard_limit_text = "unlimited" if hard_limit == resource.RLIM_INFINITY else f"{hard_limit:,}"
    text = f"hard limit {hard_limit_text} (Java raises its own limit up to it); soft limit {soft_limit:,}"
    if resource.RLIM_INFINITY != hard_limit < MIN_OPEN_FILES:
        return HERE.warn("open files", text, f"raise the hard limit to {MIN_OPEN_FILES:,} or more")
    return HERE.ok("open files", text)


MIN_FREE_BYTES = 1 << 30
"""Free space in bytes below which the check warns. Even a run of a small cluster may need more."""


def check_run_directory(out: str, metadata: MetadataUri | None) -> Iterator[AnswerLine]:
    """Check the run directory ``out``. With a metadata URI, also check for another audit of the cluster.

    An audit in progress holds a lock in the parent directory of its run directory.
    """
    try:
        run = RunDirectory(absolute_path(out))
        is_finished, is_unfinished = run.exists(REPORT), run.exists(MANIFEST) or run.exists("tables")
    except (RunError, OSError, pa.ArrowException) as error:
        yield OUT.fail("place", str(error), "choose a directory that this machine can read", EXIT_USAGE)
        return
    if is_finished:
        text = f"{run.path} contains a finished run, which is never overwritten"
        yield OUT.fail("place", text, "choose a new directory", EXIT_USAGE)
    elif is_unfinished:
        text = f"{run.path} contains an unfinished run; the same command resumes it"
        yield OUT.ok("place", text)
    else:
        yield OUT.ok("place", f"{run.path} is unused")
    if "://" in run.path:
        text = "write access not tested: the test would write to the run directory"
        yield OUT.not_asked("rights", text)
        text = "this file system has no locks, so two runs of the cluster can overlap"
        yield OUT.warn(
            "lock",
            text,
            "let the scheduler prevent overlaps: concurrencyPolicy Forbid (Kubernetes), or "
            "max_active_runs=1 (Airflow)",
        )
        return
    if broken_links := [path for path in (Path(run.path), *Path(run.path).parents) if _is_broken_link(path)]:
        text = f"{broken_links[0]} is a symbolic link whose target does not exist"
        yield OUT.fail("rights", text, "choose another directory, or remove the link", EXIT_UNREACHABLE)
        return
    yield from _local_directory_lines(Path(run.path))
    if metadata is not None:
        run_holder = read_lock_holder(metadata, run.path)
        if run_holder is None:
            yield OUT.ok("lock", "no other run of this cluster is already running")
        else:
            text = f"another run of this cluster is already running: {run_holder}"
            yield OUT.fail("lock", text, "wait for it, or end it", EXIT_USAGE)


def _is_broken_link(path: Path) -> bool:
    """Return whether a path is a symbolic link without a target. No directory can be made at such a path."""
    return path.is_symlink() and not path.exists()


def _local_directory_lines(path: Path) -> Iterator[AnswerLine]:
    existing_path = next(parent_path for parent_path in (path, *path.parents) if parent_path.exists())
    if not existing_path.is_dir():
        yield OUT.fail(
            "rights", f"{existing_path} is not a directory", "choose another directory", EXIT_USAGE
        )
        return
    file_system = _file_system_name(existing_path.resolve())
    has_effective_ids = os.access in os.supports_effective_ids
    if not os.access(existing_path, os.W_OK | os.X_OK, effective_ids=has_effective_ids):
        text = f"user {os.geteuid()} may not write to {existing_path} ({file_system})"
        yield OUT.fail("rights", text, "choose another directory, or run as another user", EXIT_USAGE)
        return
    note_text = "" if existing_path == path else "; the audit creates the directories below it"
    yield OUT.ok("rights", f"{existing_path} can be written ({file_system}){note_text}")
    free_bytes = shutil.disk_usage(existing_path).free
    room_state = AnswerState.OK if free_bytes >= MIN_FREE_BYTES else AnswerState.WARN
    remedy = None if room_state is AnswerState.OK else "choose a directory with more room"
    yield AnswerLine("out", "room", room_state, f"{size(free_bytes)} free", remedy)


def _file_system_name(path: Path) -> str:
    """Return the kernel's name of the file system at a path, such as ext4."""
    kind_by_mount = {}
    mounts = Path("/proc/self/mounts")
    for mount_line in mounts.read_text("utf-8", "replace").splitlines() if mounts.exists() else []:
        _, mount_point, file_system_name, *_ = mount_line.split(" ")
        kind_by_mount[mount_point.replace("\\040", " ")] = file_system_name
    mount_points = [
        str(parent_path) for parent_path in (path, *path.parents) if str(parent_path) in kind_by_mount
    ]
    return kind_by_mount[mount_points[0]] if mount_points else "unknown file system"
