"""An audit of synthetic ledgers, three replicas each, with its stages' times and its peak memory.

    python -m benchmarks.audit [LEDGERS]     default 100,000

The answers are known: the benchmark fails if the audit does not give exactly the planted ones.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from auditor import Audit, AuditOptions, open_run
from benchmarks.memory import PeakMemory
from benchmarks.synthetic_cluster import write_cluster


class Stopwatch:
    """A progress that times each stage."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float]] = []

    def stage(self, name: str, total: int | None = None) -> None:
        self.stages.append((name, time.perf_counter()))

    def expect(self, more: int) -> None:
        pass

    def advance(self, done: int) -> None:
        pass


def main(ledgers: int) -> None:
    work = Path(tempfile.mkdtemp(prefix="bkaudit-benchmark-"))
    try:
        began = time.perf_counter()
        planted = write_cluster(work, ledgers)
        print(
            f"{ledgers:,} ledgers, {ledgers * 3:,} index files written in {time.perf_counter() - began:.1f} s"
        )
        watch = Stopwatch()
        with PeakMemory() as memory:
            audit = Audit(
                f"dump://{work}/metadata.jsonl",
                [f"{work}/bookies"],
                f"{work}/run",
                AuditOptions(master="local[2]"),
            )
            report = audit.run(progress=watch)
        watch.stage("end")
        found = {
            (finding.id, finding.ledger_id, finding.bookie_id) for finding in open_run(f"{work}/run").findings
        }
        expected = (
            {("below-ack-quorum", ledger, None) for ledger in planted.one_copy_missing}
            | {("entry-lost", ledger, None) for ledger in planted.entry_lost}
            | {("orphan-ledger", ledger, bookie) for bookie, ledger in planted.orphans}
        )
        if found != expected:
            sys.exit(f"wrong answers: {len(expected - found)} not found, {len(found - expected)} not planted")
        print(f"verdict {report.verdict}, counts {report.counts}: as planted")
        for (name, start), (_, end) in zip(watch.stages, watch.stages[1:], strict=False):
            print(f"{name:<16} {end - start:8.2f} s")
        total = watch.stages[-1][1] - watch.stages[0][1]
        print(f"{'all':<16} {total:8.2f} s   {ledgers / total:,.0f} ledgers/s")
        for name, peak in sorted(memory.peaks.items()):
            print(f"peak memory of {name}: {peak:,.0f} MiB")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
