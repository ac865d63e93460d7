"""What the head of the page says: the verdict, coverage, counts by severity and check, earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auditor.checks import BY_ID
from auditor.checks.needs import Sight
from auditor.model.finding import Severity
from auditor.model.history import RunSummary
from auditor.model.report import Report
from auditor.model.run_facts import sentence_of
from auditor.reports.blind_spots import blind_spots
from auditor.reports.cause_text import cause_sentence, causes_of, follows
from auditor.reports.coverage import count_by_check, count_by_severity, extents, reuse_sentence
from auditor.reports.first_screen import step_command
from auditor.reports.plain_text import shorten

_LISTED = 20  # gaps, notes, positions, sources, unread bookies
_TEXT = 300
_VERDICTS = {"healthy": "Healthy", "not-healthy": "Not healthy", "incomplete": "Incomplete"}


def overview(report: Report, notes: Sequence[str], named: str) -> dict[str, Any]:
    """Everything of the page that the report alone says, and notes besides its own.

    ``named`` is how commands name the run.
    """
    run, seen = report.run, report.coverage
    checks = _checks(report)
    ids = [*(check["id"] for check in checks), *(finding.id for finding in report.findings)]
    return {
        "verdict": report.verdict,
        "verdict_text": _VERDICTS.get(report.verdict, report.verdict),
        "complete": report.complete,
        "cluster": {
            "instance_id": shorten(report.cluster.instance_id or "no instance id"),
            "metadata_uri": shorten(report.cluster.metadata_uri, _TEXT),
            "layout": report.cluster.layout,
        },
        "steps": [
            {"step": each, "command": shorten(step_command(each, named), _TEXT)}
            for each in run.steps or ()
            if each["action"] is not None
        ],
        "causes": [
            (each["number"], shorten(cause_sentence(each), _TEXT), shorten(follows(each), _TEXT))
            for each in causes_of(report)
        ],
        "run": run,
        "coverage": [(each.name.capitalize(), each.word, each.seen, each.total) for each in extents(report)],
        "unread": _some(seen.bookies.unread),
        "severities": _severities(report),
        "checks": checks,
        "found": sum(check["count"] for check in checks),
        "sampled": len(report.findings),
        "pages": [BY_ID[id] for id in dict.fromkeys(ids) if id in BY_ID],
        "changes": run.changes,
        "suppressions": run.suppressions,
        "gaps": _some(run.gaps),
        "blind": blind_spots(Sight.of(report)),
        "notes": _some([*map(sentence_of, run.remarks), *notes]),
        "reused": shorten(reuse_sentence(run.reused), _TEXT) if run.reused else None,
        "read_again": _some(run.reused["notes"] if run.reused else []),
        "positions": _some(dict.fromkeys(run.positions)),
        "sources": _some(run.bookie_sources),
        "operations": sorted(run.operations.items()),
    }


def _some(texts: Any) -> dict[str, Any]:
    listed = list(texts)
    return {
        "texts": [shorten(text, _TEXT) for text in listed[:_LISTED]],
        "left": max(len(listed) - _LISTED, 0),
    }


def _severities(report: Report) -> list[dict[str, Any]]:
    """One of each severity, also of those with no finding: a zero is worth knowing."""
    impact = {each["severity"]: each for each in report.run.impact}
    return [
        {
            "severity": str(severity),
            "impact": impact.get(str(severity)),
            **{name: sums[name] for name in ("count", "new", "worse", "suppressed")},
        }
        for severity, sums in count_by_severity(report).items()
    ]


def _checks(report: Report) -> list[dict[str, Any]]:
    """Full counts by severity and check, the worst first."""
    names = ("count", "unsure", "new", "worse", "suppressed")
    return [
        {
            "id": each.id,
            "severity": str(each.severity),
            "rank": each.severity.rank,
            "title": BY_ID[each.id].title if each.id in BY_ID else "",
            **{name: each.sums[name] for name in names},
        }
        for each in count_by_check(report)
    ]


RUNS = 40
_COLUMN_HEIGHT = 100
_DRAWN = (Severity.CRITICAL, Severity.ERROR, Severity.WARNING)


def trend(history: Sequence[RunSummary]) -> dict[str, Any]:
    """The newest runs, newest first, and their columns in the order of time; notes are not drawn."""
    runs = list(history)[-RUNS:]
    most = max((sum(run.severities.get(each, 0) for each in _DRAWN) for run in runs), default=0) or 1
    columns = []
    for number, run in enumerate(runs):
        top = _COLUMN_HEIGHT
        for severity in _DRAWN:
            count = run.severities.get(severity, 0)
            # What was found at all is seen.
            height = max(count * _COLUMN_HEIGHT // most, 2) if count else 0
            top -= height
            columns.append({"x": number * 10, "y": top, "height": height, "severity": str(severity)})
    return {
        "history": runs[::-1],
        "history_left": len(history) - len(runs),
        "columns": [column for column in columns if column["height"]],
        "columns_wide": len(runs) * 10,
        "columns_most": most,
    }
