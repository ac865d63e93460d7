"""Rounds of ``bkaudit watch`` compared with audits in separate processes.

Time and memory should not grow from round to round. The demonstration's cluster runs in an embedded
ZooKeeper. ``bkaudit watch`` audits it 50 times in one process with ``--since last``. Then ``bkaudit audit``
audits it five times, into another directory. Every run must have the same findings. Seconds are processor
time of the process tree. Memory is the resident memory of the Python and Java processes after each round.
The growth is the slope of a straight line through all rounds except the first ten. During the first ten
rounds, Java compiles code and its heap fills. ``BKAUDIT_WATCH_ROUNDS`` and ``BKAUDIT_WATCH_APART`` set the
number of rounds and of single audits.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from auditor import open_run
from auditor.demo.sample import ROOT, plant_faults, sample_znodes, unpack_sample
from auditor.embedded.zookeeper import NO_EXPIRY_TICK_MS, EmbeddedZooKeeper
from auditor.model.report import EXIT_FOUND
from auditor.sources.clock import now_ms
from benchmarks.measure import Line
from benchmarks.memory import descendants

ROUNDS = int(os.environ.get("BKAUDIT_WATCH_ROUNDS", "50"))
SINGLE_AUDITS = int(os.environ.get("BKAUDIT_WATCH_APART", "5"))
WARMUP_ROUNDS = 10
_KEPT_RUN_COUNT = 5
_SET_CHILD_SUBREAPER = 36
"""Option of prctl(2) that makes orphaned descendants children of this process, so that their time counts."""
_HOUR_MS = 3_600_000
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BKAUDIT_COMMAND = [
    sys.executable,
    "-c",
    "import sys; from auditor.cli import main; sys.argv[0] = 'bkaudit'; main()",
]


@dataclass(frozen=True)
class RoundCost:
    """The figures after one round.

    ``processor_s`` is the processor time of the process tree so far. ``seconds`` is the elapsed time of the
    audit.
    """

    processor_s: float
    seconds: float
    python_mib: float
    java_mib: float
    finding_count: int


def lines() -> Iterator[Line]:
    """Yield one line that compares a round of the second half with a single audit.

    The note of the line has the growth of time and memory from round to round.
    """
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as directory:
        work_directory, start_ms = Path(directory), now_ms()
        cluster = unpack_sample(work_directory, start_ms)
        plant_faults(cluster)
        with EmbeddedZooKeeper(work_directory / "zookeeper", tick_time_ms=NO_EXPIRY_TICK_MS) as server:
            server.load(sample_znodes(cluster))
            arguments = ["--metadata", f"zk://{server.hosts}{ROOT}", "--bookies", str(cluster.bookies)]
            arguments += [
                "--scan-time",
                str(start_ms + 25 * _HOUR_MS),
                "--index-time",
                str(start_ms + _HOUR_MS),
            ]
            arguments += ["--witness", "no", "--since", "last", "-q"]
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            rounds = list(_run_rounds(work_directory / "watched", arguments))
            audit_costs = [
                _audit_in_process(work_directory / "apart" / f"{number}", arguments)
                for number in range(SINGLE_AUDITS)
            ]
    if (
        len({watched_round.finding_count for watched_round in rounds} | {count for _, count in audit_costs})
        != 1
    ):
        sys.exit(
            f"findings differ: {[watched_round.finding_count for watched_round in rounds]}, {audit_costs}"
        )
    round_costs = np.diff([0.0, *(watched_round.processor_s for watched_round in rounds)])
    half_of_rounds = ROUNDS // 2
    round_numbers = sorted({1, min(WARMUP_ROUNDS, ROUNDS), half_of_rounds, ROUNDS})
    mark_notes = [
        f"round {number}: {round_costs[number - 1]:.1f} s of processor time, "
        f"{rounds[number - 1].seconds:.1f} s by the clock, "
        f"Python {rounds[number - 1].python_mib:.0f}, Java {rounds[number - 1].java_mib:.0f} MiB"
        for number in round_numbers
    ]
    slopes = [
        f"{name} {_fit_round_slope(round_values):+.2f} {unit} a round"
        for name, round_values, unit in (
            ("Python", [watched_round.python_mib for watched_round in rounds], "MiB"),
            ("Java", [watched_round.java_mib for watched_round in rounds], "MiB"),
            ("processor time", list(round_costs), "s"),
        )
    ]
    yield Line(
        f"a round of bkaudit watch, of {ROUNDS}, the second half",
        1,
        "rounds",
        float(median(round_costs[half_of_rounds:])),
        "bkaudit audit --since last, a process each",
        1,
        float(median(cost for cost, _ in audit_costs[1:])),
        most=True,
        java_mib=max(watched_round.java_mib for watched_round in rounds),
        python_mib=max(watched_round.python_mib for watched_round in rounds),
        note=f"{'; '.join(mark_notes)}; slope from round {WARMUP_ROUNDS} on: {', '.join(slopes)}",
    )


def _fit_round_slope(round_values: list[float]) -> float:
    later_values = round_values[min(WARMUP_ROUNDS, len(round_values) - 2) :]
    return float(np.polyfit(range(len(later_values)), later_values, 1)[0])


def _run_rounds(runs: Path, arguments: list[str]) -> Iterator[RoundCost]:
    command = [*_BKAUDIT_COMMAND, "watch", str(runs), *arguments, "--rounds", str(ROUNDS), "--interval", "1s"]
    command += ["--keep", str(_KEPT_RUN_COUNT), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", file=sys.stderr)
            memory = dict(sorted(descendants(process.pid, "VmRSS")))
            run = open_run(line.rstrip().rpartition("; ")[2])
            run_facts = run.report.run
            yield RoundCost(
                _processor_s(process.pid),
                (run_facts.finished - run_facts.started) / 1000,
                _resident_mib(process.pid),
                memory["java"],
                len(run.findings),
            )
    if process.returncode != EXIT_FOUND:
        sys.exit(f"bkaudit watch ended with {process.returncode}")


def _audit_in_process(run: Path, arguments: list[str]) -> tuple[float, int]:
    """Run an audit in its own process; return its processor seconds and its number of findings."""
    children_before, seconds_before = _list_child_pids(), _child_processor_s()
    completed = subprocess.run(
        [*_BKAUDIT_COMMAND, "audit", *arguments, "--out", str(run)], stdout=subprocess.DEVNULL
    )
    if completed.returncode != EXIT_FOUND:
        sys.exit(f"bkaudit audit ended with {completed.returncode}")
    for pid in _list_child_pids() - children_before:
        os.waitpid(pid, 0)  # Java outlives the command that started it
    return _child_processor_s() - seconds_before, len(open_run(run).findings)


def _list_child_pids() -> set[int]:
    return {pid for pid, stat_fields in _read_stats().items() if int(stat_fields[1]) == os.getpid()}


def _resident_mib(pid: int) -> float:
    [line] = [
        status_line
        for status_line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if status_line[:6] == "VmRSS:"
    ]
    return int(line.split()[1]) / 1024


def _processor_s(root_pid: int) -> float:
    """Return the processor seconds of a process and its descendants, including ended children."""
    fields_by_pid = _read_stats()
    tree_pids, child_pids = set[int](), {root_pid}
    while child_pids:
        tree_pids |= child_pids
        child_pids = {
            pid for pid, stat_fields in fields_by_pid.items() if int(stat_fields[1]) in child_pids
        } - tree_pids
    # Counted from the state: utime and stime are fields 12 and 13, those of ended children 14 and 15.
    return (
        sum(
            int(processor_ticks)
            for pid in tree_pids & fields_by_pid.keys()
            for processor_ticks in fields_by_pid[pid][11:15]
        )
        / _TICKS_PER_SECOND
    )


def _read_stats() -> dict[int, list[str]]:
    """Return the fields of ``/proc/PID/stat`` by process id. The first field is the state."""
    fields_by_pid: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields_by_pid[int(stat.parent.name)] = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # the process has ended
    return fields_by_pid


def _child_processor_s() -> float:
    resource_usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return resource_usage.ru_utime + resource_usage.ru_stime
