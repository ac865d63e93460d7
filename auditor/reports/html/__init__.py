"""A report as one HTML page: a file of its own under 2 MB, whatever the size of the cluster.

The page needs no network and asks for none: its style and its one script are in it, named by their hashes in
a Content-Security-Policy that allows nothing else. Without the script it is whole; the script sorts and
filters. Everything that the cluster's metadata says passes through jinja2's autoescape and stays text.

Pictures are SVG and tables written here, not by matplotlib: they take their colours from the page's style, so
that they follow the reader's light or dark screen and the printer, they stretch with a narrow window, their
rows are rows to a screen reader, and a picture of 24 bookies and 160 columns is kilobytes. The same run gives
the same bytes: no clock, no random name.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from auditor.model.amounts import format_time, percent, plural, size
from auditor.model.figures import Figures
from auditor.model.finding import Standing, Standings, no_standing
from auditor.model.history import RunSummary
from auditor.model.report import Report
from auditor.model.views import LedgerView
from auditor.reports.html.bookies import bookies_shown, disks_shown, space_shown
from auditor.reports.html.findings import finding_shown, rows_that_fit
from auditor.reports.html.overview import overview, trend
from auditor.reports.html.pictures import picture
from auditor.reports.owners import LEAKS_SHOWN, OWNERS_SHOWN, owners_shown
from auditor.reports.plain_text import shorten

__all__ = ["FINDINGS_BYTES", "LEAKS_SHOWN", "LEDGERS_SHOWN", "LIMIT", "OWNERS_SHOWN", "render"]

LIMIT = 2_000_000
"""Bytes of a page at most; what grows with the cluster is bounded so that it stays below."""

FINDINGS_BYTES = 660_000
LEDGERS_SHOWN = 6


def render(
    report: Report,
    figures: Figures,
    ledgers: Sequence[LedgerView] = (),
    history: Sequence[RunSummary] = (),
    standings: Standings = no_standing,
    named: str = "RUN",
    notes: Sequence[str] = (),
) -> str:
    """The page of a run.

    ``figures`` are those of `auditor.runs.figures.figures_of`, ``ledgers`` the few broken ones to be drawn,
    ``history`` the runs of the same directory, oldest first; ``standings`` says since when a sampled finding
    has been there, ``named`` how commands name this run, and ``notes`` what a reader should know besides.

    >>> from auditor.model.report import BookiesRead, Cluster, Coverage, DecidedCount, Replicas, RunFacts
    >>> nothing = {"bookies": [], "ledgers": 0, "replicas": 0}
    >>> run = RunFacts(version="1", started=0, finished=0, scan_time=0, live=False, positions=[],
    ...                bookie_sources=[], entry_logs=False, owners=False, offload_listing=False,
    ...                operations={}, gaps=[], in_doubt=None, resumed=None, notes=[], tally=[], impact=[],
    ...                changes=None, suppressions=[], accepted=nothing, reused=None)
    >>> seen = Coverage(DecidedCount(0, 0), BookiesRead(0, 0, ()), Replicas(0, 0))
    >>> page = render(Report.make(run, Cluster("<b>", "zk://h/ledgers", "flat"), seen, ()), Figures())
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
    """
    pages = _environment()
    finding_row = pages.get_template("finding.html.j2")
    # What is known and accepted stands apart: after all that is not.
    findings = sorted(report.findings, key=lambda each: _is_suppressed(standings(each.fingerprint)))

    def row(number: int) -> str:
        finding = findings[number]
        return finding_row.render(finding=finding_shown(finding, standings(finding.fingerprint), named))

    style, script = _file("style.css"), _file("script.js")
    return pages.get_template("page.html.j2").render(
        named=shlex.quote(shorten(named, 200)),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        rows=rows_that_fit([finding.id for finding in findings], row, FINDINGS_BYTES),
        **overview(report, notes),
        **bookies_shown(figures),
        pictures=[picture(ledger, report.findings, named) for ledger in ledgers[:LEDGERS_SHOWN]],
        histograms=figures.histograms,
        **space_shown(figures.space),
        **disks_shown(figures.space, figures.disks),
        **owners_shown(figures.owners),
        failures=figures.failures,
        **trend(history),
    )


def _is_suppressed(standing: Standing | None) -> bool:
    return standing is not None and standing.suppressed is not None


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
