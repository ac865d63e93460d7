"""Tests of the page as text: bounded size, the same for the same run, and no unintended content."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from auditor.checks import ALL_CHECKS
from auditor.codecs.availability import coverage as coverage_arithmetic
from auditor.errors import CoverageLimitError
from auditor.model.finding import Severity, no_change_status
from auditor.model.report_source import BookieFigure, Figures
from auditor.model.space import SpaceTotal
from auditor.reports import html
from auditor.reports.html import MAX_PAGE_BYTES, findings
from auditor.reports.html.findings import FindingFields, rows_that_fit
from tests.reports.html.pages import FIGURES, LOUD, MARKUP, giant, history, small
from tests.reports.samples import coverage, report, tally
from tests.reports.test_ledger import LEDGER


def render(*arguments: Any) -> str:
    return "".join(html.render(*arguments))


def unpacked(page: str, kind: str) -> str:
    """Return the decompressed blocks of one kind in a page, joined by line breaks."""
    blocks = re.findall(rf'<script type="text/plain" class="{kind}">([\w+/=]*)</script>', page)
    return "\n".join(zlib.decompress(b64decode(block)).decode() for block in blocks)


class Elements(HTMLParser):
    """A parser that records the tags and attributes of a page, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_giant_page_is_below_the_size_limits() -> None:
    page = giant()
    packed = sum(map(len, re.findall(r'<script type="text/plain".*</script>\n', page)))
    assert len(page.encode()) - packed < MAX_PAGE_BYTES
    assert packed < MAX_PAGE_BYTES
    shown = Elements(page)
    check_index = FindingFields._fields.index("check")
    checks = {line.split("\t")[check_index] for line in unpacked(page, "findings").splitlines()}
    assert len(checks) == 80
    assert sum(f">{check}</td>" in page for check in checks) > 20, "some of many checks are seen at first"
    assert "80,000,000,000,000 findings" in shown.text, "the counts are those of all"
    assert "The 100 of 9,000 bookies" in shown.text


def test_same_run_gives_the_same_page() -> None:
    first = small()
    small.cache_clear()
    assert small() == first


def test_page_has_no_external_address() -> None:
    for tag, attributes in Elements(small()).tags:
        assert tag not in ("img", "iframe", "object", "embed", "base")
        for name in ("href", "src", "action", "srcset", "data", "xlink:href"):
            target = attributes.get(name)
            assert target is None or target.startswith("#") or target == "data:,", (tag, target)
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_cluster_text_is_escaped_on_the_page() -> None:
    shown = Elements(small())
    scripts = [attributes.get("type") for tag, attributes in shown.tags if tag == "script"]
    assert scripts == ["text/plain"] * (len(scripts) - 1) + [None], "one is a program, the last"
    assert MARKUP in shown.text
    assert LOUD in shown.text
    assert "\x1b" not in shown.text
    assert "\u202e" not in shown.text


def test_only_the_page_s_own_script_and_style_are_allowed() -> None:
    [policy] = [
        attributes["content"]
        for tag, attributes in Elements(small()).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert len(re.findall(r"'sha256-[\w+/]{43}='", policy)) == 2
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("tallies", "complete", "message"),
    [
        ([], True, "Healthy No findings."),
        ([], False, "Incomplete No findings. Not everything could be checked."),
        ([tally("entry-lost", "critical")], True, "Not healthy 1 critical finding."),
        (
            [tally("mark-stuck", "warning", 2), tally("stray-file", "note", 1_000)],
            True,
            "Not healthy 2 warning and 1,000 note findings.",
        ),
    ],
)
def test_page_shows_the_verdict(tallies: list[object], complete: bool, message: str) -> None:
    page_report = report(tallies, (), coverage(complete), changes=None, suppressions=[], impact=[])
    shown = " ".join(Elements(render(page_report, Figures())).text.split())
    assert message in shown
    assert "No earlier run of this cluster is in the same directory" in shown


def test_the_first_action_comes_first_with_its_command() -> None:
    page = small()
    assert 0 < page.index('<h2 id="now">') < page.index('<main id="main"')
    actions = report().run.actions or []
    assert actions[0]["text"] in page
    assert 'class="command">bkaudit explain ledger 9223372036854770002 --run /runs/last</code>' in page
    page_report = report()
    later = replace(page_report, run=replace(page_report.run, actions=[]))
    assert '<h2 id="now">' not in render(later, Figures())


def test_page_reports_how_many_findings_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_FINDINGS_PACKED", 2)
    monkeypatch.setattr(html, "MAX_FINDINGS_PACKED", 2)
    page_report = report()
    page = render(
        page_report,
        Figures(),
        (),
        (),
        no_change_status,
        "RUN",
        (),
        [(row, None) for row in page_report.findings],
    )
    assert unpacked(page, "findings").count("\n") == 1
    total = sum(page_report.counts.values())
    assert f"This page has the first 2 of {total:,}: " in Elements(page).text
    assert "bkaudit report RUN --format jsonl" in page


def test_links_and_labels_point_to_unique_ids() -> None:
    tags = Elements(small()).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    label_ids = {attributes.get("aria-labelledby") for _, attributes in tags} - {None}
    linked = {href[1:] for _, attributes in tags if (href := attributes.get("href")) and href[0] == "#"}
    assert label_ids | linked <= set(ids)


def test_every_check_has_its_advice_on_the_page() -> None:
    page_report = report([tally(check.id, str(check.severity)) for check in ALL_CHECKS], ())
    shown = " ".join(Elements(render(page_report, Figures())).text.split())
    for check in ALL_CHECKS:
        assert check.title in shown
        for command in check.commands:
            assert command.text in shown
            assert f"Risk: {command.risk}".replace("`", "") in shown


def test_first_row_of_every_check_precedes_any_second_row() -> None:
    rows = ["a" * 10, "A" * 10, "b" * 10, "é" * 5]
    checks = ["a", "a", "b", "c"]
    assert [row[0] for row in rows_that_fit(checks, rows.__getitem__, 30)] == ["a", "b", "é"]
    assert [row[0] for row in rows_that_fit(checks, rows.__getitem__, 40)] == ["a", "A", "b", "é"]
    assert rows_that_fit(checks, rows.__getitem__, 9) == []


def test_ledger_too_irregular_to_draw_has_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(*sets: object) -> object:
        raise CoverageLimitError("a million runs")

    monkeypatch.setattr(coverage_arithmetic, "difference", limited)
    page = render(report(), FIGURES, [LEDGER])
    assert "Not drawn: " in page
    assert "a million runs" in page


def test_many_bookies_are_also_drawn_as_a_map() -> None:
    bookies = tuple(BookieFigure(f"bk-{n}", replicas=3, missing=n % 2) for n in range(30))
    page = render(report(), Figures(bookies, 30))
    assert "15 lacking entries" in page
    assert "15 complete" in page
    assert 'class="map"' in page
    assert 'class="map"' not in small()


def test_disk_space_has_a_bar_for_each_of_the_fullest_bookies() -> None:
    page = small()
    assert '<path class="space-live" d="M0 0h900v10h-900z"/>' in page
    assert '<path class="space-orphan" d="M900 0h100v10h-100z"/>' in page
    assert '<path class="space-owner-unknown" d="M0 0h500v10h-500z"/>' in page
    many = tuple(SpaceTotal(f"bk-{number:02}", {"live": number}) for number in range(1, 61))
    shown = Elements(render(report(), replace(FIGURES, space=many)))
    assert "10 more are not shown" in shown.text
    assert "bk-60" in shown.text
    assert "bk-10" not in shown.text
    assert 'id="space"' not in render(report(), Figures())


def test_disk_table_has_space_beside_entry_logs_and_free_space() -> None:
    shown = Elements(small()).text
    assert "Other files of each bookie" in shown
    assert "1,048,576" in shown
    assert "2.0 GB of 50.0 GB (4.0 %)" in shown
    assert "not seen" in shown
    assert "Other files of each" not in Elements(render(report(), replace(FIGURES, disks=()))).text


def test_a_share_is_never_rounded_to_all_or_nothing() -> None:
    bookie = BookieFigure("bk-a", replicas=10**6, missing=1)
    assert "99.9 %" in render(report(), Figures((bookie,), 1))


def test_history_has_this_run_and_the_newest_earlier_runs() -> None:
    page_report = report()
    shown = " ".join(Elements(render(page_report, Figures(), (), history(page_report, 60))).text.split())
    assert "20 older ones are left out" in shown
    assert "059" not in shown.partition("Runs, newest first")[0]
    assert shown.count("this run") == 1


def test_severity_without_findings_has_a_tile() -> None:
    page = Elements(render(replace(report(), run=report([]).run), Figures()))
    tiles = [attributes for tag, attributes in page.tags if "tile" in (attributes.get("class") or "").split()]
    assert len(tiles) == len(Severity)
