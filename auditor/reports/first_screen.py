"""The first screen of a report: which cluster, how much was seen, what was found and changed, the verdict.

It fits into a terminal of 24 lines as long as that hides nothing bad: names of operations, of bookies and of
mild checks give way, to a count of what is left out. What is critical or an error, times, and why a run was
compared with none are always there in full, however many lines they take.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from auditor.model.amounts import first_names, format_time, plural, size
from auditor.model.finding import Confidence, Finding, Severity
from auditor.model.history import about_comparison
from auditor.model.ledger_id import LedgerId
from auditor.model.report import Report, Tally
from auditor.model.states import Verdict
from auditor.reports.blind_spots import blind_sentence, saw_nothing
from auditor.reports.folding import columns_of, fold_text
from auditor.reports.in_doubt import doubtful_ids_line
from auditor.reports.plain_text import printable
from auditor.reports.reuse_sentence import reuse_sentence

WIDTH = 80
LINES = 24
_LABEL = 11
_NAMES_SHOWN = 5
_REASONS_SHOWN = 2
_IN_FULL = Severity.ERROR
"""What is this bad or worse gives way to nothing."""
_FEWEST_LINES = 2
"""What is milder keeps so many lines of its own."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many lines each of these may take, and how many remarks there may be."""

    facts: int
    operations: int
    unread: int
    gaps: int
    remarks: int
    suppressed: int


_ROOMY = _Limits(facts=2, operations=2, unread=2, gaps=2, remarks=2, suppressed=2)
_TIGHT = _Limits(facts=1, operations=1, unread=1, gaps=1, remarks=1, suppressed=1)


@dataclass(frozen=True, slots=True)
class _Count:
    """What was found of one severity: in how many ledgers, and the count of each check; a NUL is a blank that
    a line does not break at."""

    severity: Severity
    about: str
    checks: tuple[tuple[str, int], ...]

    @property
    def gives_way(self) -> bool:
        return not self.severity.at_least(_IN_FULL)

    def lines(self, width: int, checks: int | None = None) -> list[str]:
        """Its lines, with the first so many checks by name and the others as a number."""
        shown, left = self.checks[:checks], self.checks[len(self.checks[:checks]) :]
        words = [text for text, _ in shown]
        if left:
            more = f"{len(left):,} more {'check' if len(left) == 1 else 'checks'}"
            words.append(
                f"{more} with {plural(sum(count for _, count in left), 'finding')}".replace(" ", "\0")
            )
        return _line(self.severity, f"{self.about}: {', '.join(words)}", width, None)

    def fit(self, width: int, lines: int) -> list[str]:
        """At most so many lines, with as many checks by name as they hold; never fewer than none."""
        for checks in reversed(range(len(self.checks))):
            found = self.lines(width, checks)
            if len(found) <= lines:
                return found
        return self.lines(width, 0)


def render(report: Report, run: str = "RUN", width: int = WIDTH) -> str:
    """Lines of ``width`` columns, the verdict last; ``run`` is how commands name the run.

    They are at most `LINES`, but for what is never left out.
    """
    last = fold_text(verdict(report), width)
    counts = _counts(report.run.tally, report)
    for limits in (_ROOMY, _TIGHT):
        above = [*_seen_lines(report, limits, width), ""]
        below = ["", *_history(report, limits, width), *_next(report, run), "", *last]
        # A command is not folded here, but a terminal does it.
        room = LINES - sum(max(1, ceil(columns_of(line) / width)) for line in (*above, *below))
        if sum(len(each.lines(width)) for each in counts) <= room:
            break
    return "\n".join([*above, *(_fit_counts(counts, room, width) or ["nothing found"]), *below])


def _fit_counts(counts: list[_Count], room: int, width: int) -> list[str]:
    """Every severity keeps a line; the longest that may gives way, the mildest of equals."""
    shown = [each.lines(width) for each in counts]
    while sum(map(len, shown)) > room:
        long = [n for n, each in enumerate(counts) if each.gives_way and len(shown[n]) > _FEWEST_LINES]
        if not long:
            break
        longest = max(reversed(long), key=lambda number: len(shown[number]))
        fewer = counts[longest].fit(width, len(shown[longest]) - 1)
        if len(fewer) >= len(shown[longest]):
            break  # a single count is longer than a line
        shown[longest] = fewer
    return [line for lines in shown for line in lines]


def verdict(report: Report) -> str:
    """One sentence: the verdict, and what it comes from."""
    totals = []
    for severity in Severity:
        total = sum(tally["count"] for tally in report.run.tally if tally["severity"] == severity)
        if total:
            totals.append(f"{total:,} {severity}")
    suppressed = sum(tally["suppressed"] for tally in report.run.tally)
    known = f", {suppressed:,} of them suppressed" if suppressed else ""
    undecided = "" if report.complete else "; not everything could be decided"
    if not report.complete and report.complete_but_accepted:
        undecided = "; what could not be decided is accepted"
    return f"{report.verdict.upper()}: {', '.join(totals) or 'no finding'}{known}{undecided}"


def accepted_gaps(report: Report) -> str | None:
    """What suppressions accept of what is not decided, in a sentence; None where they accept nothing."""
    accepted = report.run.accepted
    if not any(accepted.values()):
        return None
    parts = [
        *([f"not read: {first_names(accepted['bookies'], _NAMES_SHOWN)}"] if accepted["bookies"] else []),
        f"{plural(accepted['ledgers'], 'ledger')} and {plural(accepted['replicas'], 'replica')} not decided",
    ]
    return f"as known, by suppressions: {'; '.join(parts)}"


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


def _line(label: str, text: str, width: int, lines: int | None = 1) -> list[str]:
    return fold_text(text, width, f"{label:<{_LABEL}}", " " * _LABEL, lines)


def _names(label: str, head: str, before: str, names: Sequence[str], width: int, lines: int) -> list[str]:
    """A line with as many names as it holds, and how many there are besides."""
    words = [name.replace(" ", "\0") for name in names]
    for shown in range(min(len(names), _NAMES_SHOWN), 1, -1):
        found = _line(label, f"{head}{before}{first_names(words, shown)}", width, None)
        if len(found) <= lines:
            return found
    return _line(label, f"{head}{before if names else ''}{first_names(words, 1)}", width, lines)


def _seen_lines(report: Report, limits: _Limits, width: int) -> list[str]:
    run, cluster, seen = report.run, report.cluster, report.coverage
    made = [f"{count:,} {name}" for name, count in sorted(run.operations.items())]
    covered = [
        *_line("replicas", f"{seen.replicas.decided:,} of {seen.replicas.expected:,} decided", width),
        *_names(
            "bookies",
            f"{seen.bookies.read:,} of {seen.bookies.expected:,} read",
            "; not read: ",
            seen.bookies.unread,
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
        *_line("moment", f"{format_time(run.scan_time)}; {_scans(report)}", width, None),
        *_line("ledgers", f"{seen.ledgers.decided:,} of {seen.ledgers.total:,} decided", width),
        *(_no_bookies(seen.bookies.expected, width) if report.metadata_only else covered),
        *_names("read only", "", "", made or ["nothing was asked of a live store"], width, limits.operations),
    ]
    if (blind := blind_sentence(report)) is not None:
        lines += _names("blind", blind, ": ", saw_nothing(report), width, limits.unread)
    if (accepted := accepted_gaps(report)) is not None:
        lines += _line("accepted", accepted, width, None)
    if run.resumed is not None:
        lines += _line(
            "resumed", f"with tables of a run that broke off, from {format_time(run.resumed)} on", width, None
        )
    if run.reused:
        lines += _line("not again", reuse_sentence(run.reused), width, limits.facts)
    if run.in_doubt:
        lines += _line("in doubt", doubtful_ids_line(run.in_doubt), width, limits.gaps)
    if run.gaps:
        lines += _line(
            "not read",
            f"{plural(len(run.gaps), 'place', 'places')}, as {run.gaps[0]}",
            width,
            limits.gaps,
        )
    return lines + _remarks([note for note in run.notes if not about_comparison(note)], limits, width)


def _remarks(notes: list[str], limits: _Limits, width: int) -> list[str]:
    """The first sentences that a reader should see, as far as they fit, and how many more there are."""
    lines = []
    for note in notes[: limits.remarks]:
        lines += _line("remark", note, width, 2)
    if more := len(notes) - limits.remarks:
        lines += _line("", f"and {plural(more, 'remark')} more", width) if more > 0 else []
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
    positions = report.run.positions
    where = " and ".join(dict.fromkeys(positions))
    kind = "two live scans" if len(positions) > 1 else "one scan"
    return f"{kind}, at {where}" if where else kind


def _counts(tallies: list[Tally], report: Report) -> list[_Count]:
    """Each severity: how many findings, in how many ledgers of how many bytes, and each check's count."""
    impact = {each["severity"]: each for each in report.run.impact}
    ordered = sorted(tallies, key=lambda each: (Severity(each["severity"]).rank, each["id"]))
    blocks = []
    for severity, of_severity in groupby(ordered, key=lambda each: each["severity"]):
        checks = []
        for id, group in groupby(of_severity, key=lambda each: each["id"]):
            found = list(group)
            checks.append((_count(id, found).replace(" ", "\0"), sum(each["count"] for each in found)))
        about = plural(sum(count for _, count in checks), "finding")
        if severity in impact and impact[severity]["ledgers"]:
            ledgers = plural(impact[severity]["ledgers"], "ledger")
            about += f", on {ledgers} of {size(impact[severity]['bytes'])}"
        blocks.append(
            _Count(Severity(severity), about.replace(" ", "\0").replace(",\0", ", "), tuple(checks))
        )
    return blocks


def _count(id: str, found: Iterable[Tally]) -> str:
    """An id, its count, and what is to be said of some of them."""
    found = list(found)
    said = {
        each["confidence"]: each["count"]
        for each in sorted(found, key=lambda each: each["confidence"])
        if each["confidence"] != Confidence.CONFIRMED
    }
    said["new"] = sum(each["new"] for each in found)
    said["worse"] = sum(each["worse"] for each in found)
    said["suppressed"] = sum(each["suppressed"] for each in found)
    parts = ", ".join(f"{count:,} {name}" for name, count in said.items() if count)
    total = sum(each["count"] for each in found)
    return f"{id} {total:,}{f' ({parts})' if parts else ''}"


def _history(report: Report, limits: _Limits, width: int) -> list[str]:
    """What changed since the last run, and what is suppressed."""
    changes, entries = report.run.changes, report.run.suppressions
    reasons = [note for note in report.run.notes if about_comparison(note)]
    if changes is None:
        why = "; ".join(reasons) or "there is no earlier run to compare with"
        lines = _line("changed", why, width, None)
    else:
        unseen = f"; {changes['unseen']:,} could not be looked at again" if changes["unseen"] else ""
        lines = _line(
            "changed",
            f"{changes['new']:,} new, {changes['worse']:,} worse, {changes['fixed']:,} fixed, "
            f"{changes['better']:,} better, {changes['same']:,} as before, since "
            f"{format_time(changes['finished'])}{unseen}",
            width,
            None,
        )
        for reason in reasons:
            lines += fold_text(reason, width, " " * _LABEL, " " * _LABEL)
    total = sum(entry["count"] for entry in entries)
    expired = [f"{entry['reason']} ({entry['until']})" for entry in entries if entry["expired"]]
    standing = [f"{entry['reason']} (until {entry['until']})" for entry in entries if entry["count"]]
    said = [f"{total:,}: {first_names(standing, _REASONS_SHOWN)}"] if total else []
    said += [f"expired: {first_names(expired, _REASONS_SHOWN)}"] if expired else []
    return lines + (_line("suppressed", "; ".join(said), width, limits.suppressed) if said else [])


def _next(report: Report, run: str) -> list[str]:
    """Commands are never folded: they are there to be copied."""
    if not report.findings and report.verdict != Verdict.INCOMPLETE:
        return []
    commands = [f"bkaudit explain run {shlex.quote(printable(run))}"]
    about = next((command for each in report.findings if (command := command_for(each, run))), None)
    commands += [about] if about else []
    return [f"{'next' if not number else '':<{_LABEL}}{command}" for number, command in enumerate(commands)]
