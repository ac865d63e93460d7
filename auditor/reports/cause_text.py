"""Causes in words: what one thing explains, and what follows from it."""

from __future__ import annotations

from auditor.model.amounts import plural
from auditor.model.report import Report
from auditor.model.run_facts import FindingCause


def causes_of(report: Report) -> list[FindingCause]:
    """The causes that explain more than one finding, the most urgent first."""
    return [cause for cause in report.run.causes or () if cause["count"] > 1]


def cause_sentence(cause: FindingCause) -> str:
    """How many findings a cause explains, and what it is."""
    return f"{plural(cause['count'], 'finding')}: {cause['sentence']}"


def follows(cause: FindingCause) -> str:
    """The checks whose findings follow from a cause, with their numbers."""
    return ", ".join(f"{each['id']} {each['count']:,}" for each in cause["findings"])
