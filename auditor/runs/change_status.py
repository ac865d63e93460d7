"""Change statuses of a finished run's findings, from the table ``changes``.

A change status has the change of a finding since the previous run. It also has the time when the finding was
first seen, and its suppression. Callers read a few change statuses by fingerprint, or all of them in the
order of the findings.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from auditor.errors import RunError
from auditor.model.arrow import ds, pa
from auditor.model.finding import ChangeStatus, StatusLookup, no_change_status
from auditor.model.report import Report
from auditor.model.states import FOUND_NOW
from auditor.runs.directory import RunDirectory
from auditor.runs.figures import days_since_1970

_CHANGES_TABLE = "changes"
_COLUMNS = ["fingerprint", "change", "first_seen", "suppressed"]


def statuses_of(
    run_directory: RunDirectory, report: Report, fingerprints: Iterable[str]
) -> dict[str, ChangeStatus]:
    """Return the change statuses of a few findings, by fingerprint.

    Empty if the run has no table ``changes``. The function keeps only the rows of these findings in memory.
    All change statuses of a large cluster would not fit. If the run was not compared with an earlier run,
    each change status has an empty change.

    Args:
        run_directory: The run.
        report: The report of the run.
        fingerprints: The fingerprints of the findings.
    """
    fingerprint_array = pa.array(fingerprints, pa.string())
    if not len(fingerprint_array) or not _has_changes_table(run_directory):
        return {}
    has_requested_fingerprint = ds.field("fingerprint").isin(fingerprint_array)
    is_first_run = report.run.changes is None
    return {
        row["fingerprint"]: _make_change_status(row, is_first_run)
        for row in _change_rows(run_directory, _COLUMNS, has_requested_fingerprint)
    }


def statuses_of_report(path: str, report: Report) -> StatusLookup:
    """Return a function that maps the fingerprint of a finding in the report to its change status.

    The function returns None for every finding if the run has no suppressions and was not compared with an
    earlier run. Without a comparison, every finding would count as new.
    """
    if report.run.changes is None and not report.run.suppressions:
        return no_change_status
    return statuses_of(RunDirectory(path), report, [finding.fingerprint for finding in report.findings]).get


def statuses_in_order(path: str) -> StatusLookup:
    """Return a function that maps a finding's fingerprint to its change status.

    Call the returned function in the order of the table ``findings``. Findings may be skipped. The table
    ``changes`` has the same order, so that each call continues from the row of the last call. If the run
    lacks the table ``changes``, the function returns None for every finding.

    Raises:
        RunError: raised by the returned function, if the table is broken or none of the remaining rows is
            about the finding.
    """
    run_directory = RunDirectory(path)
    if not _has_changes_table(run_directory):
        return no_change_status
    rows = _change_rows(run_directory, _COLUMNS)

    def change_status(fingerprint: str) -> ChangeStatus:
        for row in rows:
            if row["fingerprint"] == fingerprint:
                return _make_change_status(row, is_first_run=False)
        raise RunError(
            f"{path}/tables/{_CHANGES_TABLE}: the row of finding {fingerprint} is missing or out of order"
        )

    return change_status


def severities_by_day(run_directory: RunDirectory) -> dict[int, Counter[str]]:
    """Return the number of findings of each severity for each day on which they were first seen.

    A day is given in days since 1970, UTC.
    """
    counts_by_day: dict[int, Counter[str]] = {}
    for batch in _change_batches(run_directory, ["first_seen", "severity"]):
        day_severity_rows = pa.table(
            {"day": days_since_1970(batch["first_seen"]), "severity": batch["severity"]}
        )
        for row in day_severity_rows.group_by(["day", "severity"]).aggregate([([], "count_all")]).to_pylist():
            counts_by_day.setdefault(row["day"], Counter())[row["severity"]] += row["count_all"]
    return counts_by_day


def _has_changes_table(run_directory: RunDirectory) -> bool:
    return _CHANGES_TABLE in run_directory.names("tables")


def _make_change_status(row: dict[str, Any], is_first_run: bool) -> ChangeStatus:
    return ChangeStatus("" if is_first_run else row["change"], row["first_seen"], row["suppressed"])


def _change_rows(
    run_directory: RunDirectory, columns: list[str], filter: Any = None
) -> Iterator[dict[str, Any]]:
    for batch in _change_batches(run_directory, columns, filter):
        yield from batch.to_pylist()


def _change_batches(run_directory: RunDirectory, columns: list[str], filter: Any = None) -> Iterator[Any]:
    """Yield the rows of the table ``changes`` about findings of this run, in order.

    Rows of findings that only an earlier run had are left out.
    """
    is_found_now = ds.field("change").isin(FOUND_NOW)
    yield from run_directory.batches(
        f"tables/{_CHANGES_TABLE}", columns, is_found_now if filter is None else is_found_now & filter
    )
