"""Earlier runs as rows, and the findings of each as a column of a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auditor.model.finding import Severity
from auditor.model.history import RunSummary

RUNS = 40
_HEIGHT = 100
_SEVERITIES = (Severity.CRITICAL, Severity.ERROR, Severity.WARNING)


def trend(history: Sequence[RunSummary]) -> dict[str, Any]:
    """The newest runs, newest first, and their columns in the order of time; notes are not drawn."""
    runs = list(history)[-RUNS:]
    most = max((sum(run.severities.get(each, 0) for each in _SEVERITIES) for run in runs), default=0) or 1
    columns = []
    for number, run in enumerate(runs):
        top = _HEIGHT
        for severity in _SEVERITIES:
            count = run.severities.get(severity, 0)
            # What was found at all is seen.
            height = max(count * _HEIGHT // most, 2) if count else 0
            top -= height
            columns.append({"x": number * 10, "y": top, "height": height, "severity": str(severity)})
    return {
        "history": runs[::-1],
        "history_left": len(history) - len(runs),
        "columns": [column for column in columns if column["height"]],
        "columns_wide": len(runs) * 10,
        "columns_most": most,
    }
