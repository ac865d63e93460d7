"""What a finished run says of one ledger, and since when; without Spark."""

from __future__ import annotations

from itertools import islice

from auditor.findings.rows import finding_of
from auditor.model.finding_with_history import FindingWithHistory
from auditor.runs.reader import RunReader
from auditor.runs.standings import standings_of
from auditor.runs.tables import RunTables

SHOWN = 50
"""Findings of one ledger that are told at most: one per check and bookie is the most that there are."""


def findings_for_ledger(run: RunReader, ledger_id: int, scope_id: int = 0) -> tuple[FindingWithHistory, ...]:
    """The findings about a ledger, the worst first; an empty tuple where there are none."""
    import pyarrow.dataset as ds

    here = (ds.field("ledger_id") == ledger_id) & (ds.field("scope_id") == scope_id)
    batches = run.batches("findings", filter=here)
    found = [finding_of(row) for row in islice((row for each in batches for row in each.to_pylist()), SHOWN)]
    standings = standings_of(RunTables(run.path), [finding.fingerprint for finding in found])
    return tuple(FindingWithHistory(finding, standings.get(finding.fingerprint)) for finding in found)
