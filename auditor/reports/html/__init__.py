"""A report as one self-contained HTML page with up to a million findings.

The page makes no network request. Its style and its one script are in the page, and a Content-Security-Policy
allows nothing but their hashes. The part shown at first is plain HTML and needs no script. It has less than 2
MB for a cluster of any size. All findings and further drawings follow in compressed blocks
(`auditor.reports.html.findings`), which the script unpacks. Texts from the cluster's metadata pass through
jinja2's autoescape or become the text of an element, so that they cannot become markup.

This package writes pictures as SVG and tables itself, without matplotlib. The pictures take their colours
from the page's style and thus follow light mode, dark mode and the printer. They stretch with the window,
screen readers read their rows, and a picture of 24 bookies and 160 columns takes kilobytes. The same run
gives the same bytes, because the page uses neither a clock nor random names.
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

from auditor.checks import BY_ID
from auditor.model.amounts import format_time, percent, plural, size
from auditor.model.finding import ChangeStatus, Finding, StatusLookup, Urgency, no_change_status
from auditor.model.history import RunSummary
from auditor.model.report import Report
from auditor.model.report_source import Figures
from auditor.model.views import LedgerView
from auditor.reports.finding_text import is_suppressed
from auditor.reports.html.findings import (
    FINDINGS_PACKED,
    ID_WIDTH,
    SEPARATOR,
    FindingShown,
    drawings_packed,
    finding_shown,
    findings_packed,
    picture,
    rows_that_fit,
)
from auditor.reports.html.overview import (
    SPACE_WORDS,
    bookies_shown,
    disks_shown,
    overview,
    space_shown,
    trend,
)
from auditor.reports.owners import owners_shown
from auditor.reports.plain_text import shorten

MAX_PAGE_BYTES = 2_000_000
"""Largest size of a page without its compressed blocks, in bytes."""

FINDINGS_BYTES = 120_000
"""Largest size of the rows of findings that are visible without the script, in bytes."""

LEDGERS_SHOWN = 6
LEDGERS_DRAWN = 200
"""Largest number of ledgers with a drawing, including those that are visible without the script."""

_ACTIONS_SHOWN, _CAUSES_SHOWN = 6, 8
_BOOKIES_DRAWN = 1_000
_MAX_DRAWING_CHARACTERS = 8_000_000  # characters, unpacked


def render(
    report: Report,
    figures: Figures,
    ledgers: Sequence[LedgerView] = (),
    history: Sequence[RunSummary] = (),
    statuses: StatusLookup = no_change_status,
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
        statuses: Change and first day of each finding in the report.
        run_name: Name of the run in commands.
        notes: Further notices for the reader.
        findings: All findings in their order, each with its change status.

    >>> from auditor.model.report import BookiesRead, Cluster, Coverage, DecidedCount, Replicas, RunFacts
    >>> nothing = {"bookies": [], "ledgers": 0, "replicas": 0}
    >>> run = RunFacts(version="1", started=0, finished=0, scan_time=0, live=False, positions=[],
    ...                bookie_sources=[], entry_logs=False, owners=False, offload_listing=False,
    ...                operations={}, gaps=[], in_doubt=None, resumed=None, remarks=[], tally=[], impact=[],
    ...                changes=None, suppressions=[], accepted=nothing, reused=None)
    >>> seen = Coverage(DecidedCount(0, 0), BookiesRead(0, 0, ()), Replicas(0, 0))
    >>> report = Report.make(run, Cluster("<b>", "zk://h/ledgers", "flat"), seen, ())
    >>> page = "".join(render(report, Figures()))
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
    """
    pages = _environment()
    run = shlex.quote(shorten(run_name, 200))
    style, script = _read_asset("style.css"), _read_asset("script.js")
    pictures = [picture(ledger, report.findings, run_name) for ledger in ledgers[:LEDGERS_DRAWN]]
    page = pages.get_template("page.html.j2").stream(
        named=run,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        rows=_rows(report, statuses, run),
        most=FINDINGS_PACKED,
        fields=FindingShown._fields,
        actions_most=_ACTIONS_SHOWN,
        causes_most=_CAUSES_SHOWN,
        urgencies=[urgency for urgency in Urgency if urgency != Urgency.REST],
        findings=findings_packed(findings),
        drawings=drawings_packed(_drawing_items(pictures, figures, run), _MAX_DRAWING_CHARACTERS),
        **overview(report, notes, run_name),
        **bookies_shown(figures),
        pictures=pictures[:LEDGERS_SHOWN],
        histograms=figures.histograms,
        **space_shown(figures.space),
        **disks_shown(figures.space, figures.disks),
        **owners_shown(figures.owners),
        failures=figures.failures,
        **trend(history),
    )
    page.enable_buffering(64)
    return page


def _rows(report: Report, statuses: StatusLookup, run: str) -> list[Markup]:
    template = _environment().get_template("finding.html.j2")
    # What is known and accepted stands apart: after all that is not.
    findings = sorted(report.findings, key=lambda finding: is_suppressed(statuses(finding.fingerprint)))

    def row(number: int) -> str:
        finding = findings[number]
        finding_view = finding_shown(finding, statuses(finding.fingerprint))
        return template.render(
            finding=finding_view, documented=finding.id in BY_ID, between=SEPARATOR, named=run
        )

    return rows_that_fit([finding.id for finding in findings], row, FINDINGS_BYTES)


def _drawing_items(
    pictures: Sequence[dict[str, Any]], figures: Figures, run: str
) -> Iterator[tuple[str, str]]:
    """Yield a name and a drawing for each ledger and bookie. Links on the page use the names."""
    ledger_template, bookie_template = map(_environment().get_template, ("ledger.html.j2", "bookie.html.j2"))
    for drawing in pictures:
        ledger = drawing["ledger"]
        scope = f"{ledger.scope_id}:" if ledger.scope_id else ""
        yield f"ledger {scope}{ledger.ledger_id}", ledger_template.render(each=drawing)
    classes_by_bookie = {total.name: total.classes for total in figures.space}
    for figure in figures.bookies[:_BOOKIES_DRAWN]:
        name = figure.bookie_id
        if shorten(name, ID_WIDTH) == name:  # else it could be another's
            parts = [
                (class_word, size)
                for kind, class_word in SPACE_WORDS.items()
                if (size := classes_by_bookie.get(name, {}).get(kind))
            ]
            argument = shlex.quote(name)
            yield (
                f"bookie {name}",
                bookie_template.render(of=figure, parts=parts, argument=argument, named=run),
            )


@cache
def _environment() -> Environment:
    """Return the jinja2 environment, which escapes texts in every template, whatever the template's name."""
    pages = Environment(
        loader=FunctionLoader(_read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters.update(
        format_time=format_time,
        group_digits=group_digits,
        percent=percent,
        plural=plural,
        prose=prose,
        shorten=shorten,
        size=size,
    )
    return pages


def group_digits(value: int) -> str:
    """Return a number with its digits in groups of three.

    >>> group_digits(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def prose(text: str) -> list[str]:
    """Return the paragraphs of a folded text, each in one line. Each bullet is a paragraph of its own.

    >>> prose("One\\nline.\\n\\n- a\\n  b\\n- c")
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


def _hash(text: str) -> str:
    """Return the hash of an element's text in the syntax of a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
