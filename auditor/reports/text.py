"""A report as text: findings, the worst last, then the first screen, which ends with the verdict.

The most important lines come at the end, where readers of a terminal or a log look first. At a terminal,
findings are grouped by check and show their entries. All lines except commands are folded, and the caller
adds colours. In a pipe, each finding is one whole line, so that grep finds it.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import groupby

from auditor.checks import CHECK_BY_ID
from auditor.model.amounts import first_names, plural
from auditor.model.finding import ChangeStatus, Finding, Severity, StatusLookup, Urgency, no_change_status
from auditor.model.report import Report
from auditor.reports import first_screen
from auditor.reports.coverage import count_by_check, count_findings_of_check, sample_count_text
from auditor.reports.finding_text import (
    MAX_BOOKIES_SHOWN,
    cause_sentence,
    causes_of,
    command_for,
    entry_texts,
    explained_findings_text,
    finding_line,
    is_sentence_on_subject,
    is_suppressed,
    subject_texts,
    tag_texts,
)
from auditor.reports.plain_text import fold_text, printable

WIDTH = first_screen.WIDTH
MIN_WIDTH, MAX_WIDTH = 40, 100

UNLIMITED_WIDTH = 1 << 20
"""Number of columns for lines that are never folded."""

FindingStatus = tuple[Finding, ChangeStatus | None]
Rank = tuple[Urgency, Severity]
FindingsOfRank = Callable[[Rank], Iterable[FindingStatus]]
"""Function that returns the findings with a given urgency and severity, each with its change status."""


def make_findings_lookup(report: Report, change_statuses: StatusLookup = no_change_status) -> FindingsOfRank:
    """Return a function that returns the report's findings with a given urgency and severity."""
    return lambda requested_rank: (
        (finding, change_statuses(finding.fingerprint))
        for finding in report.findings
        if (finding.urgency, finding.severity) == requested_rank
    )


def _listed_ranks(report: Report) -> list[Rank]:
    """Return the pairs of urgency and severity of the report's findings, the least urgent first."""
    ranks = {(check_count.urgency, check_count.severity) for check_count in count_by_check(report)}
    ranks |= {(finding.urgency, finding.severity) for finding in report.findings}
    return sorted(
        ranks, key=lambda requested_rank: (requested_rank[0].rank, requested_rank[1].rank), reverse=True
    )


def render(
    report: Report, run: str = "RUN", width: int = WIDTH, change_statuses: StatusLookup = no_change_status
) -> str:
    """Return the findings in the report by check and cause, then the first screen, for a terminal.

    Args:
        report: The report of a run.
        run: Name of the run in commands.
        width: Columns of a line.
        change_statuses: Function that maps the fingerprint of a finding to its change status.
    """
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    sections = list(terminal_sections(report, make_findings_lookup(report, change_statuses), run, width))
    return "\n\n".join([*sections, first_screen.render(report, run, width)])


def terminal_sections(
    report: Report,
    findings: FindingsOfRank,
    run: str,
    width: int,
    show_suppressed: bool = True,
    shows_explained: bool = False,
) -> Iterator[str]:
    """Yield a section for each check with findings, the least urgent first, then one for each cause.

    Args:
        report: The report of a run.
        findings: The findings to show, by urgency and severity.
        run: Name of the run in commands.
        width: Columns of a line.
        show_suppressed: Whether suppressed findings are shown.
        shows_explained: Whether findings that a cause explains are shown with their check. If False, only
            their number is shown, in the section of the cause.
    """
    grouped_cause_numbers = set() if shows_explained else {cause["number"] for cause in causes_of(report)}
    for requested_rank in _listed_ranks(report):
        shown_findings = (
            finding_entry
            for finding_entry in _hide_new_in_first_run(report, findings(requested_rank))
            if _is_shown(finding_entry, show_suppressed, grouped_cause_numbers)
        )
        for _, findings_of_check in groupby(shown_findings, key=lambda finding_entry: finding_entry[0].id):
            yield _check_section(report, list(findings_of_check), run, width)
    if grouped_cause_numbers:
        for cause in reversed(causes_of(report)):
            lines = fold_text(cause_sentence(cause), width, "", "  ")
            yield "\n".join([*lines, *fold_text(explained_findings_text(cause), width, "  ", "    ")])


def pipe_lines(
    report: Report, findings: FindingsOfRank, show_suppressed: bool = True, shows_explained: bool = False
) -> Iterator[str]:
    """Yield one line for each finding, the least urgent first, then one for each cause.

    The parameters are those of `terminal_sections`.
    """
    grouped_cause_numbers = set() if shows_explained else {cause["number"] for cause in causes_of(report)}
    for requested_rank in _listed_ranks(report):
        for finding, change_status in _hide_new_in_first_run(report, findings(requested_rank)):
            if _is_shown((finding, change_status), show_suppressed, grouped_cause_numbers):
                yield finding_line(finding, change_status)
    if grouped_cause_numbers:
        for cause in reversed(causes_of(report)):
            yield printable(
                f"cause {cause['kind']} {cause_sentence(cause)}; {explained_findings_text(cause)}"
            )


def _hide_new_in_first_run(report: Report, findings: Iterable[FindingStatus]) -> Iterable[FindingStatus]:
    """Return the findings. If this is the first run, leave out the change "new", which every finding has."""
    if report.run.changes is not None:
        return findings
    return (
        (finding, change_status and ChangeStatus("", change_status.first_seen, change_status.suppressed))
        for finding, change_status in findings
    )


def _is_shown(finding_entry: FindingStatus, show_suppressed: bool, grouped_cause_numbers: Set[int]) -> bool:
    return finding_entry[0].cause not in grouped_cause_numbers and (
        show_suppressed or not is_suppressed(finding_entry[1])
    )


def suppressed_note(report: Report) -> str | None:
    """Return a note that suppressed findings are hidden, with their number. None if there are none."""
    count = sum(tally["suppressed"] for tally in report.run.tally)
    return f"{plural(count, 'suppressed finding')} hidden: --show-suppressed shows them" if count else None


def _check_section(report: Report, findings: list[FindingStatus], run: str, width: int) -> str:
    first_finding = findings[0][0]
    shown_findings, id = (
        sample_count_text(len(findings), count_findings_of_check(report, first_finding)),
        first_finding.id,
    )
    lines = [f"{id} ({first_finding.severity}; {shown_findings})"]
    if check := CHECK_BY_ID.get(id):
        lines += fold_text(check.title, width, "  ", "  ")
    for finding, change_status in findings:
        lines += _finding_lines(finding, width, change_status)
    command = command_for(first_finding, run)
    lines += [f"  bkaudit explain check {shlex.quote(id)}", *([f"  {command}"] if command else [])]
    return "\n".join(lines)


def _finding_lines(finding: Finding, width: int, change_status: ChangeStatus | None) -> list[str]:
    bookie_names = [part.removeprefix("bookie ") for part in subject_texts(finding)]
    tags_text = ", ".join(tag_texts(finding, change_status))
    tags_text = f" [{printable(tags_text)}]" if tags_text else ""
    finding_head = (
        f"{finding.message}{tags_text}"
        if is_sentence_on_subject(finding) or not bookie_names
        else f"{', '.join(bookie_names)}{tags_text}: {finding.message}"
    )
    lines = fold_text(finding_head, width, "  ", "      ")
    for part in entry_texts(finding, MAX_BOOKIES_SHOWN):
        lines += fold_text(part, width, "      ", "        ")
    if finding.unknown:
        unknown_text = f"unknown on {first_names(finding.unknown, MAX_BOOKIES_SHOWN)}"
        lines += fold_text(unknown_text, width, "      ", "        ")
    return lines
