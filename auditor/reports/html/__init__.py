"""A report as one HTML page: a file of its own, with up to a million findings in it.

The page needs no network and asks for none: its style and its one script are in it, named by their hashes in
a Content-Security-Policy that allows nothing else. What is seen at first is HTML, of less than 2 MB whatever
the size of the cluster, and whole without the script. All findings, and more drawings, are packed in blocks
behind it (`auditor.reports.html.findings`), which the script unpacks. Everything that the cluster's metadata
says passes through jinja2's autoescape, or becomes the text of an element, and stays text.

Pictures are SVG and tables written here, not by matplotlib: they take their colours from the page's style, so
that they follow the reader's light or dark screen and the printer, they stretch with a narrow window, their
rows are rows to a screen reader, and a picture of 24 bookies and 160 columns is kilobytes. The same run gives
the same bytes: no clock, no random name.
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
from auditor.model.finding import Finding, Standing, Standings, Urgency, no_standing
from auditor.model.history import RunSummary
from auditor.model.report import Report
from auditor.model.report_source import Figures
from auditor.model.views import LedgerView
from auditor.reports.finding_text import is_suppressed
from auditor.reports.html.findings import (
    BETWEEN,
    FINDINGS_PACKED,
    ID,
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

LIMIT = 2_000_000
"""Bytes of a page at most, but for what is packed; what grows with the cluster is bounded so."""

FINDINGS_BYTES = 120_000
"""Bytes of the rows that are there before the script has unpacked all findings, and without it."""

LEDGERS_SHOWN = 6
LEDGERS_DRAWN = 200
"""Ledgers of which the page has a drawing, those shown from the first among them."""

_ACTIONS_SHOWN, _CAUSES_SHOWN = 6, 8
_BOOKIES_DRAWN = 1_000
_DRAWINGS_ROOM = 8_000_000  # characters, unpacked


def render(
    report: Report,
    figures: Figures,
    ledgers: Sequence[LedgerView] = (),
    history: Sequence[RunSummary] = (),
    standings: Standings = no_standing,
    run_name: str = "RUN",
    notes: Sequence[str] = (),
    findings: Iterable[tuple[Finding, Standing | None]] = (),
) -> Iterator[str]:
    """The page of a run, in parts; no more of ``findings`` than a part is in memory.

    ``figures`` are those of `auditor.runs.figures.figures_of`, ``ledgers`` the broken ones to be drawn,
    ``history`` the runs of the same directory, oldest first; ``standings`` says since when a sampled finding
    has been there, ``run_name`` how commands name this run, and ``notes`` what a reader should know besides.
    ``findings`` are all of them in their order, each with its standing.

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
    style, script = _file("style.css"), _file("script.js")
    pictures = [picture(ledger, report.findings, run_name) for ledger in ledgers[:LEDGERS_DRAWN]]
    page = pages.get_template("page.html.j2").stream(
        named=run,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        rows=_rows(report, standings, run),
        most=FINDINGS_PACKED,
        fields=FindingShown._fields,
        actions_most=_ACTIONS_SHOWN,
        causes_most=_CAUSES_SHOWN,
        urgencies=[urgency for urgency in Urgency if urgency != Urgency.REST],
        findings=findings_packed(findings),
        drawings=drawings_packed(_drawings(pictures, figures, run), _DRAWINGS_ROOM),
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


def _rows(report: Report, standings: Standings, run: str) -> list[Markup]:
    template = _environment().get_template("finding.html.j2")
    # What is known and accepted stands apart: after all that is not.
    findings = sorted(report.findings, key=lambda finding: is_suppressed(standings(finding.fingerprint)))

    def row(number: int) -> str:
        finding = findings[number]
        shown = finding_shown(finding, standings(finding.fingerprint))
        return template.render(finding=shown, documented=finding.id in BY_ID, between=BETWEEN, named=run)

    return rows_that_fit([finding.id for finding in findings], row, FINDINGS_BYTES)


def _drawings(pictures: Sequence[dict[str, Any]], figures: Figures, run: str) -> Iterator[tuple[str, str]]:
    """Ledgers and bookies by the names that links have, each drawn once it is asked for."""
    of_ledger, of_bookie = map(_environment().get_template, ("ledger.html.j2", "bookie.html.j2"))
    for drawing in pictures:
        ledger = drawing["ledger"]
        scope = f"{ledger.scope_id}:" if ledger.scope_id else ""
        yield f"ledger {scope}{ledger.ledger_id}", of_ledger.render(each=drawing)
    filled = {total.name: total.classes for total in figures.space}
    for figure in figures.bookies[:_BOOKIES_DRAWN]:
        name = figure.bookie_id
        if shorten(name, ID) == name:  # else it could be another's
            parts = [
                (word, size) for kind, word in SPACE_WORDS.items() if (size := filled.get(name, {}).get(kind))
            ]
            argument = shlex.quote(name)
            yield f"bookie {name}", of_bookie.render(of=figure, parts=parts, argument=argument, named=run)


@cache
def _environment() -> Environment:
    """Everything is escaped, whatever the template is called."""
    pages = Environment(
        loader=FunctionLoader(_file),
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
    """Digits in threes.

    >>> group_digits(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def prose(text: str) -> list[str]:
    """The paragraphs of a text that was folded into lines; a bullet is a paragraph of its own.

    >>> prose("One\\nline.\\n\\n- a\\n  b\\n- c")
    ['One line.', '- a b', '- c']
    """
    paragraphs: list[str] = []
    for block in text.split("\n\n"):
        begun = False
        for line in block.splitlines():
            if begun and not line.startswith("- "):
                paragraphs[-1] += f" {line.strip()}"
            elif line.strip():
                paragraphs.append(line.strip())
                begun = True
    return paragraphs


@cache
def _file(name: str) -> str:
    return (files("auditor.reports.html") / name).read_text("utf-8")


def _hash(text: str) -> str:
    """As a Content-Security-Policy names the text of an element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
