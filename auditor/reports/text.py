"""A report as text: findings, the worst last, then the first screen, which ends with the verdict.

So what matters most stands at the end, where a terminal and a log are read. At a terminal text keeps to its
width, but for commands, which stay whole to be copied, and findings come by check, with their entries; colour
is the caller's. For a pipe a finding is one line that grep finds whole, and no line is broken.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import groupby

from auditor.checks import BY_ID
from auditor.model.amounts import first_names, plural
from auditor.model.finding import Finding, Severity, Standing, Standings, Urgency, no_standing
from auditor.model.report import Report
from auditor.reports import first_screen
from auditor.reports.coverage import count_by_check, count_of, sample_words
from auditor.reports.finding_text import (
    BOOKIES_SHOWN,
    cause_sentence,
    causes_of,
    command_for,
    entry_parts,
    finding_line,
    follows,
    is_suppressed,
    names_subject,
    subject,
    tags,
)
from auditor.reports.plain_text import fold_text, printable

WIDTH = first_screen.WIDTH
NARROWEST, WIDEST = 40, 100

UNBROKEN = 1 << 20
"""Columns of a line that nobody breaks."""

WithStanding = tuple[Finding, Standing | None]
Rank = tuple[Urgency, Severity]
OfRank = Callable[[Rank], Iterable[WithStanding]]
"""From an urgency and a severity to their findings, in order, each with its standing."""


def samples(report: Report, standings: Standings = no_standing) -> OfRank:
    """The findings that a report shows."""
    return lambda rank: (
        (finding, standings(finding.fingerprint))
        for finding in report.findings
        if (finding.urgency, finding.severity) == rank
    )


def _ranks(report: Report) -> list[Rank]:
    """Those that the report's findings have, the last to act on first."""
    ranks = {(check_count.urgency, check_count.severity) for check_count in count_by_check(report)}
    ranks |= {(finding.urgency, finding.severity) for finding in report.findings}
    return sorted(ranks, key=lambda rank: (rank[0].rank, rank[1].rank), reverse=True)


def render(report: Report, run: str = "RUN", width: int = WIDTH, standings: Standings = no_standing) -> str:
    """All that a report shows, for a terminal of ``width`` columns: its findings by cause and check, and the
    screen.

    ``run`` is how the commands in it name the run; ``standings`` say since when a finding has been there.
    """
    width = max(NARROWEST, min(width, WIDEST))
    sections = list(for_terminal(report, samples(report, standings), run, width))
    return "\n\n".join([*sections, first_screen.render(report, run, width)])


def for_terminal(
    report: Report, findings: OfRank, run: str, width: int, suppressed: bool = True, flat: bool = False
) -> Iterator[str]:
    """A section for each check that found something, the least urgent first, then one for each cause.

    Without findings that are suppressed if not ``suppressed``; what a cause explains is in its section alone
    if not ``flat``.
    """
    grouped = set() if flat else {cause["number"] for cause in causes_of(report)}
    for rank in _ranks(report):
        shown = (
            entry for entry in _without_news(report, findings(rank)) if _is_shown(entry, suppressed, grouped)
        )
        for _, group in groupby(shown, key=lambda entry: entry[0].id):
            yield _section(report, list(group), run, width)
    if grouped:
        for cause in reversed(causes_of(report)):
            lines = fold_text(cause_sentence(cause), width, "", "  ")
            yield "\n".join([*lines, *fold_text(follows(cause), width, "  ", "    ")])


def for_pipe(report: Report, findings: OfRank, suppressed: bool = True, flat: bool = False) -> Iterator[str]:
    """A line for each finding, the least urgent first, then one for each cause; as `for_terminal`."""
    grouped = set() if flat else {cause["number"] for cause in causes_of(report)}
    for rank in _ranks(report):
        for finding, standing in _without_news(report, findings(rank)):
            if _is_shown((finding, standing), suppressed, grouped):
                yield finding_line(finding, standing)
    if grouped:
        for cause in reversed(causes_of(report)):
            yield printable(f"cause {cause['kind']} {cause_sentence(cause)}; {follows(cause)}")


def _without_news(report: Report, findings: Iterable[WithStanding]) -> Iterable[WithStanding]:
    """The findings of a report; of a first run none is called new."""
    if report.run.changes is not None:
        return findings
    return (
        (finding, standing and Standing("", standing.first_seen, standing.suppressed))
        for finding, standing in findings
    )


def _is_shown(entry: WithStanding, suppressed: bool, grouped: Set[int]) -> bool:
    return entry[0].cause not in grouped and (suppressed or not is_suppressed(entry[1]))


def suppressed_note(report: Report) -> str | None:
    """How many findings are not shown because a suppression names them; None for none."""
    count = sum(tally["suppressed"] for tally in report.run.tally)
    return f"{plural(count, 'suppressed finding')} hidden: --show-suppressed shows them" if count else None


def _section(report: Report, findings: list[WithStanding], run: str, width: int) -> str:
    first = findings[0][0]
    shown, id = sample_words(len(findings), count_of(report, first)), first.id
    lines = [f"{id} ({first.severity}; {shown})"]
    if check := BY_ID.get(id):
        lines += fold_text(check.title, width, "  ", "  ")
    for finding, standing in findings:
        lines += _finding(finding, width, standing)
    command = command_for(first, run)
    lines += [f"  bkaudit explain check {shlex.quote(id)}", *([f"  {command}"] if command else [])]
    return "\n".join(lines)


def _finding(finding: Finding, width: int, standing: Standing | None) -> list[str]:
    about = [part.removeprefix("bookie ") for part in subject(finding)]
    tag_text = ", ".join(tags(finding, standing))
    tag_text = f" [{printable(tag_text)}]" if tag_text else ""
    head = (
        f"{finding.message}{tag_text}"
        if names_subject(finding) or not about
        else f"{', '.join(about)}{tag_text}: {finding.message}"
    )
    lines = fold_text(head, width, "  ", "      ")
    for part in entry_parts(finding, BOOKIES_SHOWN):
        lines += fold_text(part, width, "      ", "        ")
    if finding.unknown:
        unknown = f"unknown on {first_names(finding.unknown, BOOKIES_SHOWN)}"
        lines += fold_text(unknown, width, "      ", "        ")
    return lines
