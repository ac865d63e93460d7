"""Tests of the manual pages at a terminal and in docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditor.checks import ALL_CHECKS, CHECK_BY_ID, GROUP_BY_ID, SECTIONS, Check
from auditor.checks.manual import RISK_WORDS
from auditor.reports import check_pages

ROOT = Path(__file__).parents[2]
PAGES = check_pages.document_texts()
every_check = pytest.mark.parametrize("each", ALL_CHECKS, ids=lambda each: each.id)


def test_pages_in_docs_equal_the_generated_pages() -> None:
    docs = ROOT / "docs"
    names = ["checks.md", *(f"checks/{path.name}" for path in (docs / "checks").iterdir())]
    written = {name: (docs / name).read_text("utf-8") for name in names}
    assert written == check_pages.document_texts(), "python -m auditor.reports.check_pages"


def test_the_command_writes_the_pages(tmp_path: Path) -> None:
    check_pages.write_documents(tmp_path)
    assert {name: (tmp_path / name).read_text("utf-8") for name in PAGES} == PAGES


def test_every_link_of_the_list_leads_to_a_heading() -> None:
    headings = {
        f"{name}#{id}" for name, text in PAGES.items() for id in re.findall(r"^## (\S+)$", text, re.MULTILINE)
    }
    links = re.findall(r"\]\(([^)#]+#[^)]+)\)", PAGES["checks.md"])
    assert links == [f"checks/{GROUP_BY_ID[entry.id]}.md#{entry.id}" for entry in ALL_CHECKS]
    assert {*links} == {entry for entry in headings if entry.startswith("checks/")}


def test_check_list_has_an_anchor_for_every_check() -> None:
    assert re.findall(r'<a id="([^"]+)"></a>', PAGES["checks.md"]) == [check.id for check in ALL_CHECKS]


@every_check
def test_page_text_fits_the_width_except_commands(each: Check) -> None:
    commands = {command.text for command in each.commands}
    for width in (60, 80):
        lines = check_pages.page_text(each, width).splitlines()
        assert {line.strip() for line in lines if line.strip() in commands} == commands
        assert all(len(line) <= width for line in lines if line.strip() not in commands)


@every_check
def test_page_has_every_section_of_its_check(each: Check) -> None:
    words = " ".join(check_pages.page_text(each).split())
    assert each.title in words
    for heading in SECTIONS:
        assert heading in words
        if heading != "Commands":
            assert " ".join(each.sections[heading].split()) in words
    for command in each.commands:
        assert f"Risk: {command.risk}" in words
    assert each.title in PAGES["checks.md"]
    assert each.title in PAGES[f"checks/{GROUP_BY_ID[each.id]}.md"]


def test_check_list_explains_every_risk() -> None:
    assert all(f"| {level} | {meaning} |" in PAGES["checks.md"] for level, meaning in RISK_WORDS.items())


def test_command_has_its_effect_and_risk_below() -> None:
    shown = check_pages.page_text(CHECK_BY_ID["cookie-unused"]).splitlines()
    place = shown.index("    bookkeeper shell cookie_delete BOOKIE")
    assert shown[place + 1] == "        Deletes the cookie from the store."
    assert shown[place + 2].startswith("        Risk: writes; the disks keep their VERSION, and the bookie")
