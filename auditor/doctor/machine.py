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

from auditor.audit.lock import holder
from auditor.errors import JavaMissingError, RunError, SparkError, UsageError
from auditor.model.amounts import size
from auditor.model.options import AuditOptions
from auditor.model.report import UNREACHABLE, USAGE
from auditor.model.run_facts import MANIFEST, REPORT
from auditor.reports.doctor import MACHINE as HERE
from auditor.reports.doctor import RUN_DIRECTORY as OUT
from auditor.reports.doctor import Line, State
from auditor.runs.directory import RunDirectory
from auditor.sources.file_systems import absolute
from auditor.sources.metadata.uri import MetadataUri
from auditor.spark.java import look_for_java

MIN_OPEN_FILES = 4096
"""Limit of open files that is enough for Spark's shuffles and a bookie's databases at the same time."""

START_LIMIT_S = 60.0
PYTHON_NAME = "PYSPARK_PYTHON"


def machine(options: AuditOptions, start_spark: bool) -> Iterator[Line]:
    """Check this machine. A Spark session is started only if ``start_spark``."""
    java = _java()
    yield java
    yield _spark()
    yield _python(options.master)
    if java.state is State.FAIL:
        yield HERE.not_asked("session", "Spark cannot start without Java")
    elif start_spark:
        yield _session(options)
    else:
        yield HERE.not_asked(
            "session",
            "no Spark session was started",
            "--spark starts one, with one Python worker; it takes some ten seconds",
        )
    yield _files()


def _java() -> Line:
    try:
        java = look_for_java()
    except JavaMissingError as error:
        return HERE.fail("Java", str(error), None, UNREACHABLE)
    text = f"version {java.version} from {java.origin}: {java.executable}"
    if java.wrapped:
        text += (
            "; a wrapper in the user's cache directory starts it, because Spark requires a "
            "module that this Java lacks"
        )
    return HERE.ok("Java", text)


def _spark() -> Line:
    installed = version("pyspark")
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return HERE.ok("Spark", f"version {installed}, as the Python package pyspark")
    versions = [
        jar.name.removesuffix(".jar").rpartition("-")[2] for jar in Path(home).glob("jars/spark-core_*")
    ]
    if versions == [installed]:
        return HERE.ok("Spark", f"version {installed} in SPARK_HOME={home}")
    content = f"version {versions[0]}" if versions else "no Spark"
    return HERE.warn(
        "Spark",
        f"SPARK_HOME={home} has {content}, and the Python package pyspark is {installed}",
        "unset SPARK_HOME, or set it to a Spark of the package's version",
    )


def _python(master: str) -> Line:
    program = os.environ.get(PYTHON_NAME)
    driver_version = ".".join(map(str, sys.version_info[:3]))
    if program in (None, sys.executable) or shutil.which(program) == sys.executable:
        return HERE.ok("Python", f"{driver_version} for driver and workers: {sys.executable}")
    text = f"workers run {PYTHON_NAME}={program}"
    remedy = (
        f"unset {PYTHON_NAME}, or set it to the Python of an environment with this program's "
        "packages on every executor"
    )
    script = "import sys, auditor, pandas, pyarrow; print(*sys.version_info[:2], sep='.')"
    try:
        outcome = subprocess.run(
            [program, "-c", script], capture_output=True, text=True, timeout=START_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        text += f", which cannot be started here: {error}"
        if master.startswith("local"):
            return HERE.fail("Python", text, remedy, UNREACHABLE)
        return HERE.warn("Python", f"{text}; executors may have it", remedy)
    if outcome.returncode:
        reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
        return HERE.warn("Python", f"{text}, which does not work here: {reason}", remedy)
    worker_version = outcome.stdout.strip()
    if worker_version != ".".join(map(str, sys.version_info[:2])):
        return HERE.fail(
            "Python",
            f"{text}, which is {worker_version}; the driver has {driver_version}",
            remedy,
            UNREACHABLE,
        )
    return HERE.ok("Python", f"{text}, {worker_version} as on the driver")


def _session(options: AuditOptions) -> Line:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from auditor.spark.running_session import running_session
    from auditor.spark.session import build_session

    running = running_session()
    try:
        session = build_session(options.master, driver_memory=options.driver_memory, user_session=running)
        try:
            cores = session.sparkContext.defaultParallelism
            row = session.range(1).repartition(1).mapInArrow(_worker, "python string").first()
        finally:
            if running is None:  # else it is somebody's, a notebook's say
                session.stop()
    except (UsageError, SparkError) as error:
        return HERE.fail("session", str(error), "--master chooses another Spark master", error.exit_code)
    except (PySparkException, Py4JError, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return HERE.fail(
            "session",
            f"Spark on {options.master} does not work: {first}",
            "see the lines of Spark above; --master chooses another Spark master",
            UNREACHABLE,
        )
    worker = row["python"] if row else "none"
    return HERE.ok("session", f"Spark on {options.master}, {cores} cores; a worker runs Python {worker}")


def _worker(batches: Iterator[object]) -> Iterator[object]:
    """Check in a Python worker that the modules of an audit's tasks can be imported."""
    import platform

    import pyarrow

    import auditor.sources.metadata.spark_source

    assert auditor.sources.metadata.spark_source is not None
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [platform.python_version()]})


def _files() -> Line:
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = "any number" if hard_limit == resource.RLIM_INFINITY else f"{hard_limit:,}"
    text = f"hard limit {limit}, up to which Java raises its own limit; soft limit {soft_limit:,}"
    if resource.RLIM_INFINITY != hard_limit < MIN_OPEN_FILES:
        return HERE.warn("open files", text, f"raise the hard limit to {MIN_OPEN_FILES:,} or more")
    return HERE.ok("open files", text)


MIN_FREE_BYTES = 1 << 30
"""Free space in bytes below which the check warns. Even a run of a small cluster may need more."""


def look_at_out(out: str, metadata: MetadataUri | None) -> Iterator[Line]:
    """Check the run directory ``out``. With a metadata URI, also check whether the cluster is being audited.

    Another audit of the same cluster holds a lock beside the run directory.
    """
    try:
        run = RunDirectory(absolute(out))
        is_finished, is_begun = run.exists(REPORT), run.exists(MANIFEST) or run.exists("tables")
    except (RunError, OSError, pa.ArrowException) as error:
        yield OUT.fail("place", str(error), "choose a directory that this machine can read", USAGE)
        return
    if is_finished:
        text = f"{run.path} contains a finished run, which is never overwritten"
        yield OUT.fail("place", text, "choose a new directory", USAGE)
    elif is_begun:
        text = f"{run.path} contains an unfinished run; the same command resumes it"
        yield OUT.ok("place", text)
    else:
        yield OUT.ok("place", f"{run.path} is unused")
    if "://" in run.path:
        text = "write access not tested: the test would write to the run directory"
        yield OUT.not_asked("rights", text)
        text = "no lock keeps overlapping runs apart on this file system"
        yield OUT.warn(
            "lock",
            text,
            "let the scheduler prevent overlaps: concurrencyPolicy Forbid (Kubernetes), or "
            "max_active_runs=1 (Airflow)",
        )
        return
    if broken_links := [path for path in (Path(run.path), *Path(run.path).parents) if _is_broken_link(path)]:
        text = f"{broken_links[0]} is a symbolic link whose target does not exist"
        yield OUT.fail("rights", text, "choose another directory, or remove the link", UNREACHABLE)
        return
    yield from _local_lines(Path(run.path))
    if metadata is not None:
        run_holder = holder(metadata, run.path)
        if run_holder is None:
            yield OUT.ok("lock", "no other run of this cluster is already running")
        else:
            text = f"another run of this cluster is already running: {run_holder}"
            yield OUT.fail("lock", text, "wait for it, or end it", USAGE)


def _is_broken_link(path: Path) -> bool:
    """Return whether a path is a symbolic link without a target. No directory can be made at such a path."""
    return path.is_symlink() and not path.exists()


def _local_lines(path: Path) -> Iterator[Line]:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if not existing.is_dir():
        yield OUT.fail("rights", f"{existing} is not a directory", "choose another directory", USAGE)
        return
    system = _file_system(existing.resolve())
    has_effective_ids = os.access in os.supports_effective_ids
    if not os.access(existing, os.W_OK | os.X_OK, effective_ids=has_effective_ids):
        text = f"user {os.geteuid()} may not write to {existing} ({system})"
        yield OUT.fail("rights", text, "choose another directory, or run as another user", USAGE)
        return
    note = "" if existing == path else "; the audit creates the directories below it"
    yield OUT.ok("rights", f"{existing} can be written ({system}){note}")
    free = shutil.disk_usage(existing).free
    state = State.OK if free >= MIN_FREE_BYTES else State.WARN
    remedy = None if state is State.OK else "choose a directory with more room"
    yield Line("out", "room", state, f"{size(free)} free", remedy)


def _file_system(path: Path) -> str:
    """Return the kernel's name for the kind of file system at a path."""
    kinds = {}
    mounts = Path("/proc/self/mounts")
    for line in mounts.read_text("utf-8", "replace").splitlines() if mounts.exists() else []:
        _, where, kind, *_ = line.split(" ")
        kinds[where.replace("\\040", " ")] = kind
    mount_points = [str(parent) for parent in (path, *path.parents) if str(parent) in kinds]
    return kinds[mount_points[0]] if mount_points else "file system not known"
