"""A report for a terminal: the first screen says it all, the samples follow, the verdict stands last again.

Plain text of at most ``width`` columns, but for commands, which stay whole to be copied; colour is the
caller's.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby

from auditor.checks import BY_ID
from auditor.model.amounts import bounded, moment
from auditor.model.finding import Confidence, Finding, Severity
from auditor.model.report import Report
from auditor.model.standing import Standing, Standings, no_standing
from auditor.model.states import Change
from auditor.reports import first_screen
from auditor.reports.folding import folded
from auditor.reports.plain_text import printable
from auditor.reports.ranges import entries

WIDTH = first_screen.WIDTH
NARROWEST, WIDEST = 40, 100

BOOKIES_SHOWN = 5  # bookies with missing entries in one finding


def render(report: Report, run: str = "RUN", width: int = WIDTH, standings: Standings = no_standing) -> str:
    """The first screen, then the sampled findings by check, then the verdict.

    ``run`` is how the commands in it name the run; ``standings`` say since when a finding has been there.
    """
    width = max(NARROWEST, min(width, WIDEST))
    parts = [first_screen.render(report, run, width)]
    for (severity, id), found in groupby(report.findings, key=lambda each: (each.severity, each.id)):
        parts.append(_section(report, severity, id, list(found), run, width, standings))
    if len(parts) > 1:
        parts.append("\n".join(folded(first_screen.verdict(report), width)))
    return "\n\n".join(parts)


def _section(
    report: Report,
    severity: Severity,
    id: str,
    found: list[Finding],
    run: str,
    width: int,
    standings: Standings,
) -> str:
    count = sum(
        each["count"] for each in report.run.tally if (each["id"], each["severity"]) == (id, severity)
    )
    shown = f"{count:,}" if count == len(found) else f"{len(found):,} of {count:,} shown"
    lines = [f"{id} ({severity}; {shown})"]
    if check := BY_ID.get(id):
        lines += folded(check.title, width, "  ", "  ")
    for finding in found:
        lines += _finding(finding, width, standings(finding.fingerprint))
    command = first_screen.command_for(found[0], run)
    lines += [f"  bkaudit explain check {shlex.quote(id)}", *([f"  {command}"] if command else [])]
    return "\n".join(lines)


def _finding(finding: Finding, width: int, standing: Standing | None) -> list[str]:
    subject = [
        *([f"scope {finding.scope_id}"] if finding.scope_id else []),
        *([f"ledger {finding.ledger_id}"] if finding.ledger_id is not None else []),
        *([finding.bookie_id] if finding.bookie_id is not None else []),
    ]
    # Most messages are whole sentences, which name what they are about.
    named = all(re.search(rf"{re.escape(part)}(?![\w.-])", finding.message) for part in subject)
    tags = _tags(finding, standing)
    head = f"{finding.message}{tags}" if named else f"{', '.join(subject)}{tags}: {finding.message}"
    lines = folded(head, width, "  ", "      ")
    for part in finding.missing[:BOOKIES_SHOWN]:
        lines += folded(
            f"{part.bookie_id} lacks {entries(part.groups, part.count)}", width, "      ", "        "
        )
    if len(finding.missing) > BOOKIES_SHOWN:
        lines.append(f"      and {len(finding.missing) - BOOKIES_SHOWN:,} more bookies")
    if finding.unknown:
        lines += folded(f"unknown on {bounded(finding.unknown, BOOKIES_SHOWN)}", width, "      ", "        ")
    return lines


def _tags(finding: Finding, standing: Standing | None) -> str:
    """How sure, since when, and whether someone knows of it."""
    tags = [str(finding.confidence)] if finding.confidence != Confidence.CONFIRMED else []
    if standing is not None:
        tags += [standing.change] if standing.change != Change.SAME else []
        tags += [f"since {moment(standing.first_seen)[:10]}"] if standing.change != Change.NEW else []
        tags += [f"suppressed: {printable(standing.suppressed)}"] if standing.suppressed is not None else []
    return f" [{', '.join(tags)}]" if tags else ""
