"""Changes of a finished run's findings since earlier runs, from the table ``changes``.

It returns those of a few findings by fingerprint, or those of all findings in order.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from auditor.errors import RunError
from auditor.model.arrow import ds, pa
from auditor.model.finding import Standing, Standings, no_standing
from auditor.model.report import Report
from auditor.model.states import FOUND
from auditor.runs.directory import RunDirectory
from auditor.runs.figures import days_since_1970

_CHANGES_TABLE = "changes"
_COLUMNS = ["fingerprint", "change", "first_seen", "suppressed"]


def standings_of(tables: RunDirectory, report: Report, fingerprints: Iterable[str]) -> dict[str, Standing]:
    """Return the standings of findings by fingerprint. Empty for a run without the table.

    ``report`` is the run's. If it was compared with no run, no finding is new or old. Use this for a handful
    of fingerprints: those of a whole cluster do not fit into memory.
    """
    fingerprint_array = pa.array(fingerprints, pa.string())
    if not len(fingerprint_array) or not _has_changes_table(tables):
        return {}
    is_asked = ds.field("fingerprint").isin(fingerprint_array)
    first = report.run.changes is None
    return {
        row["fingerprint"]: _make_standing(row, first) for row in _change_rows(tables, _COLUMNS, is_asked)
    }


def standings_of_report(path: str, report: Report) -> Standings:
    """Return the standings of the findings in the report of the run at ``path``.

    Without an earlier run and suppressions there are none: all findings would be new.
    """
    if report.run.changes is None and not report.run.suppressions:
        return no_standing
    return standings_of(RunDirectory(path), report, [finding.fingerprint for finding in report.findings]).get


def standings_in_order(path: str) -> Standings:
    """Return a function for the standings of all findings, to be called in the order of the findings.

    The table ``changes`` has the same order, so each answer is the next row or soon after. A run without
    that table has no standings.

    Raises:
        RunError: when called, if the table is broken or has no row of the finding at its place.
    """
    tables = RunDirectory(path)
    if not _has_changes_table(tables):
        return no_standing
    rows = _change_rows(tables, _COLUMNS)

    def standing(fingerprint: str) -> Standing:
        for row in rows:
            if row["fingerprint"] == fingerprint:
                return _make_standing(row, first=False)
        raise RunError(f"{path}/tables/{_CHANGES_TABLE}: no row of the finding {fingerprint} is at its place")

    return standing


def severities_by_day(tables: RunDirectory) -> dict[int, Counter[str]]:
    """Count findings by severity and the UTC day since 1970 on which they were first seen."""
    counts: dict[int, Counter[str]] = {}
    for batch in _change_batches(tables, ["first_seen", "severity"]):
        pairs = pa.table({"day": days_since_1970(batch["first_seen"]), "severity": batch["severity"]})
        for row in pairs.group_by(["day", "severity"]).aggregate([([], "count_all")]).to_pylist():
            counts.setdefault(row["day"], Counter())[row["severity"]] += row["count_all"]
    return counts


def _has_changes_table(tables: RunDirectory) -> bool:
    return _CHANGES_TABLE in tables.names("tables")


def _make_standing(row: dict[str, Any], first: bool) -> Standing:
    return Standing("" if first else row["change"], row["first_seen"], row["suppressed"])


def _change_rows(tables: RunDirectory, columns: list[str], filter: Any = None) -> Iterator[dict[str, Any]]:
    for batch in _change_batches(tables, columns, filter):
        yield from batch.to_pylist()


def _change_batches(tables: RunDirectory, columns: list[str], filter: Any = None) -> Iterator[Any]:
    """Yield the rows of findings of this run, in order. Rows of findings only in an earlier run are left
    out.
    """
    is_current = ds.field("change").isin(FOUND)
    yield from tables.batches(
        f"tables/{_CHANGES_TABLE}", columns, is_current if filter is None else is_current & filter
    )
