"""Print the jobs, stages and tasks of Spark for each stage of an audit, as the table of docs/architecture.md.

    python -m benchmarks.spark_stages 120_000 10_000_000

The figures come from Spark's event log. A stage without jobs ran on the driver alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.audited import audit_in_process
from benchmarks.cluster import Cluster
from benchmarks.scale import BOOKIES
from benchmarks.spark_figures import Stage

SMALLEST_SECONDS = 0.05
"""Shortest time of a stage that has a row although it ran no job, in seconds."""


def print_table(ledger_counts: Sequence[int]) -> None:
    """Audit a generated cluster of each size in a process of its own, and print one table for all."""
    audits = [audit_in_process(Cluster(count, BOOKIES)).stages for count in ledger_counts]
    names = list(dict.fromkeys(name for stages in audits for name in stages))
    headings = [f"{count:,} ledgers: jobs / stages / tasks, s" for count in ledger_counts]
    print(f"| stage | {' | '.join(headings)} |")
    print("| --- |" + " --- |" * len(headings))
    for name in names:
        rows = [stages.get(name, Stage(name)) for stages in audits]
        if any(row.jobs or row.seconds >= SMALLEST_SECONDS for row in rows):
            print(f"| {name} | {' | '.join(map(_format_cell, rows))} |")


def _format_cell(stage: Stage) -> str:
    if not stage.jobs:
        return f"driver, {stage.seconds:.1f}"
    return f"{stage.jobs} / {stage.spark_stages} / {stage.tasks}, {stage.seconds:.1f}"


if __name__ == "__main__":
    print_table([int(count) for count in sys.argv[1:]])
