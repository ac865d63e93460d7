"""Findings as JSON lines: one finding per line, every one of them; ``schemas/finding.schema.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from auditor.model.finding import Finding, finding_to_json


def render(findings: Iterable[Finding]) -> Iterator[str]:
    """A line for each finding as it comes, without newline.

    >>> from auditor.model.finding import Confidence, Severity
    >>> [line] = render([Finding("bookie-down", Severity.WARNING, Confidence.CONFIRMED)])
    >>> line[:50]
    '{"id":"bookie-down","severity":"warning","confiden'
    """
    for finding in findings:
        yield json.dumps(finding_to_json(finding), ensure_ascii=False, separators=(",", ":"))
