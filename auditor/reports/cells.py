"""HTML fragments for notebook cells that show parts of a run, without script, style sheet or image file.

Texts from the cluster are escaped and limited in length. Every colour is accompanied by a symbol or a word.
"""

from collections.abc import Iterable, Sequence
from html import escape

from auditor.model.amounts import first_names, format_time, size
from auditor.model.report import Report
from auditor.model.views import BookieView, LedgerView
from auditor.reports import bookie as bookie_text
from auditor.reports import ledger as ledger_text
from auditor.reports.blind_spots import no_input_sentence, not_run_sentence
from auditor.reports.coverage import (
    changed_constants,
    checked_extents,
    count_by_check,
    count_by_severity,
    verdict,
)
from auditor.reports.finding_text import subject_texts
from auditor.reports.ledger import Cell, replicas_of, stripes_of
from auditor.reports.plain_text import printable

MAX_FINDINGS_SHOWN = 12
MAX_DRAWING_COLUMNS, MAX_DRAWING_ROWS = 80, 40
"""Largest number of columns and of rows in the drawing of a ledger."""

_MAX_TEXT_CHARACTERS = 300  # characters of one field at most
_MAX_UNREAD_SHOWN = 5
_SEVERITY_COLOURS = {"critical": "#a50026", "error": "#c2410c", "warning": "#a16207", "note": "#4b6584"}
_CELL_COLOURS = {
    Cell.PRESENT: ("#4c86a8", "#ffffff", ""),
    Cell.MISSING: ("#a50026", "#ffffff", "×"),
    Cell.SOME_MISSING: ("#f46d43", "#000000", "×"),
    Cell.UNKNOWN: ("#b9b2d1", "#000000", "?"),
    Cell.SURPLUS: ("#fdc776", "#000000", "+"),
    Cell.NOT_EXPECTED: ("#f1f3f5", "#000000", ""),
}


def run_cell(report: Report) -> str:
    """Return a cell with the verdict and the coverage.

    For each severity, the cell also has the numbers of findings, ledgers and bytes.
    """
    ledgers, replicas, bookies = checked_extents(report)
    unread_text = first_names(report.coverage.bookies.unread, _MAX_UNREAD_SHOWN)
    fact_rows = [
        ("cluster", f"{report.cluster.instance_id or 'no instance id'}, layout {report.cluster.layout}"),
        ("metadata", report.cluster.metadata_uri),
        ("time", format_time(report.run.scan_time)),
        ("ledgers", str(ledgers)),
        ("replicas", str(replicas)),
        ("bookies", f"{bookies}{f'; not read: {unread_text}' if unread_text else ''}"),
        *([("not run", not_run_text)] if (not_run_text := not_run_sentence(report)) else []),
        *(
            [("constants", "; ".join(constant_texts))]
            if (constant_texts := changed_constants(report))
            else []
        ),
        *([("blind", blind_text)] if (blind_text := no_input_sentence(report)) else []),
    ]
    return _html_block(
        f"<b>{_escape_text(verdict(report))}</b>", _severity_table(report), _table_html((), fact_rows)
    )


def findings_cell(report: Report) -> str:
    """Return a cell with the number of findings of every check, and the first findings in the report."""
    count_rows = [
        (
            _severity_label(check_count.severity),
            check_count.id,
            *(f"{check_count.totals[name]:,}" for name in ("count", "unsure", "new")),
        )
        for check_count in count_by_check(report)
    ]
    total = sum(report.counts.values())
    shown_findings = report.findings[:MAX_FINDINGS_SHOWN]
    rows = [
        (_severity_label(finding.severity), finding.id, ", ".join(subject_texts(finding)), finding.message)
        for finding in shown_findings
    ]
    remainder_note = (
        f"the first {len(shown_findings)} are shown; iterate over the findings to read all"
        if total > len(shown_findings)
        else ""
    )
    return _html_block(
        f"<b>{total:,} finding{'' if total == 1 else 's'}</b>",
        _table_html(("severity", "check", "findings", "not confirmed", "new"), count_rows)
        if count_rows
        else "",
        _table_html(("severity", "check", "about", "message"), rows) if rows else "",
        remainder_note,
    )


def ledger_cell(ledger: LedgerView) -> str:
    """Return a cell with the drawing of a ledger in colour, above the text of `auditor.reports.ledger`."""
    stripes = stripes_of(ledger, replicas_of(ledger), MAX_DRAWING_COLUMNS, MAX_DRAWING_ROWS)
    if not stripes.bookies:
        return _html_block(_pre_html(ledger_text.render(ledger)))
    rows = [
        f'<tr><th style="text-align:left;font-weight:normal;padding:0 8px 0 0">{_escape_text(name)}</th>'
        f"{''.join(map(_cell_html, cells))}</tr>"
        for name, cells in zip(stripes.bookies, stripes.cells, strict=True)
    ]
    entries = f"entries 0 to {stripes.column_edges[-1] - 1}"
    hidden = stripes.bookies_total - len(stripes.bookies)
    cell_states = [
        cell_state for cell_state in _CELL_COLOURS if any(cell_state in cells for cells in stripes.cells)
    ]
    legend = " ".join(
        f"<td>&nbsp;</td>{_cell_html(cell_state)}<td>{cell_state}</td>" for cell_state in cell_states
    )
    return _html_block(
        f'<table style="border-collapse:separate;border-spacing:1px">{"".join(rows)}</table>',
        f"<table><tr><td>{entries}{f'; {hidden:,} more bookies' if hidden else ''}</td>{legend}</tr></table>",
        _pre_html(ledger_text.render(ledger, drawing=False)),
    )


def bookie_cell(bookie: BookieView) -> str:
    """Return a cell with a bookie's identity, ledger counts as bars, disks and problems.

    Below them, a collapsed section has the whole page of `auditor.reports.bookie`.
    """
    registration_modes = ", ".join(registration.mode for registration in bookie.registrations)
    cookie = bookie.cookie
    fact_rows = [
        ("registered", registration_modes or "no"),
        ("cookie", "none in the store" if cookie is None else cookie.damage or f"of {cookie.bookie_host}"),
        ("read", f"{bookie.read}{f': {bookie.reason}' if bookie.reason else ''}"),
        *(
            (("same as" if alias.is_same_bookie else "looks like"), alias.bookie_id)
            for alias in bookie.aliases
        ),
    ]
    ledger_counts = [
        ("ledgers that name it", bookie.ledgers),
        ("ledgers with entries on it", bookie.depending),
        ("ledgers checked on it", bookie.replicas),
        *([("ledgers on its disks", bookie.held_ledgers)] if bookie.held_ledgers is not None else []),
        ("ledgers on its disks that are not in the metadata", bookie.orphan_ledgers),
    ]
    disk_rows = [
        (
            directory.path,
            directory.role,
            directory.cookie_bookie_id or directory.damage or "none",
            directory.instance_id or "none",
            format_time(directory.index_time) if directory.index_time is not None else "",
            ", ".join(
                f"{content_match.matching_ledgers:,} of {content_match.bookie_id}"
                for content_match in directory.owner_candidates
            ),
        )
        for directory in bookie.directories
    ]
    problem_rows = [
        (
            _severity_label(problem.severity),
            problem.id,
            f"{problem.count:,}",
            f"{problem.unconfirmed_count:,}",
            "; ".join(problem.messages),
        )
        for problem in bookie.problems
    ]
    return _html_block(
        f"<b>bookie {_escape_text(bookie.bookie_id)}</b>",
        _table_html((), fact_rows),
        _bar_chart(ledger_counts),
        _table_html(
            ("directory", "role", "VERSION of", "instance", "last mark", "ledgers, exactly"), disk_rows
        )
        if disk_rows
        else "no directory was found",
        _table_html(("severity", "check", "findings", "not confirmed", "the first"), problem_rows)
        if problem_rows
        else "no problem was found",
        "<details><summary>all problems, and what to "
        f"do</summary>{_pre_html(bookie_text.render(bookie))}</details>",
    )


def terminal_text(text: str) -> str:
    """Return a text for a terminal: the same lines, with a question mark for each invisible character.

    >>> terminal_text("bk-1\\x1b[31m\\nbk-2")
    'bk-1?[31m\\nbk-2'
    """
    return "\n".join(printable(line) for line in text.split("\n"))


def _bar_chart(counts: Sequence[tuple[str, int]]) -> str:
    """Return an HTML table with a bar beside each number. The longest bar is 300 pixels wide."""
    max_count = max((count for _, count in counts), default=0) or 1
    bar_html = '<div style="background:#4c86a8;height:12px;width:{}px"></div>'
    return _table_html(
        (),
        [
            (name, f"{count:,}", _EscapedText(bar_html.format(count * 300 // max_count)))
            for name, count in counts
        ],
    )


def _severity_table(report: Report) -> str:
    impacts_by_severity = {impact_row["severity"]: impact_row for impact_row in report.run.impact}
    rows = []
    for severity, severity_counts in count_by_severity(report).items():
        severity_impact = impacts_by_severity.get(str(severity))
        rows.append(
            (
                _severity_label(severity),
                f"{severity_counts['count']:,}",
                f"{severity_counts['new']:,}",
                f"{severity_impact['ledgers']:,}" if severity_impact else "",
                size(severity_impact["bytes"]) if severity_impact else "",
            )
        )
    return _table_html(("severity", "findings", "new", "ledgers", "bytes"), rows)


class _EscapedText(str):
    """Text that is already escaped as HTML."""


def _severity_label(severity: str) -> _EscapedText:
    return _EscapedText(
        f'<span style="color:{_SEVERITY_COLOURS[severity]};font-weight:bold">{severity}</span>'
    )


def _cell_html(cell_state: Cell) -> str:
    background_colour, text_colour, cell_sign = _CELL_COLOURS[cell_state]
    return (
        f'<td title="{cell_state}" style="background:{background_colour};color:{text_colour};'
        f'min-width:9px;height:16px;padding:0;text-align:center;font-size:11px">{cell_sign}</td>'
    )


def _table_html(column_titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table. Each cell is escaped unless it is an `_EscapedText`."""
    style = 'style="text-align:left;vertical-align:top;padding:1px 12px 1px 0"'
    title_row = (
        f"<tr>{''.join(f'<th {style}>{title}</th>' for title in column_titles)}</tr>" if column_titles else ""
    )
    table_body = "".join(
        f"<tr>{''.join(f'<td {style}>{_escape_text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table>{title_row}{table_body}</table>"


def _escape_text(text: str) -> str:
    """Return a text from the cluster as escaped HTML.

    The text is shortened, and invisible characters are replaced.
    """
    if isinstance(text, _EscapedText):
        return text
    return escape(
        printable(text if len(text) <= _MAX_TEXT_CHARACTERS else f"{text[: _MAX_TEXT_CHARACTERS - 3]}...")
    )


def _pre_html(text: str) -> str:
    # The page of a notebook may set another font for preformatted text. A long text scrolls in its frame.
    style = "font-family:monospace;line-height:1.3;max-height:36em;overflow:auto"
    return f'<pre style="{style}">{escape(terminal_text(text))}</pre>'


def _html_block(*parts: str) -> str:
    return f"<div>{''.join(f'<div>{part}</div>' for part in parts if part)}</div>"
