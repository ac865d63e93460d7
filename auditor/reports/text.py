"""A report for a terminal: the first screen says it all, the samples follow.

Plain text of at most `WIDTH` columns but for what the cluster itself named longer; colour is the caller's.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby

from auditor.model.finding import Finding, Severity
from auditor.model.ledger_id import LedgerId
from auditor.model.report import Report
from auditor.reports.ranges import entries

WIDTH = 80
FIRST_SCREEN = 24
"""Lines of `summary` at most, so that a terminal of 25 shows it whole."""

BOOKIES_SHOWN = 5  # bookies with missing entries in one finding, and unread ones in the summary
NOTES_SHOWN = 2
_LABEL = 11


def render(report: Report) -> str:
    """The whole report: `summary`, then the sampled findings by check."""
    parts = [summary(report)]
    for (severity, id), found in groupby(report.findings, key=lambda each: (each.severity, each.id)):
        parts.append(_section(severity, id, list(found), _count(report, severity, id)))
    return "\n\n".join(parts)


def summary(report: Report) -> str:
    """The first screen: which cluster, when, how much was seen, what was found, the verdict."""
    run, cluster, seen = report.run, report.cluster, report.coverage
    lines = [
        *_line("cluster", f"{cluster.instance_id or 'no instance id'}, layout {cluster.layout}"),
        *_line("metadata", cluster.metadata_uri, lines=2),
        *_line("moment", f"{_moment(run['scan_time'])}; {_scans(report)}"),
        *_line("ledgers", f"{seen.ledgers.decided:,} of {seen.ledgers.total:,} decided"),
        *_line("replicas", f"{seen.replicas.decided:,} of {seen.replicas.expected:,} decided"),
        *_line(
            "bookies", f"{seen.bookies.read:,} of {seen.bookies.expected:,} read{_unread(report)}", lines=2
        ),
        *_line("read only", _operations(report), lines=2),
    ]
    if run["gaps"]:
        lines += _line("not read", _bounded([f"{len(run['gaps'])} places, as {run['gaps'][0]}"], 1), lines=1)
    for note in run["notes"][:NOTES_SHOWN]:
        lines += _line("note", note, lines=1)
    verdict = textwrap.wrap(_verdict(report), WIDTH)
    pointers = textwrap.wrap(_pointers(report), WIDTH, subsequent_indent="      ", break_on_hyphens=False)
    room = FIRST_SCREEN - len(lines) - len(verdict) - len(pointers) - 2  # two blank lines
    lines += ["", *_counts(report, room), "", *verdict, *pointers]
    return "\n".join(lines)


def _line(label: str, text: str, lines: int = 1) -> list[str]:
    """A labelled line, folded into at most so many."""
    folded = textwrap.wrap(text, WIDTH - _LABEL, max_lines=lines, placeholder=" ...", break_on_hyphens=False)
    return [f"{label if not number else '':<{_LABEL}}{part}" for number, part in enumerate(folded)]


def _moment(ms: int) -> str:
    """A time as a person reads it; its number where no calendar reaches.

    >>> _moment(1795237669000)
    '2026-11-21 05:07:49 UTC'
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def _scans(report: Report) -> str:
    positions = report.run["positions"]
    where = " and ".join(dict.fromkeys(positions))
    kind = "two live scans" if len(positions) > 1 else "one scan"
    return f"{kind}, at {where}" if where else kind


def _unread(report: Report) -> str:
    unread = report.coverage.bookies.unread
    return f"; not read: {_bounded(unread, BOOKIES_SHOWN)}" if unread else ""


def _operations(report: Report) -> str:
    made = ", ".join(f"{count:,} {name}" for name, count in sorted(report.run["operations"].items()))
    return made or "nothing was asked of a live store"


def _bounded(names: Iterable[str], shown: int) -> str:
    names = list(names)
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _counts(report: Report, room: int) -> list[str]:
    """Severity, then each id with its count, and how many of those are not confirmed; ``room`` lines."""
    if not report.run["tally"]:
        return ["nothing found"]
    blocks: list[list[str]] = []
    for severity in Severity:
        ids = sorted({tally["id"] for tally in report.run["tally"] if tally["severity"] == severity})
        if not ids:
            continue
        words = [f"{id} {_count(report, severity, id):,}{_unsure(report, severity, id)}" for id in ids]
        # Joined by a blank that wrap does not break at, so that no id is parted from its count.
        text = ", ".join(word.replace(" ", "\0") for word in words)
        blocks.append([line.replace("\0", " ") for line in _line(str(severity), text, lines=len(words))])
    while sum(map(len, blocks)) > room:
        # Every severity keeps a line; the longest gives way, the mildest of equals.
        longest = max(reversed(blocks), key=len)
        longest.pop()
        longest[-1] = f"{longest[-1].removesuffix(' ...')[: WIDTH - len(' ...')]} ..."
    return [line for block in blocks for line in block]


def _count(report: Report, severity: Severity, id: str) -> int:
    return sum(
        tally["count"] for tally in report.run["tally"] if tally["id"] == id and tally["severity"] == severity
    )


def _unsure(report: Report, severity: Severity, id: str) -> str:
    parts = [
        f"{tally['count']:,} {tally['confidence']}"
        for tally in sorted(report.run["tally"], key=lambda tally: tally["confidence"])
        if (tally["id"], tally["severity"]) == (id, severity) and tally["confidence"] != "confirmed"
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _verdict(report: Report) -> str:
    totals = []
    for severity in Severity:
        total = sum(tally["count"] for tally in report.run["tally"] if tally["severity"] == severity)
        if total:
            totals.append(f"{total:,} {severity}")
    undecided = "" if report.complete else "; not everything could be decided"
    return f"{report.verdict.upper()}: {', '.join(totals) or 'no finding'}{undecided}"


def _pointers(report: Report) -> str:
    ledger = next((each for each in report.findings if each.ledger_id is not None), None)
    first = f"bkaudit explain ledger {_named(ledger)} --run RUN; " if ledger is not None else ""
    return f"More: {first}explain check ID" if report.findings else "More: RUN/tables"


def _named(finding: Finding) -> str:
    """A finding's ledger as the command line takes it."""
    if finding.scope_id and finding.ledger_id is not None:
        return f"--ledger-qualified-name {LedgerId(finding.ledger_id, finding.scope_id).qualified_name}"
    return str(finding.ledger_id)


def _section(severity: Severity, id: str, found: list[Finding], count: int) -> str:
    shown = f"{count:,}" if count == len(found) else f"{len(found):,} of {count:,} shown"
    lines = [f"{id} ({severity}; {shown})"]
    for finding in found:
        lines += _finding(finding)
    return "\n".join(lines)


def _finding(finding: Finding) -> list[str]:
    subject = [
        *([f"scope {finding.scope_id}"] if finding.scope_id else []),
        *([f"ledger {finding.ledger_id}"] if finding.ledger_id is not None else []),
        *([finding.bookie_id] if finding.bookie_id is not None else []),
    ]
    doubt = "" if finding.confidence == "confirmed" else f" [{finding.confidence}]"
    # Most messages are whole sentences, which name what they are about.
    named = all(re.search(rf"{re.escape(part)}(?![\w.-])", finding.message) for part in subject)
    head = f"{finding.message}{doubt}" if named else f"{', '.join(subject)}{doubt}: {finding.message}"
    lines = textwrap.wrap(
        head, WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
    )
    for part in finding.missing[:BOOKIES_SHOWN]:
        text = f"{part.bookie_id} lacks {entries(part.groups, part.count)}"
        lines += textwrap.wrap(
            text, WIDTH, initial_indent="      ", subsequent_indent="        ", break_on_hyphens=False
        )
    if len(finding.missing) > BOOKIES_SHOWN:
        lines.append(f"      and {len(finding.missing) - BOOKIES_SHOWN:,} more bookies")
    if finding.unknown:
        lines.append(f"      unknown on {_bounded(finding.unknown, BOOKIES_SHOWN)}")
    return lines
