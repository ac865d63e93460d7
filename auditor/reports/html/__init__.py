"""A report as one self-contained HTML page with up to a million findings.

The page makes no network request. It contains its style and its only script, and a Content-Security-Policy
allows only these two, by their hashes. The part that is shown at first is plain HTML, which needs no script.
It has less than 2 MB for a cluster of any size. All findings and further drawings follow in compressed blocks
(`auditor.reports.html.findings`), which the script unpacks. Texts from the cluster's metadata cannot become
markup: jinja2 escapes them, or they are set as the text of an element.

This package itself writes the tables and the pictures, which are SVG, without matplotlib. The pictures take
their colours from the page's style, and thus follow light mode, dark mode and the printer. They stretch
with the window, and screen readers can read their rows. A picture of 24 bookies and 160 columns takes only
kilobytes. The same run always gives the same bytes, because the page uses neither a clock nor random names.
"""

import base64
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from auditor.checks import CHECK_BY_ID
from auditor.model.amounts import format_time, percent, plural, size
from auditor.model.finding import ChangeStatus, Finding, StatusLookup, Urgency, no_change_status
from auditor.model.history import RunSummary
from auditor.model.report import Report
from auditor.model.report_source import Figures
from auditor.model.views import LedgerView
from auditor.reports.finding_text import is_suppressed
from auditor.reports.html.findings import (
    FIELD_SEPARATOR,
    MAX_FINDINGS_PACKED,
    MAX_ID_CHARACTERS,
    FindingFields,
    drawing_blocks,
    drawing_values_of,
    finding_blocks,
    finding_fields,
    rows_that_fit,
)
from auditor.reports.html.overview import (
    SPACE_LABELS,
    bookie_values,
    disk_values,
    report_values,
    space_values,
    trend_values,
)
from auditor.reports.owners import owner_page_values
from auditor.reports.plain_text import shorten

MAX_PAGE_BYTES = 2_000_000
"""Largest size of a page without its compressed blocks, in bytes."""

MAX_FINDING_ROW_BYTES = 120_000
"""Largest size of the rows of findings that are visible without the script, in bytes."""

MAX_LEDGERS_SHOWN = 6
MAX_LEDGERS_DRAWN = 200
"""Largest number of ledgers with a drawing, including those that are visible without the script."""

_MAX_ACTIONS_SHOWN, _MAX_CAUSES_SHOWN = 6, 8
_MAX_BOOKIES_DRAWN = 1_000
_MAX_DRAWING_CHARACTERS = 8_000_000  # before compression


def render(
    report: Report,
    figures: Figures,
    ledgers: Sequence[LedgerView] = (),
    history: Sequence[RunSummary] = (),
    change_statuses: StatusLookup = no_change_status,
    run_name: str = "RUN",
    notes: Sequence[str] = (),
    findings: Iterable[tuple[Finding, ChangeStatus | None]] = (),
) -> Iterator[str]:
    """Yield the page of a run in parts. Only one part of ``findings`` is in memory at a time.

    Args:
        report: The report of the run.
        figures: Counts for pictures, from `auditor.runs.figures.figures_of`.
        ledgers: Ledgers to draw, which have missing entries.
        history: Runs of the same directory, oldest first.
        change_statuses: Function that maps the fingerprint of a finding in the report to its change status.
        run_name: Name of the run in commands.
        notes: Further notices for the reader.
        findings: All findings in their order, each with its change status.

    >>> from auditor.model.report import BookiesRead, Cluster, Coverage, DecidedCount, ReplicaCount, RunFacts
    >>> nothing = {"bookies": [], "ledgers": 0, "replicas": 0}
    >>> run = RunFacts(version="1", started=0, finished=0, scan_time=0, live=False, positions=[],
    ...                bookie_sources=[], entry_logs=False, owners=False, offload_listing=False,
    ...                operations={}, gaps=[], in_doubt=None, resumed=None, remarks=[], tally=[], impact=[],
    ...                changes=None, suppressions=[], accepted=nothing, reused=None)
    >>> seen = Coverage(DecidedCount(0, 0), BookiesRead(0, 0, ()), ReplicaCount(0, 0))
    >>> report = Report.make(run, Cluster("<b>", "zk://h/ledgers", "flat"), seen, ())
    >>> page = "".join(render(report, Figures()))
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
    """
    environment = _environment()
    run = shlex.quote(shorten(run_name, 200))
    style_text, script_text = _read_asset("style.css"), _read_asset("script.js")
    ledger_drawings = [
        drawing_values_of(ledger, report.findings, run_name) for ledger in ledgers[:MAX_LEDGERS_DRAWN]
    ]
    page_stream = environment.get_template("page.html.j2").stream(
        named=run,
        style=style_text,
        script=script_text,
        style_hash=_content_hash(style_text),
        script_hash=_content_hash(script_text),
        rows=_finding_rows(report, change_statuses, run),
        most=MAX_FINDINGS_PACKED,
        fields=FindingFields._fields,
        actions_most=_MAX_ACTIONS_SHOWN,
        causes_most=_MAX_CAUSES_SHOWN,
        urgencies=[urgency for urgency in Urgency if urgency != Urgency.NOT_URGENT],
        findings=finding_blocks(findings),
        drawings=drawing_blocks(_drawing_items(ledger_drawings, figures, run), _MAX_DRAWING_CHARACTERS),
        **report_values(report, notes, run_name),
        **bookie_values(figures),
        pictures=ledger_drawings[:MAX_LEDGERS_SHOWN],
        histograms=figures.histograms,
        **space_values(figures.space),
        **disk_values(figures.space, figures.disks),
        **owner_page_values(figures.owners),
        failures=figures.failures,
        **trend_values(history),
    )
    page_stream.enable_buffering(64)
    return page_stream


def _finding_rows(report: Report, change_statuses: StatusLookup, run: str) -> list[Markup]:
    template = _environment().get_template("finding.html.j2")
    # Suppressed findings come after all others.
    sorted_findings = sorted(
        report.findings, key=lambda finding: is_suppressed(change_statuses(finding.fingerprint))
    )

    def row(finding_number: int) -> str:
        finding = sorted_findings[finding_number]
        finding_view = finding_fields(finding, change_statuses(finding.fingerprint))
        return template.render(
            finding=finding_view, documented=finding.id in CHECK_BY_ID, between=FIELD_SEPARATOR, named=run
        )

    return rows_that_fit([finding.id for finding in sorted_findings], row, MAX_FINDING_ROW_BYTES)


def _drawing_items(
    ledger_drawings: Sequence[dict[str, Any]], figures: Figures, run: str
) -> Iterator[tuple[str, str]]:
    """Yield a name and a drawing for each ledger and bookie. Links on the page use the names."""
    ledger_template, bookie_template = map(_environment().get_template, ("ledger.html.j2", "bookie.html.j2"))
    for ledger_drawing in ledger_drawings:
        ledger = ledger_drawing["ledger"]
        scope_prefix = f"{ledger.scope_id}:" if ledger.scope_id else ""
        yield f"ledger {scope_prefix}{ledger.ledger_id}", ledger_template.render(each=ledger_drawing)
    classes_by_bookie = {bookie_total.name: bookie_total.classes for bookie_total in figures.space}
    for bookie_figure in figures.bookies[:_MAX_BOOKIES_DRAWN]:
        name = bookie_figure.bookie_id
        if shorten(name, MAX_ID_CHARACTERS) == name:  # a shortened name could belong to two bookies
            space_parts = [
                (class_label, byte_count)
                for space_class, class_label in SPACE_LABELS.items()
                if (byte_count := classes_by_bookie.get(name, {}).get(space_class))
            ]
            bookie_argument = shlex.quote(name)
            yield (
                f"bookie {name}",
                bookie_template.render(
                    of=bookie_figure, parts=space_parts, argument=bookie_argument, named=run
                ),
            )


@cache
def _environment() -> Environment:
    """Return the jinja2 environment, which escapes texts in every template."""
    environment = Environment(
        loader=FunctionLoader(_read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        format_time=format_time,
        group_digits=group_digits,
        percent=percent,
        plural=plural,
        prose=paragraphs_of,
        shorten=shorten,
        size=size,
    )
    return environment


def group_digits(number: int) -> str:
    """Return a number with its digits in groups of three.

    >>> group_digits(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a folded text, each in one line. Each bullet is a paragraph of its own.

    >>> paragraphs_of("One\\nline.\\n\\n- a\\n  b\\n- c")
    ['One line.', '- a b', '- c']
    """
    paragraphs: list[str] = []
    for block in text.split("\n\n"):
        is_in_list = False
        for line in block.splitlines():
            if is_in_list and not line.startswith("- "):
                paragraphs[-1] += f" {line.strip()}"
            elif line.strip():
                paragraphs.append(line.strip())
                is_in_list = True
    return paragraphs


@cache
def _read_asset(name: str) -> str:
    return (files("auditor.reports.html") / name).read_text("utf-8")


def _content_hash(text: str) -> str:
    """Return the hash of an element's text in the syntax of a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
