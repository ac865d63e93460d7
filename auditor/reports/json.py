"""A report as one JSON object; ``schemas/report.schema.json`` describes it."""

from __future__ import annotations

from auditor.model.report import Report


def render(report: Report) -> str:
    """The text of report.json, without its last newline."""
    return report.to_json().rstrip("\n")
