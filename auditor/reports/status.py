"""A run in one line: the verdict, what was found and is new, how much was seen, how old it is."""

from __future__ import annotations

from auditor.model.amounts import duration, format_time, plural
from auditor.model.finding import Severity
from auditor.model.report import Report
from auditor.reports.plain_text import printable


def render(report: Report, run: str, now: int) -> str:
    """One line about the run in the directory ``run``, at the time ``now``, ms since 1970."""
    facts, seen = report.run, report.coverage
    found = [
        f"{count:,} {severity}"
        for severity in Severity
        if (
            count := sum(
                each["count"] - each["suppressed"] for each in facts.tally if each["severity"] == severity
            )
        )
    ]
    suppressed = sum(each["suppressed"] for each in facts.tally)
    parts = [
        ", ".join(found) or ("nothing but what is suppressed" if suppressed else "no finding"),
        *([f"{suppressed:,} suppressed"] if suppressed else []),
        _changes(report),
        f"{seen.ledgers.decided:,} of {seen.ledgers.total:,} ledgers decided",
        f"{seen.bookies.read:,} of {seen.bookies.expected:,} bookies read",
        *([f"{plural(len(facts.blind), 'check')} saw nothing"] if facts.blind else []),
        *(["what its checks saw is not known"] if facts.blind is None else []),
        f"{duration(max(0, now - facts.finished) / 1000)} old ({format_time(facts.finished)})",
        printable(run),
    ]
    return f"{report.verdict.upper()} {printable(report.cluster.name)}: {'; '.join(parts)}"


def _changes(report: Report) -> str:
    changes = report.run.changes
    if changes is None:
        return "no run before it"
    return f"{changes['new']:,} new, {changes['worse']:,} worse, {changes['fixed']:,} fixed"
