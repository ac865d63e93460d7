"""A report as Markdown, short enough for a mail or an issue tracker.

Texts from the cluster's metadata are escaped, so that they cannot become markup, HTML, a link or a mention.
"""

import re
from itertools import groupby

from auditor.checks import CHECK_BY_ID
from auditor.checks.needs import AvailableInputs
from auditor.model.amounts import first_names, format_time
from auditor.model.finding import ChangeStatus, Finding, StatusLookup, no_change_status
from auditor.model.report import Report
from auditor.model.run_facts import sentence_of
from auditor.reports.blind_spots import make_blind_spots
from auditor.reports.coverage import (
    changed_constants,
    checked_extents,
    count_by_check,
    count_findings_of_check,
    doubtful_ids_line,
    reuse_sentence,
    sample_count_text,
    severity_counts_text,
    verdict_clauses,
    verdict_word,
)
from auditor.reports.finding_text import entry_texts, message_texts
from auditor.reports.plain_text import printable

MAX_CHARACTERS = 60_000
"""Largest size of the report, in characters. Issue trackers accept 65,536 characters."""

MAX_SAMPLES_SHOWN = 5
"""Largest number of findings shown for a check. Counts also include the findings that are not shown."""

_MAX_BOOKIES_SHOWN = 3
_MAX_FIELD_CHARACTERS = 1_000  # of one text from the cluster
_MARKUP_CHARACTERS = re.compile(r"[\\`*_{}\[\]|~$!]")
_HTML_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;"})
_LINK_START = re.compile(r"\b(?:(https?|ftp|mailto|xmpp)(:)|(www)(\.))", re.IGNORECASE)


def render(report: Report, change_statuses: StatusLookup = no_change_status) -> str:
    """Return the report: verdict, coverage and counts, then the findings that fit into `MAX_CHARACTERS`."""
    text = "\n\n".join([_head_section(report), _coverage_section(report), *_count_lines(report)])
    remaining_characters = MAX_CHARACTERS - len(_CUT_NOTE)
    for _, findings_of_check in groupby(
        report.findings, key=lambda finding: (finding.urgency, finding.severity, finding.id)
    ):
        section = "\n\n" + _check_section(report, list(findings_of_check), change_statuses)
        if len(text) + len(section) > remaining_characters:
            return text + _CUT_NOTE
        text += section
    return text


_CUT_NOTE = "\n\nThere is more: `bkaudit report RUN` shows everything.\n"


def escape_markdown(text: str) -> str:
    """Escape a text for CommonMark and for the dialects of GitHub and GitLab.

    >>> escape_markdown("<b>*x*</b> @all #1 http://evil")
    '&lt;b&gt;\\\\*x\\\\*&lt;/b&gt; &#64;all &#35;1 http\\\\://evil'
    """
    text = printable(text if len(text) <= _MAX_FIELD_CHARACTERS else f"{text[:_MAX_FIELD_CHARACTERS]}...")
    text = _MARKUP_CHARACTERS.sub(lambda match_groups: f"\\{match_groups[0]}", text)
    text = _LINK_START.sub(
        lambda match_groups: f"{match_groups[1] or match_groups[3]}\\{match_groups[2] or match_groups[4]}",
        text,
    )
    return text.translate(_HTML_ENTITIES)


def _head_section(report: Report) -> str:
    counts = severity_counts_text(report) or "Nothing was found"
    lines = [
        f"## BookKeeper audit: {verdict_word(report.verdict)}",
        f"{'; '.join([counts, *verdict_clauses(report)])}.",
    ]
    if changes := report.run.changes:
        unchecked_clause = f"; {changes['unseen']:,} not checked again" if changes["unseen"] else ""
        lines.append(
            f"Since {format_time(changes['finished'])}: {changes['new']:,} new, {changes['worse']:,} worse, "
            f"{changes['better']:,} better, {changes['fixed']:,} fixed, {changes['same']:,} unchanged"
            f"{unchecked_clause}."
        )
    if expired_rules := [suppression for suppression in report.run.suppressions if suppression["expired"]]:
        verb = "suppression has" if len(expired_rules) == 1 else "suppressions have"
        lines.append(
            f"{len(expired_rules):,} {verb} expired, such as: {escape_markdown(expired_rules[0]['reason'])}"
        )
    lines += [
        f"Remark: {escape_markdown(sentence_of(notice))}" for notice in report.run.remarks[:MAX_SAMPLES_SHOWN]
    ]
    return "\n\n".join(lines)


def _coverage_section(report: Report) -> str:
    run, cluster = report.run, report.cluster
    unread_text = first_names(
        [escape_markdown(name) for name in report.coverage.bookies.unread], MAX_SAMPLES_SHOWN
    )
    if report.is_metadata_only:
        unread_text = "all of them, because --bookies is missing; only metadata was checked"
    rows = [
        ("cluster", escape_markdown(cluster.instance_id or "no instance id")),
        ("metadata", escape_markdown(cluster.metadata_uri)),
        ("time", format_time(run.scan_time)),
        *((checked_extent.name, str(checked_extent)) for checked_extent in checked_extents(report)),
    ]
    if unread_text:
        rows[-1] = ("bookies", f"{rows[-1][1]}; not read: {unread_text}")
    rows += [
        ("skipped checks", f"{escape_markdown(blind_spot.sentence)}; checks: {', '.join(blind_spot.ids)}")
        for blind_spot in make_blind_spots(AvailableInputs.from_report(report))
    ]
    if constant_texts := changed_constants(report):
        rows.append(("constants", "; ".join(constant_texts)))
    if run.reused:
        rows.append(("not read again", escape_markdown(reuse_sentence(run.reused))))
    if run.in_doubt:
        rows.append(("unknown", escape_markdown(doubtful_ids_line(run.in_doubt))))
    if run.gaps:
        rows.append(("not read", f"{len(run.gaps):,} paths, such as {escape_markdown(run.gaps[0])}"))
    return "\n".join(["| checked | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)])


def _count_lines(report: Report) -> list[str]:
    """Return the table of findings by check, and the table of ledgers and bytes by severity."""
    if not report.run.tally:
        return []
    count_rows = [
        "| severity | check | findings | unconfirmed | new | worse | suppressed |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for check_count in count_by_check(report):
        count_texts = (
            f"{check_count.totals[name]:,}" for name in ("count", "unsure", "new", "worse", "suppressed")
        )
        count_rows.append(
            f"| {check_count.severity} | {escape_markdown(check_count.id)} | {' | '.join(count_texts)} |"
        )
    parts = ["\n".join(count_rows)]
    if report.run.impact:
        rows = [
            f"| {impact['severity']} | {impact['ledgers']:,} | {impact['bytes']:,} |"
            for impact in report.run.impact
        ]
        parts.append("\n".join(["| severity | ledgers | bytes |", "| --- | ---: | ---: |", *rows]))
    return [
        *parts,
        "Causes and actions: `bkaudit explain check CHECK`. All findings: `bkaudit report RUN --format csv`.",
    ]


def _check_section(report: Report, findings: list[Finding], change_statuses: StatusLookup) -> str:
    shown_findings, id = findings[:MAX_SAMPLES_SHOWN], findings[0].id
    count = sample_count_text(len(shown_findings), count_findings_of_check(report, findings[0]))
    lines = [f"### {escape_markdown(id)} ({findings[0].severity}; {count})", ""]
    if check := CHECK_BY_ID.get(id):
        lines += [escape_markdown(check.title), ""]
    return "\n".join(
        [
            *lines,
            *(_finding_item(finding, change_statuses(finding.fingerprint)) for finding in shown_findings),
        ]
    )


def _finding_item(finding: Finding, change_status: ChangeStatus | None) -> str:
    subject_text, message, tags_text = map(escape_markdown, message_texts(finding, change_status))
    lines = [f"- {f'**{subject_text}**: ' if subject_text else ''}{message}{tags_text}"]
    if parts := entry_texts(finding, _MAX_BOOKIES_SHOWN):
        lines.append(f"  - {escape_markdown('; '.join(parts))}")
    return "\n".join(lines)
