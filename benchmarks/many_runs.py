"""Time to read the history of a directory with many runs: from its index, or from every report.

There are ``BKAUDIT_RUNS`` runs (default 10,000). Each has the report of one audit with 100 sampled
findings. An audit with ``--since last`` reads this history twice.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from auditor.model.finding import Confidence, Finding, Missing, Severity
from auditor.model.history import RunSummary
from auditor.runs.run_index import RUN_INDEX, run_summaries
from benchmarks.measure import Line, alternate
from tests.findings.fingerprint import fingerprint
from tests.reports.samples import report, tally

RUN_COUNT = int(os.environ.get("BKAUDIT_RUNS", "10_000"))
_SAMPLE_COUNT = 100
_REPORT_NAME = "report.json"


def lines() -> Iterator[Line]:
    """Yield lines for reading all reports, reading the index, and reading an index that lacks one run."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        runs = Path(folder)
        size = _write_runs(runs)
        [report_seconds] = alternate(lambda: _read_summaries(runs), rounds=1)
        index_bytes = (runs / RUN_INDEX).stat().st_size
        note = f"reports of {size / 1e3:.0f} kB, an index of {index_bytes / 1e6:.1f} MB"
        yield Line("by every report, the index written", RUN_COUNT, "runs", report_seconds, note=note)
        for stage, name in (("by the index", "run-1"), ("by the index, which lacks one run", "another")):
            (runs / "run-1").rename(runs / name)
            [index_seconds] = alternate(lambda: _read_summaries(runs))
            yield Line(
                stage, RUN_COUNT, "runs", index_seconds, "every report", RUN_COUNT, report_seconds, goal=10
            )


def _read_summaries(runs: Path) -> list[RunSummary]:
    summaries = [summary for _, summary in run_summaries(runs, renew_index=True)]
    assert len(summaries) == RUN_COUNT
    return [summary for summary in summaries if isinstance(summary, RunSummary)]


def _write_runs(runs: Path) -> int:
    """Write the same report into `RUN_COUNT` run directories, and return the number of its bytes."""
    finding_tallies = [tally("below-write-quorum", "warning", _SAMPLE_COUNT)]
    run_report = report(
        finding_tallies, tuple(map(_make_finding, range(_SAMPLE_COUNT))), changes=None, suppressions=[]
    )
    report_value = json.loads(run_report.to_json())
    for number in range(RUN_COUNT):
        report_value["run"]["finished"] = 1_795_000_000_000 + number
        text = json.dumps(report_value, indent=2)
        (runs / f"run-{number}").mkdir()
        (runs / f"run-{number}" / _REPORT_NAME).write_text(text)
    return len(text)


def _make_finding(number: int) -> Finding:
    bookie, entries = f"bk-{number % 97}:3181", number % 500 + 1
    return Finding(
        "below-write-quorum",
        Severity.WARNING,
        Confidence.CONFIRMED,
        0,
        number * 37,
        missing=(Missing(bookie, ((0, 0, entries, 0),), entries),),
        message=f"ledger {number * 37}: {entries} of 900 entries are below the write quorum of 2",
        evidence={"state": "CLOSED", "write_quorum": 2, "ack_quorum": 2, "metadata_version": number % 7},
        fingerprint=fingerprint("below-write-quorum", "one", 0, number * 37, None),
    )
