"""What comes before the first ledger: commands that need no Spark, Spark's session, the least whole audit.

Every command runs in a process of its own, on a cluster of 1,000 ledgers. Commands without Spark are measured
by processor time, which is steady beside other work on the machine; those with Spark by the clock, for Java
does much at once.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from auditor import open_run
from auditor.model.exit_code import FOUND
from benchmarks.cluster import Cluster
from benchmarks.cluster_disks import write_index_files
from benchmarks.cluster_store import write_dump
from benchmarks.measure import Line, alternate

LEDGERS = 1_000
_COMMAND = "import sys; from auditor.cli import main; sys.argv[0] = 'bkaudit'; main()"
_LOADED = "import atexit, sys; atexit.register(lambda: print('loaded:', *sys.modules, file=sys.stderr)); "
_PROTOBUF = "click, google.protobuf"
_SESSION = "from auditor.session import build_session; build_session('local[2]')"
_PLAIN_SESSION = "from pyspark.sql import SparkSession; SparkSession.builder.master('local[2]').getOrCreate()"


def lines() -> Iterator[Line]:
    """The quick commands, a session, a first job, a whole audit, and what is read of its run."""
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
        yield _session()
        line, run = _audit(cluster, dump, work)
        yield line
        yield _quick("report", run, imports="click, pyarrow.parquet")
        yield _quick("diff", run, run, imports="click, numpy, pyarrow.parquet")


def _quick(*arguments: str, imports: str, most: float | None = None) -> Line:
    """One command against the imports that it cannot do without."""
    name = " ".join(["bkaudit", *(word for word in arguments[:2] if "/" not in word)])
    loaded = set(
        _python(_COMMAND.replace("; ", f"; {_LOADED}", 1), *arguments).rpartition("loaded:")[2].split()
    )
    if "pyspark" in loaded:
        sys.exit(f"{name} imports pyspark")
    ours, theirs = alternate(
        lambda: _python(_COMMAND, *arguments),
        lambda: _python(f"import {imports}"),
        rounds=5,
        clock=_processor_s,
    )
    heavy = [module for module in ("numpy", "pyarrow", "pandas") if module in loaded]
    note = f"{ours * 1000:.0f} ms of processor time; no pyspark; {', '.join(heavy) or 'nothing heavy'}"
    rival = f"import {imports}"
    return Line(name, 1, "starts", ours, rival, 1, theirs, goal=most, target=most, most=True, note=note)


def _session() -> Line:
    """A session with our settings beside PySpark's own."""
    ours, plain, job = alternate(
        lambda: _python(_SESSION),
        lambda: _python(_PLAIN_SESSION),
        lambda: _python(f"{_SESSION}.range(1).count()"),
    )
    note = f"{ours:.1f} s; with a first job {job:.1f} s"
    return Line("session", 1, "starts", ours, "PySpark's own", 1, plain, most=True, note=note)


def _audit(cluster: Cluster, dump: str, work: Path) -> tuple[Line, str]:
    """A whole audit from nothing beside the session that it starts, and the run that it leaves."""
    runs = (str(work / f"audit{number}" / "run") for number in count())  # apart, so that none is compared
    made: list[str] = []

    def audit() -> None:
        made.append(next(runs))
        sources = ("--metadata", dump, "--bookies", str(work / "bookies"))
        _python(_COMMAND, "audit", *sources, "--out", made[-1], answer=FOUND)

    ours, session = alternate(audit, lambda: _python(_SESSION))
    found = {(finding.id, finding.ledger_id, finding.bookie_id) for finding in open_run(made[-1]).findings}
    if found != cluster.findings():
        sys.exit(
            f"wrong answers: {len(found)} findings, {len(found - cluster.findings())} of them not planted"
        )
    name = f"audit of {cluster.ledgers:,} ledgers from a cold start"
    note = f"{ours:.1f} s, of which {session:.1f} s for the session"
    return Line(name, 1, "audits", ours, "the session alone", 1, session, most=True, note=note), made[-1]


def _python(program: str, *arguments: str, answer: int = 0) -> str:
    """Run a program in a new interpreter; what it says on standard error."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != answer:
        sys.exit(f"{program} {' '.join(arguments)}: {done.stderr}")
    return done.stderr


def _processor_s() -> float:
    """Seconds of processor time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
