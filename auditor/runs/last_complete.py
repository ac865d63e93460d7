"""When a cluster was last looked at as a whole."""

from __future__ import annotations

from auditor.model.report import Report
from auditor.runs.siblings import sibling_runs


def last_complete(path: str, report: Report) -> int | None:
    """When the newest complete run of the same cluster was done, of the run at ``path`` and those beside it.

    Milliseconds since 1970; None where none of them is complete. Later runs do not count.

    Raises:
        RunError: the directory that the run lies in cannot be listed.
    """
    finished = report.run.finished
    if report.complete:
        return finished
    times = [
        run.finished
        for run in sibling_runs(path, report.cluster)
        if run.complete and run.finished <= finished
    ]
    return max(times, default=None)
