"""The manual pages, at a terminal and in docs/checks.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.checks import ALL, BY_ID, SECTIONS, Check
from auditor.checks.commands import RISKS
from auditor.reports import check_pages

ROOT = Path(__file__).parents[2]
every_check = pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)


def test_the_pages_in_docs_are_those_of_the_checks() -> None:
    written = (ROOT / "docs" / "checks.md").read_text("utf-8")
    assert written == check_pages.markdown() + "\n", "python -m auditor.reports.check_pages > docs/checks.md"


def test_the_command_that_writes_the_pages_prints_them() -> None:
    program = [sys.executable, "-m", "auditor.reports.check_pages"]
    printed = subprocess.run(program, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert printed == check_pages.markdown() + "\n"


def test_every_link_of_the_pages_leads_to_a_heading() -> None:
    text = check_pages.markdown()
    headings = re.findall(r"^### (\S+)$", text, re.MULTILINE)
    assert headings == [each.id for each in ALL]
    assert re.findall(r"\]\(#([^)]+)\)", text) == headings


@every_check
def test_a_page_at_a_terminal_keeps_its_width_but_for_commands(each: Check) -> None:
    commands = {command.text for command in each.commands}
    for width in (60, 80):
        lines = check_pages.page(each, width).splitlines()
        assert {line.strip() for line in lines if line.strip() in commands} == commands
        assert all(len(line) <= width for line in lines if line.strip() not in commands)


@every_check
def test_a_page_has_all_of_its_text(each: Check) -> None:
    words = " ".join(check_pages.page(each).split())
    assert each.title in words
    for heading in SECTIONS:
        assert heading in words
        if heading != "Commands":
            assert " ".join(each.sections[heading].split()) in words
    for command in each.commands:
        assert f"Risk: {command.risk}" in words
    assert each.title in check_pages.markdown()


def test_the_risks_are_explained() -> None:
    assert all(f"| {level} | {said} |" in check_pages.markdown() for level, said in RISKS.items())


def test_a_command_is_told_with_its_risk_below_it() -> None:
    shown = check_pages.page(BY_ID["cookie-unused"]).splitlines()
    place = shown.index("    bookkeeper shell cookie_delete BOOKIE")
    assert shown[place + 1] == "        Deletes it from the store."
    assert shown[place + 2].startswith("        Risk: writes; the disks keep their VERSION, and the bookie")
