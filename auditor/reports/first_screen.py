"""The first screen of a report: which cluster, how much was seen, what was found and changed, the verdict.

It fits into a terminal of 24 lines whatever was found: what is long gives way, every severity keeps a line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from auditor.model.amounts import bounded, moment, plural, size
from auditor.model.finding import Finding, Severity
from auditor.model.ledger_id import LedgerId
from auditor.model.report import INCOMPLETE, Report, Tally
from auditor.reports.folding import columns_of, folded
from auditor.reports.in_doubt import in_doubt
from auditor.reports.plain_text import printable
from auditor.reports.reused import reused

WIDTH = 80
LINES = 24
_LABEL = 11
_UNREAD_SHOWN = 5
_REASONS_SHOWN = 2


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many lines each of these may take."""

    facts: int
    operations: int
    unread: int
    gaps: int
    notes: int
    changes: int
    suppressed: int


_ROOMY = _Limits(facts=2, operations=2, unread=2, gaps=2, notes=2, changes=2, suppressed=2)
_TIGHT = _Limits(facts=1, operations=1, unread=1, gaps=1, notes=1, changes=1, suppressed=1)


def render(report: Report, run: str = "RUN", width: int = WIDTH) -> str:
    """At most `LINES` lines of ``width`` columns, the verdict last; ``run`` is how commands name the run."""
    last = folded(verdict(report), width, lines=2)
    counts = _counts(report.run["tally"], report)
    for limits in (_ROOMY, _TIGHT):
        above = [*_seen(report, limits, width), ""]
        below = ["", *_history(report, limits, width), *_next(report, run), "", *last]
        # A command is not folded here, but a terminal does it.
        room = LINES - sum(max(1, ceil(columns_of(line) / width)) for line in (*above, *below))
        if sum(len(_folded_count(*each, width)) for each in counts) <= room:
            break
    return "\n".join([*above, *_fitted(counts, room, width), *below])


def _fitted(counts: list[tuple[str, str]], room: int, width: int) -> list[str]:
    """Every severity keeps a line; the longest gives way, the mildest of equals."""
    shown = [_folded_count(*each, width) for each in counts]
    while sum(map(len, shown)) > room and max(map(len, shown)) > 1:
        longest = max(reversed(range(len(shown))), key=lambda number: len(shown[number]))
        shown[longest] = _folded_count(*counts[longest], width, len(shown[longest]) - 1)
    return [line for lines in shown for line in lines]


def _folded_count(label: str, text: str, width: int, lines: int | None = None) -> list[str]:
    return folded(text, width, f"{label:<{_LABEL}}" if label else "", " " * _LABEL, lines)


def verdict(report: Report) -> str:
    """One sentence: the verdict, and what it comes from."""
    totals = []
    for severity in Severity:
        total = sum(tally["count"] for tally in report.run["tally"] if tally["severity"] == severity)
        if total:
            totals.append(f"{total:,} {severity}")
    suppressed = sum(tally["suppressed"] for tally in report.run["tally"])
    known = f", {suppressed:,} of them suppressed" if suppressed else ""
    undecided = "" if report.complete else "; not everything could be decided"
    return f"{report.verdict.upper()}: {', '.join(totals) or 'no finding'}{known}{undecided}"


def command_for(finding: Finding, run: str) -> str | None:
    """The command that tells more of a finding; None for one of the whole cluster."""
    if finding.ledger_id is not None:
        return f"bkaudit explain ledger {_ledger(finding)} --run {shlex.quote(printable(run))}"
    if finding.bookie_id is not None:
        name = shlex.quote(printable(finding.bookie_id))
        return f"bkaudit explain bookie {name} --run {shlex.quote(printable(run))}"
    return None


def _ledger(finding: Finding) -> str:
    """A finding's ledger as the command line takes it; a number below 0 would be taken for an option."""
    if finding.ledger_id is not None and (finding.scope_id or finding.ledger_id < 0):
        return f"--ledger-qualified-name {LedgerId(finding.ledger_id, finding.scope_id or 0).qualified_name}"
    return str(finding.ledger_id)


def _line(label: str, text: str, width: int, lines: int = 1) -> list[str]:
    return folded(text, width, f"{label:<{_LABEL}}", " " * _LABEL, lines)


def _seen(report: Report, limits: _Limits, width: int) -> list[str]:
    run, cluster, seen = report.run, report.cluster, report.coverage
    unread = seen.bookies.unread
    not_read = f"; not read: {bounded(unread, _UNREAD_SHOWN)}" if unread else ""
    made = ", ".join(f"{count:,} {name}" for name, count in sorted(run["operations"].items()))
    covered = [
        *_line("replicas", f"{seen.replicas.decided:,} of {seen.replicas.expected:,} decided", width),
        *_line(
            "bookies",
            f"{seen.bookies.read:,} of {seen.bookies.expected:,} read{not_read}",
            width,
            limits.unread,
        ),
    ]
    lines = [
        *_line(
            "cluster",
            f"{cluster.instance_id or 'no instance id'}, layout {cluster.layout}",
            width,
            limits.facts,
        ),
        *_line("metadata", cluster.metadata_uri, width, limits.facts),
        *_line("moment", f"{moment(run['scan_time'])}; {_scans(report)}", width, limits.facts),
        *_line("ledgers", f"{seen.ledgers.decided:,} of {seen.ledgers.total:,} decided", width),
        *(_no_bookies(seen.bookies.expected, width) if report.metadata_only else covered),
        *_line("read only", made or "nothing was asked of a live store", width, limits.operations),
    ]
    if run["resumed"] is not None:
        lines += _line(
            "resumed", f"with tables of a run that broke off, from {moment(run['resumed'])} on", width
        )
    if run["reused"]:
        lines += _line("not again", reused(run["reused"]), width, limits.facts)
    if run["in_doubt"]:
        lines += _line("in doubt", in_doubt(run["in_doubt"]), width, limits.gaps)
    if run["gaps"]:
        lines += _line(
            "not read",
            f"{plural(len(run['gaps']), 'place', 'places')}, as {run['gaps'][0]}",
            width,
            limits.gaps,
        )
    for note in run["notes"][: limits.notes]:
        lines += _line("note", note, width, lines=1)
    return lines


def _no_bookies(expected: int, width: int) -> list[str]:
    """What was seen of the bookies where none was looked for."""
    return _line(
        "bookies",
        f"{expected:,}, none read: without --bookies only the metadata is looked at, and whatever needs an "
        "index is unknown",
        width,
        lines=2,
    )


def _scans(report: Report) -> str:
    positions = report.run["positions"]
    where = " and ".join(dict.fromkeys(positions))
    kind = "two live scans" if len(positions) > 1 else "one scan"
    return f"{kind}, at {where}" if where else kind


def _counts(tallies: list[Tally], report: Report) -> list[tuple[str, str]]:
    """Each severity, and its text: in how many ledgers of how many bytes, and each id's count."""
    if not tallies:
        return [("", "nothing found")]
    impact = {each["severity"]: each for each in report.run["impact"]}
    ordered = sorted(tallies, key=lambda each: (Severity(each["severity"]).rank, each["id"]))
    blocks = []
    for severity, of_severity in groupby(ordered, key=lambda each: each["severity"]):
        words = []
        for id, found in groupby(of_severity, key=lambda each: each["id"]):
            words.append(_count(id, list(found)))
        about = ""
        if severity in impact and impact[severity]["ledgers"]:
            ledgers = plural(impact[severity]["ledgers"], "ledger", "ledgers")
            about = f"{ledgers}, {size(impact[severity]['bytes'])}: "
        # NULs keep an id beside its count.
        text = about.replace(" ", "\0").replace(":\0", ": ") + ", ".join(
            word.replace(" ", "\0") for word in words
        )
        blocks.append((severity, text))
    return blocks


def _count(id: str, found: Iterable[Tally]) -> str:
    """An id, its count, and what is to be said of some of them."""
    found = list(found)
    said = {
        each["confidence"]: each["count"]
        for each in sorted(found, key=lambda each: each["confidence"])
        if each["confidence"] != "confirmed"
    }
    said["new"] = sum(each["new"] for each in found)
    said["worse"] = sum(each["worse"] for each in found)
    said["suppressed"] = sum(each["suppressed"] for each in found)
    parts = ", ".join(f"{count:,} {name}" for name, count in said.items() if count)
    total = sum(each["count"] for each in found)
    return f"{id} {total:,}{f' ({parts})' if parts else ''}"


def _history(report: Report, limits: _Limits, width: int) -> list[str]:
    """What changed since the last run, and what is suppressed."""
    changes, entries = report.run["changes"], report.run["suppressions"]
    if changes is None:
        lines = _line("changed", "there is no earlier run to compare with", width)
    else:
        unseen = f"; {changes['unseen']:,} could not be looked at again" if changes["unseen"] else ""
        lines = _line(
            "changed",
            f"{changes['new']:,} new, {changes['worse']:,} worse, {changes['fixed']:,} fixed, "
            f"{changes['better']:,} better, {changes['same']:,} as before, since "
            f"{moment(changes['finished'])}{unseen}",
            width,
            limits.changes,
        )
    total = sum(entry["count"] for entry in entries)
    expired = [f"{entry['reason']} ({entry['until']})" for entry in entries if entry["expired"]]
    standing = [f"{entry['reason']} (until {entry['until']})" for entry in entries if entry["count"]]
    said = [f"{total:,}: {bounded(standing, _REASONS_SHOWN)}"] if total else []
    said += [f"expired: {bounded(expired, _REASONS_SHOWN)}"] if expired else []
    return lines + (_line("suppressed", "; ".join(said), width, limits.suppressed) if said else [])


def _next(report: Report, run: str) -> list[str]:
    """Commands are never folded: they are there to be copied."""
    if not report.findings and report.verdict != INCOMPLETE:
        return []
    commands = [f"bkaudit explain run {shlex.quote(printable(run))}"]
    about = next((command for each in report.findings if (command := command_for(each, run))), None)
    commands += [about] if about else []
    return [f"{'next' if not number else '':<{_LABEL}}{command}" for number, command in enumerate(commands)]
