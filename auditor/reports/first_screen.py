"""The first screen of a report: which cluster, how much was seen, what was found and changed, the verdict.

It fits into a terminal of 24 lines as long as that hides nothing bad: names of bookies and of checks that can
wait give way, to a count of what is left out. What is urgent or critical, times, and why a run was compared
with none are always there in full, however many lines they take. What was found, the verdict and what to do
stand last, so that what scrolls away are facts of the cluster.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from auditor.model.amounts import first_names, format_time, plural, size
from auditor.model.finding import URGENCY_LABELS, Confidence, Finding, Severity, Urgency
from auditor.model.history import about_comparison
from auditor.model.report import Report
from auditor.model.run_facts import Step
from auditor.model.simulation import NEAR_LOSS
from auditor.model.states import Verdict
from auditor.reports.blind_spots import blind_sentence, saw_nothing
from auditor.reports.cause_text import cause_sentence, causes_of
from auditor.reports.coverage import (
    CheckCount,
    accepted_gaps,
    count_by_check,
    doubtful_ids_line,
    extents,
    reuse_sentence,
    verdict,
)
from auditor.reports.finding_text import command_for
from auditor.reports.plain_text import columns_of, fold_text, labelled, printable

WIDTH = 80
LINES = 24
_LABEL = 11
_NAMES_SHOWN = 5
_REASONS_SHOWN = 2
_IN_FULL = Severity.CRITICAL
"""What is this bad, and what is urgent, gives way to nothing."""
_FEWEST_LINES = 2
"""What is milder keeps so many lines of its own."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many lines each of these may take, and how many remarks there may be."""

    facts: int
    unread: int
    gaps: int
    remarks: int
    suppressed: int
    causes: int


_ROOMY = _Limits(facts=2, unread=2, gaps=2, remarks=2, suppressed=2, causes=3)
_TIGHT = _Limits(facts=1, unread=1, gaps=1, remarks=1, suppressed=1, causes=1)


@dataclass(frozen=True, slots=True)
class _Count:
    """What was found of one urgency, of the rest of one severity: in how many ledgers, and the count of each
    check; a NUL is a blank that a line does not break at."""

    label: str
    urgent: bool
    about: str
    checks: tuple[tuple[str, int], ...]

    @property
    def gives_way(self) -> bool:
        return not self.urgent

    def lines(self, width: int, checks: int | None = None) -> list[str]:
        """Its lines, with the first so many checks by name and the others as a number."""
        shown, left = self.checks[:checks], self.checks[len(self.checks[:checks]) :]
        words = [text for text, _ in shown]
        if left:
            more = f"{len(left):,} more {'check' if len(left) == 1 else 'checks'}"
            words.append(
                f"{more} with {plural(sum(count for _, count in left), 'finding')}".replace(" ", "\0")
            )
        return labelled(self.label, f"{self.about}: {', '.join(words)}", width)

    def fit(self, width: int, lines: int) -> list[str]:
        """At most so many lines, with as many checks by name as they hold; never fewer than none."""
        for checks in reversed(range(len(self.checks))):
            found = self.lines(width, checks)
            if len(found) <= lines:
                return found
        return self.lines(width, 0)


def render(report: Report, run: str = "RUN", width: int = WIDTH) -> str:
    """Lines of ``width`` columns, the verdict and what to do last; ``run`` is how commands name the run.

    They are at most `LINES`, but for what is never left out.
    """
    last = [*fold_text(verdict(report), width), *do_now_lines(report, run, width), *_next(report, run)]
    counts = _counts(report)
    for limits in (_ROOMY, _TIGHT):
        above = [*_seen_lines(report, limits, width), ""]
        below = [*_causes(report, limits, width), "", *_history(report, limits, width), "", *last]
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


def _names(label: str, head: str, before: str, names: Sequence[str], width: int, lines: int) -> list[str]:
    """A line with as many names as it holds, and how many there are besides."""
    words = [name.replace(" ", "\0") for name in names]
    for shown in range(min(len(names), _NAMES_SHOWN), 1, -1):
        found = labelled(label, f"{head}{before}{first_names(words, shown)}", width)
        if len(found) <= lines:
            return found
    return labelled(label, f"{head}{before if names else ''}{first_names(words, 1)}", width, lines)


def _seen_lines(report: Report, limits: _Limits, width: int) -> list[str]:
    run, cluster = report.run, report.cluster
    ledgers, replicas, bookies = extents(report)
    covered = [
        *labelled("replicas", str(replicas), width, 1),
        *_names(
            "bookies",
            str(bookies),
            "; not read: ",
            report.coverage.bookies.unread,
            width,
            limits.unread,
        ),
    ]
    lines = [
        *labelled(
            "cluster",
            f"{cluster.instance_id or 'no instance id'}, layout {cluster.layout}",
            width,
            limits.facts,
        ),
        *labelled("metadata", cluster.metadata_uri, width, limits.facts),
        *labelled("time", f"{format_time(run.scan_time)}{_scans(report)}", width),
        *labelled("ledgers", str(ledgers), width, 1),
        *(_no_bookies(bookies.total, width) if report.metadata_only else covered),
    ]
    if (blind := blind_sentence(report)) is not None:
        lines += _names("blind", blind, ": ", saw_nothing(report), width, limits.unread)
    if (accepted := accepted_gaps(report)) is not None:
        lines += labelled("accepted", accepted, width)
    if run.resumed is not None:
        lines += labelled(
            "resumed", f"with tables of an interrupted run, from {format_time(run.resumed)} on", width, None
        )
    if run.reused:
        lines += labelled("reused", reuse_sentence(run.reused), width, limits.facts)
    if run.in_doubt:
        lines += labelled("in doubt", doubtful_ids_line(run.in_doubt), width, limits.gaps)
    if run.gaps:
        lines += labelled(
            "not read",
            f"{plural(len(run.gaps), 'place', 'places')}, as {run.gaps[0]}",
            width,
            limits.gaps,
        )
    near = [note for note in run.notes if note.startswith(NEAR_LOSS)]
    lines += [line for note in near for line in labelled("at risk", note, width)]
    remarks = [note for note in run.notes if note not in near and not about_comparison(note)]
    return lines + _remarks(remarks, limits, width)


def _remarks(notes: list[str], limits: _Limits, width: int) -> list[str]:
    """The first sentences that a reader should see, as far as they fit, and how many more there are."""
    lines = []
    for number, note in enumerate(notes[: limits.remarks], 1):
        more = f" ({len(notes) - number:,} more)" if limits.remarks == number < len(notes) else ""
        room = width - len(more)
        lines += [line + more for line in labelled("remark", _brief(note, room - _LABEL), room, 1)]
    return lines


def _brief(note: str, room: int) -> str:
    """A remark's first clauses, as many as a line holds: `bkaudit explain run` has all of it.

    >>> _brief("3 journals were not read, so that some is suspect: bk-a, bk-b and 1 more", 40)
    '3 journals were not read'
    """
    ends = [clause.start() for clause in re.finditer(r"[:;,] ", note) if clause.start() <= room]
    return note[: ends[-1]] if len(note) > room and ends else note


def _no_bookies(expected: int, width: int) -> list[str]:
    """What was seen of the bookies where none was looked for."""
    return labelled(
        "bookies",
        f"{expected:,}, none read: without --bookies only the metadata is looked at, and whatever needs an "
        "index is unknown",
        width,
        lines=2,
    )


def _scans(report: Report) -> str:
    """Where in the store's history it was read, ZooKeeper's positions by their name."""
    where = " and ".join(dict.fromkeys(report.run.positions))
    named = f"zxid {where}" if where.startswith("0x") else where
    return f"; {named}" if named else ""


def _counts(report: Report) -> list[_Count]:
    """Each urgency, the rest by severity: how many findings, in how many ledgers, and each check's count."""
    blocks = []
    for label, group in groupby(count_by_check(report), key=_label):
        of = list(group)
        checks = [(_count(each).replace(" ", "\0"), each.sums["count"]) for each in of]
        about = f"{plural(sum(count for _, count in checks), 'finding')}{_impact(report, of)}"
        urgent = of[0].urgency != Urgency.REST or of[0].severity.at_least(_IN_FULL)
        blocks.append(_Count(label, urgent, about.replace(" ", "\0").replace(",\0", ", "), tuple(checks)))
    return blocks


def _label(of: CheckCount) -> str:
    return URGENCY_LABELS.get(of.urgency, str(of.severity))


def _impact(report: Report, of: list[CheckCount]) -> str:
    """The ledgers of these findings, where they are all that have their severity."""
    severities = {each.severity for each in of}
    others = [each for each in count_by_check(report) if each.severity in severities and each not in of]
    stake = [each for each in report.run.impact if each["severity"] in severities and each["ledgers"]]
    if others or len(severities) > 1 or not stake:
        return ""
    return f", on {plural(stake[0]['ledgers'], 'ledger')} of {size(stake[0]['bytes'])}"


def _count(found: CheckCount) -> str:
    """An id, its count, and what is to be said of some of them."""
    notable = found.unsure | {name: found.sums[name] for name in ("new", "worse", "suppressed")}
    parts = ", ".join(f"{count:,} {name}" for name, count in notable.items() if count)
    return f"{found.id} {found.sums['count']:,}{f' ({parts})' if parts else ''}"


def _causes(report: Report, limits: _Limits, width: int) -> list[str]:
    """What one thing explains; `bkaudit report` has what follows from it."""
    lines = []
    for cause in causes_of(report)[: limits.causes]:
        lines += labelled("cause", cause_sentence(cause), width)
    return lines


def _history(report: Report, limits: _Limits, width: int) -> list[str]:
    """What changed since the last run, and what is suppressed."""
    changes, entries = report.run.changes, report.run.suppressions
    reasons = [note for note in report.run.notes if about_comparison(note)]
    if changes is None:
        why = "; ".join(reasons) or "there is no earlier run to compare with"
        lines = labelled("changed", why, width)
    else:
        unseen = f"; {changes['unseen']:,} could not be looked at again" if changes["unseen"] else ""
        lines = labelled(
            "changed",
            f"{changes['new']:,} new, {changes['worse']:,} worse, {changes['fixed']:,} fixed, "
            f"{changes['better']:,} better, {changes['same']:,} as before, since "
            f"{format_time(changes['finished'])}{unseen}",
            width,
        )
        for reason in reasons:
            lines += fold_text(reason, width, " " * _LABEL, " " * _LABEL)
    total = sum(entry["count"] for entry in entries)
    expired = [f"{entry['reason']} ({entry['until']})" for entry in entries if entry["expired"]]
    standing = [f"{entry['reason']} (until {entry['until']})" for entry in entries if entry["count"]]
    said = [f"{total:,}: {first_names(standing, _REASONS_SHOWN)}"] if total else []
    said += [f"expired: {first_names(expired, _REASONS_SHOWN)}"] if expired else []
    return lines + (labelled("suppressed", "; ".join(said), width, limits.suppressed) if said else [])


def do_now_lines(report: Report, run: str, width: int) -> list[str]:
    """What to do first; its command stands in a line of its own where it does not fit behind."""
    if (step := report.do_now) is None:
        return []
    seen = step["urgency"] != Urgency.UNSEEN
    sure = f" ({Confidence.SUSPECT})" if seen and step["unsure"] == step["count"] else ""
    what, command = f"{step['action']}{sure}", step_command(step, run)
    if columns_of(line := f"{'do now':<{_LABEL}}{printable(what)}: {command}") <= width:
        return [line]
    return [*labelled("do now", f"{what}:", width), f"{'':<{_LABEL}}{command}"]


def step_command(step: Step, run: str) -> str:
    """What tells more of a step's first object."""
    check = f"bkaudit explain check {step['id']}"
    return command_for(_first_object(step), run) or check


def _first_object(step: Step) -> Finding:
    scope, ledger = (None if id is None else int(id) for id in (step["scope_id"], step["ledger_id"]))
    severity = Severity(step["severity"])
    return Finding(step["id"], severity, Confidence.CONFIRMED, scope, ledger, step["bookie_id"])


def _next(report: Report, run: str) -> list[str]:
    """Commands are never folded: they are there to be copied."""
    if not report.findings and report.verdict != Verdict.INCOMPLETE:
        return []
    commands = [f"bkaudit explain run {shlex.quote(printable(run))}"]
    if report.do_now is None and report.run.steps:
        commands.append(step_command(report.run.steps[0], run))
    return [f"{'next' if not number else '':<{_LABEL}}{command}" for number, command in enumerate(commands)]
