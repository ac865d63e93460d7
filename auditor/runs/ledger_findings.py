"""What a finished run says of one ledger, and since when; without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from auditor.findings.rows import finding_of
from auditor.model.report import Report
from auditor.model.standing import Standing, Standings, no_standing
from auditor.model.told import Told
from auditor.runs.reader import RunReader
from auditor.runs.tables import RunTables

SHOWN = 50
"""Findings of one ledger that are told at most: one a check and bookie is the most that there are."""


def told_of_ledger(run: RunReader, ledger_id: int, scope_id: int = 0) -> tuple[Told, ...]:
    """The findings about a ledger, the worst first; an empty tuple where there are none."""
    import pyarrow.dataset as ds

    here = (ds.field("ledger_id") == ledger_id) & (ds.field("scope_id") == scope_id)
    batches = run.batches("findings", filter=here)
    found = [finding_of(row) for row in islice((row for each in batches for row in each.to_pylist()), SHOWN)]
    standings = standings_of(RunTables(run.path), [finding.fingerprint for finding in found])
    return tuple(Told(finding, standings.get(finding.fingerprint)) for finding in found)


def standings_of(tables: RunTables, fingerprints: Iterable[str]) -> dict[str, Standing]:
    """How findings stand against the run before, by fingerprint; a run without that table knows of none.

    For a handful of fingerprints: those of all findings of a cluster would not fit into memory.
    """
    import pyarrow.dataset as ds

    wanted = list(fingerprints)
    if not wanted or "changes" not in tables.names("tables"):
        return {}
    here = ds.field("fingerprint").isin(wanted)
    rows: list[dict[str, Any]] = tables.read("tables/changes", _STANDING, here).to_pylist()
    return {row["fingerprint"]: Standing(row["change"], row["first_seen"], row["suppressed"]) for row in rows}


def standings_of_report(path: str, report: Report) -> Standings:
    """The standings of the findings that a report shows, for the run at ``path``.

    Where there is no run before, and nothing is suppressed, there is nothing to say: all would be new.
    """
    if report.run["changes"] is None and not report.run["suppressions"]:
        return no_standing
    return standings_of(RunTables(path), [finding.fingerprint for finding in report.findings]).get


_STANDING = ["fingerprint", "change", "first_seen", "suppressed"]
