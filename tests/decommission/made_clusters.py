"""Finished runs of small clusters, for a decommissioning rehearsal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.runs.reader import RunReader
from tests.made_runs import made_run
from tests.reports.samples import report
from tests.simulate.small_clusters import BOOKIES, Ledger

CLEAN_FACTS = {
    "keeps_marks": True,
    "marks_listed": True,
    "bookies_listed": {"hidden": None, "unclear": []},
    "holds": {"total": 0, "urgent": 0, "carried": 0, "earlier_run": "before"},
}


def run_of(
    directory: str | Path,
    ledgers: Sequence[Ledger],
    modes: Mapping[str, str | None],
    unread: set[str],
    **tables: Any,
) -> RunReader:
    sample = report()
    run = replace(sample.run, **{"gaps": [], **CLEAN_FACTS, **tables.pop("facts", {})})
    made_run(
        Path(directory), report=replace(sample, run=run), **{**tables_of(ledgers, modes, unread), **tables}
    )
    return reopen_run(directory)


def reopen_run(directory: str | Path) -> RunReader:
    """Return a run that evaluates its holds at its scan time, whenever the test runs."""
    run = RunReader(directory)
    run.holds.now_ms = run.report.run.scan_time
    return run


def tables_of(
    ledgers: Sequence[Ledger], modes: Mapping[str, str | None], unread: set[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a run for these ledgers and their bookies."""
    return {
        "cluster": [
            {"fact": "auditor", "value": "elsewhere:3181"},
            {"fact": "auditor-candidate", "value": "h:3181"},
        ],
        "ledgers": [ledger.metadata() for ledger in ledgers],
        "judged": [row for ledger in ledgers for row in ledger.judged()],
        "bookies": [
            {
                "bookie_id": name, "registered": modes[name], "named": True,
                "read": "unread" if name in unread else "read",
            }
            for name in BOOKIES
        ],
    }  # fmt: skip
