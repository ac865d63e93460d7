"""Tests of the parts of a run that a notebook shows."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from auditor.model.finding import Severity
from auditor.model.ledger_metadata import Segment
from auditor.model.report import BookiesRead, Cluster
from auditor.model.views import BookieView, CookieView, ProblemView
from auditor.reports import cells
from auditor.reports.cells import bookie_cell, findings_cell, ledger_cell, run_cell
from tests.made_runs import numbered
from tests.reports.hostile import BOOKIE, HOSTILE
from tests.reports.samples import BELOW, LOST, ORPHAN, coverage, report, tally
from tests.reports.test_ledger import LEDGER, groups, replica

BOOKIE_VIEW = BookieView(
    BOOKIE, "partial", f"not listed: {BOOKIE}", None, False, False, False, 1, 1, 1, None, 0,
    cookie=CookieView(5, BOOKIE, BOOKIE, (BOOKIE,), (), BOOKIE),
    problems=(ProblemView("ghost-bookie", Severity.ERROR, 1, 0, (BOOKIE,)),),
)  # fmt: skip
HOSTILE_RUN = replace(
    report(coverage=replace(coverage(), bookies=BookiesRead(1, 0, (BOOKIE,)))),
    cluster=Cluster(BOOKIE, BOOKIE, BOOKIE),
)


class Page(HTMLParser):
    """A parser that separates markup from text and checks that every opened element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_run_cell_starts_with_the_verdict_and_has_the_impact() -> None:
    text = Page(run_cell(report())).text
    assert text.startswith("NOT HEALTHY: 1 critical, 3 error, 12 note")
    assert "118 of 120 checked, 2 unknown" in text
    assert "4.2 GB" in text


def test_findings_cell_has_counts_by_check_and_first_findings() -> None:
    text = Page(findings_cell(report())).text
    assert text.startswith("16 findings")
    assert "below-ack-quorum311" in text  # three of them, one not confirmed, one new
    assert "entry 4 has no copy left" in text
    assert "iterate over the findings to read all" in text


def test_ledger_cell_marks_missing_entries_and_prints_facts() -> None:
    html = ledger_cell(LEDGER)
    text = Page(html).text
    assert html.count(">×<") == 5 + 1  # the cells, and the legend
    assert "entries 0 to 11" in text
    assert "bk-d:3181 lacks 7,8,10,11 (4 entries)" in text
    assert text.count("segments") == 1  # the text's own drawing is left out


def test_ledger_cell_without_entries_is_text() -> None:
    text = Page(ledger_cell(replace(LEDGER, last_entry_id=-1, replicas=()))).text
    assert "no bookie should hold an entry" in text


def test_cells_of_a_run_without_findings_show_zero() -> None:
    assert "0 findings" in Page(findings_cell(report([], ()))).text
    assert "0" in Page(run_cell(report([], (), impact=[]))).text


@pytest.mark.parametrize(
    "html",
    [
        findings_cell(report([tally(HOSTILE.id, "error")], (HOSTILE,))),
        run_cell(HOSTILE_RUN),
        ledger_cell(
            replace(
                LEDGER,
                path=f"/ledgers/{BOOKIE}",
                damage=BOOKIE,
                rules=(BOOKIE,),
                segments=(Segment(0, (BOOKIE,)),),
                replicas=(replica(BOOKIE, groups((0, 0, 3, 0)), b"", known=False, reason=BOOKIE),),
            )
        ),
        bookie_cell(BOOKIE_VIEW),
    ],
    ids=["findings", "run", "ledger", "bookie"],
)
def test_hostile_text_stays_text(html: str) -> None:
    page = Page(html)
    assert page.tags <= {"div", "b", "table", "tr", "th", "td", "span", "pre", "details", "summary"}
    assert page.attributes <= {"style", "title"}
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_cells_of_a_huge_run_are_small() -> None:
    many = tuple(numbered(LOST, number) for number in range(500))
    huge = replace(BELOW, message="x" * 100_000, missing=LOST.missing * 1_000)
    assert len(findings_cell(report(findings=(huge, *many, ORPHAN)))) < 50_000
    wide = replace(
        LEDGER,
        last_entry_id=2**62,
        replicas=tuple(replica(f"bk-{n}-{'y' * 1_000}", groups((0, 2**40, 1, 2)), b"") for n in range(200)),
    )
    assert len(ledger_cell(wide)) < 1_000_000
    assert "160 more bookies" in ledger_cell(wide)
    assert cells.MAX_DRAWING_ROWS == 40
