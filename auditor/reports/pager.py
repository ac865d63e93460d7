"""A run as one message for the person on call: changes since the last complete run, and the first action.

The message always has fewer than 20 lines. Each kind of change has one line, as long as there is room.
Counts include the changes that have no line. Suppressed findings are left out.

The Slack form suits an incoming webhook of Slack or of a compatible program. It has one ``text``, with a
headline and a code block. In this text, only ``&``, ``<`` and ``>`` are markup. They are escaped, so that
no name in the message notifies users.
"""

import json
import shlex
from collections.abc import Iterator

from auditor.model.amounts import first_names, format_time, plural
from auditor.model.finding import Confidence
from auditor.model.history import ChangedFinding, ChangeGroup, ChangesSince
from auditor.model.ledger_id import LedgerId
from auditor.model.report import Report
from auditor.model.states import Change
from auditor.reports.action_text import first_action_lines
from auditor.reports.coverage import checked_extents, count_by_check, severity_counts_text, verdict_word
from auditor.reports.plain_text import printable, shorten

MAX_LINES = 19
WIDTH = 160
"""Largest number of characters in a line. A command may have four times as many, so that it can be copied."""
MAX_SLACK_CHARACTERS = 4_000
"""Largest number of characters that Slack recommends for a text. Slack cuts a text at 40,000."""
_LABEL_COLUMNS = 11
_CHANGE_TEXTS = {Change.NEW: "new", Change.WORSE: "worse", Change.BETTER: "better", Change.FIXED: "fixed"}
_UNCHECKED_TEXT = "not checked again"
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'"})


def plain_message(report: Report, earlier_changes: ChangesSince, run: str) -> str:
    """Return the message as text. ``run`` is the name of the run in the commands of the message."""
    return "\n".join([_headline_text(report), *_message_lines(report, earlier_changes, run, WIDTH)])


def slack_message(report: Report, earlier_changes: ChangesSince, run: str) -> str:
    """Return the message as JSON for a Slack webhook. ``run`` is the name of the run in commands."""
    for width in (WIDTH, WIDTH // 2, WIDTH // 4, WIDTH // 8):
        code_block = "\n".join(_message_lines(report, earlier_changes, run, width)).translate(_SLACK_ESCAPES)
        text = f"*{_headline_text(report)}*\n```\n{code_block}\n```"
        if len(text) <= MAX_SLACK_CHARACTERS:
            break
    return json.dumps({"text": text, "unfurl_links": False, "unfurl_media": False}, ensure_ascii=False)


def _headline_text(report: Report) -> str:
    return f"BookKeeper audit: {verdict_word(report.verdict)}"


def _message_lines(report: Report, earlier_changes: ChangesSince, run: str, width: int) -> list[str]:
    coverage_lines = [*_run_lines(report), *_change_counts_line(report, earlier_changes)]
    first_action = first_action_lines(report, run, width)
    next_command_line = f"{'next':<{_LABEL_COLUMNS}}bkaudit explain run {shlex.quote(printable(run))}"
    change_lines = list(
        _change_lines(earlier_changes) if earlier_changes.run is not None else _finding_lines(report)
    )
    max_change_lines = MAX_LINES - 2 - len(first_action) - len(coverage_lines)
    if len(change_lines) > max_change_lines:
        change_lines[max_change_lines - 1 :] = [
            ("", f"and {plural(len(change_lines) - max_change_lines + 1, 'line')} more like these")
        ]
    shortened_lines = [
        f"{label:<{_LABEL_COLUMNS}}{shorten(text, width)}" for label, text in (*coverage_lines, *change_lines)
    ]
    return [
        *(shorten(line, 4 * width) for line in first_action),
        *shortened_lines,
        shorten(next_command_line, 4 * width),
    ]


def _run_lines(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the lines on cluster, time, counts and coverage."""
    yield "cluster", f"{report.cluster.name}, {format_time(report.run.scan_time)}"
    yield "found", severity_counts_text(report, suppressed=False) or "nothing"
    if not report.complete:
        yield "checked", "; ".join(checked_extent.sentence for checked_extent in checked_extents(report))


def _change_counts_line(report: Report, earlier_changes: ChangesSince) -> Iterator[tuple[str, str]]:
    """Yield the line with the time of the earlier run and the numbers of changes since then.

    Lines with warnings follow.
    """
    if earlier_changes.run is None:
        yield "since", "; ".join(earlier_changes.warnings) or "there is no earlier run"
        return
    counts = [
        f"{count:,} {change_word}"
        for change, change_word in _CHANGE_TEXTS.items()
        if (count := earlier_changes.count(change))
    ]
    if unseen_count := earlier_changes.count(Change.UNCHECKED):
        counts.append(f"{unseen_count:,} {_UNCHECKED_TEXT}")
    yield "since", f"{format_time(earlier_changes.run.finished)}: {', '.join(counts) or 'nothing changed'}"
    yield from (("warning", warning) for warning in earlier_changes.warnings)


def _change_lines(earlier_changes: ChangesSince) -> Iterator[tuple[str, str]]:
    """Yield a line for each group of new or worse findings.

    If there are fixed findings, one line for all of them follows. If there are unchecked findings, one line
    for all of them comes last.
    """
    for change_group in earlier_changes.groups:
        if change_group.change in (Change.NEW, Change.WORSE):
            names = first_names(
                [_subject_text(finding) for finding in change_group.first],
                len(change_group.first),
                change_group.count,
            )
            yield (
                _CHANGE_TEXTS[Change(change_group.change)],
                f"{change_group.severity} {_group_text(change_group)}: {names}",
            )
    for change, label in ((Change.FIXED, "fixed"), (Change.UNCHECKED, "unchecked")):
        if counts := [_group_text(group) for group in earlier_changes.groups if group.change == change]:
            yield label, ", ".join(counts)


def _finding_lines(report: Report) -> Iterator[tuple[str, str]]:
    """Yield a line for each check with findings. The message has these lines if there is no earlier run."""
    for check_count in count_by_check(report):
        if count := check_count.totals["count"] - check_count.totals["suppressed"]:
            unconfirmed_clause = (
                f" ({check_count.totals['unsure']:,} unconfirmed)" if check_count.totals["unsure"] else ""
            )
            yield "", f"{check_count.severity} {check_count.id} {count:,}{unconfirmed_clause}"


def _group_text(change_group: ChangeGroup) -> str:
    unconfirmed_clause = (
        f" ({change_group.confidence})" if change_group.confidence != Confidence.CONFIRMED else ""
    )
    return f"{change_group.id} {change_group.count:,}{unconfirmed_clause}"


def _subject_text(finding: ChangedFinding) -> str:
    parts = [f"bookie {finding.bookie_id}"] if finding.bookie_id is not None else []
    if finding.ledger_id is not None:
        parts.insert(0, LedgerId(finding.ledger_id, finding.scope_id or 0).display_name)
    return " on ".join(parts) or "the cluster"
