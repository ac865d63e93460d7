"""Findings for pipes: one per line that grep finds whole, and that nothing breaks.

SEVERITY check object: what [confidence, ...]
"""

from __future__ import annotations

from auditor.model.amounts import format_time
from auditor.model.finding import Finding, Standing
from auditor.reports.plain_text import missing_text, printable

_BOOKIES_SHOWN = 5


def line(finding: Finding, standing: Standing | None = None) -> str:
    """
    >>> from auditor.model.finding import Confidence, Severity
    >>> found = Finding("stray-file", Severity.NOTE, Confidence.SUSPECT, bookie_id="bk1:3181", message="x")
    >>> line(found, Standing("new", 1_795_237_669_000))
    'note stray-file bookie bk1:3181: x [suspect, new]'
    """
    missing = missing_text(finding, _BOOKIES_SHOWN)
    what = f"{finding.message}; {missing}" if missing else finding.message
    text = f"{finding.severity} {finding.id} {about(finding)}: {what} [{', '.join(_tags(finding, standing))}]"
    return printable(" ".join(text.split()))


def about(finding: Finding) -> str:
    """What a finding is about: its ledger, its bookie, or the cluster."""
    scoped = f" of scope {finding.scope_id}" if finding.scope_id else ""
    parts = [
        *([f"ledger {finding.ledger_id}{scoped}"] if finding.ledger_id is not None else []),
        *([f"bookie {finding.bookie_id}"] if finding.bookie_id is not None else []),
    ]
    return " ".join(parts) or "cluster"


def _tags(finding: Finding, standing: Standing | None) -> list[str]:
    tags = [str(finding.confidence)]
    if standing is not None:
        tags += [standing.change] if standing.change != "same" else []
        tags += [f"since {format_time(standing.first_seen)[:10]}"] if standing.change != "new" else []
        tags += [f"suppressed: {standing.suppressed}"] if standing.suppressed is not None else []
    return tags
