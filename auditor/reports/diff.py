"""Renderers of the difference between two runs: text, Markdown, one JSON object, and JSON lines."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from auditor.model.amounts import and_more, format_time
from auditor.model.comparison import StoreDifference
from auditor.model.finding import decimal_text
from auditor.model.history import ChangedFinding, Difference, RunSummary
from auditor.model.ledger_id import LedgerId
from auditor.model.states import Change
from auditor.reports.coverage import verdict_word
from auditor.reports.markdown import escape_markdown
from auditor.reports.plain_text import fold_text, labelled_lines, printable

SCHEMA = "bookkeeper-auditor/diff/2"
WIDTH = 80
MAX_SAMPLES_PER_CHANGE = 5
"""Largest number of findings shown for each change. Counts include those that are not shown."""

CHANGE_TITLES: dict[str, str] = {
    Change.NEW: "new",
    Change.WORSE: "worse",
    Change.BETTER: "better",
    Change.FIXED: "fixed",
    Change.UNCHECKED: "not checked again, so neither found nor ruled out",
    Change.SAME: "the same",
}


def sample_changes(changes: Iterable[ChangedFinding]) -> dict[str, list[ChangedFinding]]:
    """Return the first `MAX_SAMPLES_PER_CHANGE` findings of each kind of change."""
    findings_by_change: dict[str, list[ChangedFinding]] = {}
    for finding in changes:
        findings = findings_by_change.setdefault(finding.change, [])
        if len(findings) < MAX_SAMPLES_PER_CHANGE:
            findings.append(finding)
    return findings_by_change


def text(
    difference: Difference, samples_by_change: dict[str, list[ChangedFinding]], width: int = WIDTH
) -> str:
    """Return the difference as text for a terminal.

    Args:
        difference: The difference between two runs.
        samples_by_change: Findings to show for each kind of change (`sample_changes`).
        width: Columns of a line.

    Returns:
        A text with both runs, warnings, the counts and the shown findings, and both verdicts.
    """
    lines = [*_run_lines("old", difference.old, width), *_run_lines("new", difference.new, width)]
    for warning in difference.warnings:
        lines += labelled_lines("warning", warning, width)
    for change, count in difference.counts.items():
        if not count or change == Change.SAME:
            continue
        check_counts = [f"{tally.id} {tally.count:,}" for tally in difference.tally if tally.change == change]
        lines += [
            "",
            *fold_text(f"{count:,} {CHANGE_TITLES[change]}: {', '.join(check_counts)}", width, "", "    "),
        ]
        for finding in samples_by_change.get(change, ()):
            lines += fold_text(_finding_sentence(finding), width, "  ", "      ")
        lines += and_more(count - len(samples_by_change.get(change, ())), "; --format jsonl lists all", "  ")
    lines += ["", *fold_text(_verdict_sentence(difference), width)]
    return "\n".join(lines)


def markdown(difference: Difference, samples_by_change: dict[str, list[ChangedFinding]]) -> str:
    """Return the difference as Markdown, for a mail or a ticket, with the samples of `sample_changes`."""
    lines = [
        f"**{escape_markdown(_verdict_sentence(difference))}**",
        "",
        "| | run | finished | found |",
        "|---|---|---|---|",
    ]
    for label, run in (("old", difference.old), ("new", difference.new)):
        name, result_text = escape_markdown(run.name), escape_markdown(_run_result_text(run))
        lines.append(f"| {label} | {name} | {format_time(run.finished)} | {result_text} |")
    lines += ["", *(f"- Warning: {escape_markdown(warning)}" for warning in difference.warnings)]
    for change, count in difference.counts.items():
        findings = samples_by_change.get(change, [])
        if not findings:
            continue
        lines += ["", f"### {count:,} {CHANGE_TITLES[change]}", ""]
        lines += [f"- {escape_markdown(_finding_sentence(finding))}" for finding in findings]
        lines += and_more(count - len(findings), indent="- ")
    return "\n".join(lines)


def to_json(difference: Difference, samples_by_change: dict[str, list[ChangedFinding]]) -> str:
    """Return one JSON object: both runs, warnings, complete counts, and samples of each kind of change."""
    difference_object = {
        "schema": SCHEMA,
        "old": asdict(difference.old),
        "new": asdict(difference.new),
        "warnings": list(difference.warnings),
        "counts": difference.counts,
        "tally": [asdict(tally) for tally in difference.tally],
        "samples": [
            with_decimal_ids(finding) for findings in samples_by_change.values() for finding in findings
        ],
    }
    return json.dumps(difference_object, indent=2, ensure_ascii=False)


def jsonl(changes: Iterable[ChangedFinding]) -> Iterator[str]:
    """Yield one JSON line for each changed finding, as it arrives. Ledger ids are decimal strings."""
    for finding in changes:
        yield json.dumps(with_decimal_ids(finding), ensure_ascii=False, separators=(",", ":"))


def _run_lines(label: str, run: RunSummary, width: int) -> list[str]:
    # A NUL is a blank at which no line breaks.
    result_text = ", ".join(text_part.replace(" ", "\0") for text_part in _run_result_text(run).split(", "))
    run_text = f"{run.name}, finished {format_time(run.finished)}: {result_text}"
    return labelled_lines(label, run_text, width)


def _run_result_text(run: RunSummary) -> str:
    severity_counts = [f"{count:,} {severity}" for severity, count in run.severities.items() if count]
    return f"{run.verdict}, {', '.join(severity_counts) or 'no finding'}"


def _finding_sentence(finding: ChangedFinding) -> str:
    ledger = finding.ledger_id
    name = None if ledger is None else LedgerId(ledger, finding.scope_id or 0).full_display_name
    bookie = None if finding.bookie_id is None else printable(finding.bookie_id)
    subject_text = ", ".join(text_part for text_part in (name, bookie) if text_part) or "the cluster"
    finding_text = f"{finding.severity} {finding.id}: {subject_text}"
    earlier_texts = [
        earlier_value
        for earlier_value, later_value in (
            (finding.previous_severity, finding.severity),
            (finding.previous_confidence, finding.confidence),
        )
        if earlier_value not in (None, later_value)
    ]
    if earlier_texts:
        finding_text += f"; was {', '.join(earlier_texts)}"
    if finding.missing or finding.previous_missing:
        finding_text += f"; {finding.missing:,} {'entry' if finding.missing == 1 else 'entries'} missing"
        if finding.previous_missing not in (None, finding.missing):
            finding_text += f", were {finding.previous_missing:,}"
    if finding.change != Change.NEW:
        finding_text += f"; first seen {format_time(finding.first_seen)}"
    return finding_text + (f" [suppressed: {printable(finding.suppressed)}]" if finding.suppressed else "")


def _verdict_sentence(difference: Difference) -> str:
    change_counts = [f"{count:,} {change}" for change, count in difference.counts.items() if count]
    changes_text = ", ".join(change_counts) or "neither run has findings"
    return f"{verdict_word(difference.old.verdict)} to {verdict_word(difference.new.verdict)}: {changes_text}"


def with_decimal_ids(difference: ChangedFinding | StoreDifference) -> dict[str, Any]:
    """Return the fields of a difference for JSON, with ledger and scope ids as decimal strings."""
    return asdict(difference) | {
        "scope_id": decimal_text(difference.scope_id),
        "ledger_id": decimal_text(difference.ledger_id),
    }
