"""How the findings of a finished run stand against the run before: the one reader of its table changes.

Those of a few findings by fingerprint, those of all of them in their order, and since when all are known.
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

_TABLE = "changes"
_COLUMNS = ["fingerprint", "change", "first_seen", "suppressed"]


def standings_of(tables: RunDirectory, report: Report, fingerprints: Iterable[str]) -> dict[str, Standing]:
    """How findings stand against the run before, by fingerprint; a run without that table knows of none.

    ``report`` is the run's: where no run before was compared with, nothing is new or old. For a handful of
    fingerprints: those of all findings of a cluster would not fit into memory.
    """
    fingerprint_array = pa.array(fingerprints, pa.string())
    if not len(fingerprint_array) or not _has_standings(tables):
        return {}
    is_asked = ds.field("fingerprint").isin(fingerprint_array)
    first = report.run.changes is None
    return {row["fingerprint"]: _standing(row, first) for row in _rows(tables, _COLUMNS, is_asked)}


def standings_of_report(path: str, report: Report) -> Standings:
    """The standings of the findings that a report shows, for the run at ``path``.

    Where there is no run before, and nothing is suppressed, there is nothing to say: all would be new.
    """
    if report.run.changes is None and not report.run.suppressions:
        return no_standing
    return standings_of(RunDirectory(path), report, [finding.fingerprint for finding in report.findings]).get


def standings_in_order(path: str) -> Standings:
    """The standings of the findings of the run at ``path``, to be asked for in the order of its findings.

    The table of changes lies in the same order, so that each answer is the next row, or a little further.
    A run without that table knows of none.

    Raises:
        RunError: when asked, where the table is broken, or has no row of a finding at its place.
    """
    tables = RunDirectory(path)
    if not _has_standings(tables):
        return no_standing
    rows = _rows(tables, _COLUMNS)

    def standing(fingerprint: str) -> Standing:
        for row in rows:
            if row["fingerprint"] == fingerprint:
                return _standing(row, first=False)
        raise RunError(f"{path}/tables/{_TABLE}: no row of the finding {fingerprint} is at its place")

    return standing


def severities_by_day(tables: RunDirectory) -> dict[int, Counter[str]]:
    """How many findings of each severity were first seen on a day, by its number since 1970, UTC."""
    counts: dict[int, Counter[str]] = {}
    for batch in _batches(tables, ["first_seen", "severity"]):
        pairs = pa.table({"day": days_since_1970(batch["first_seen"]), "severity": batch["severity"]})
        for row in pairs.group_by(["day", "severity"]).aggregate([([], "count_all")]).to_pylist():
            counts.setdefault(row["day"], Counter())[row["severity"]] += row["count_all"]
    return counts


def _has_standings(tables: RunDirectory) -> bool:
    return _TABLE in tables.names("tables")


def _standing(row: dict[str, Any], first: bool) -> Standing:
    return Standing("" if first else row["change"], row["first_seen"], row["suppressed"])


def _rows(tables: RunDirectory, columns: list[str], filter: Any = None) -> Iterator[dict[str, Any]]:
    for batch in _batches(tables, columns, filter):
        yield from batch.to_pylist()


def _batches(tables: RunDirectory, columns: list[str], filter: Any = None) -> Iterator[Any]:
    """What this run found, in the order of its findings; rows of what only an earlier one did are no part."""
    is_current = ds.field("change").isin(FOUND)
    yield from tables.batches(
        f"tables/{_TABLE}", columns, is_current if filter is None else is_current & filter
    )
