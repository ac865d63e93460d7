"""The page of proving programs has a row for each of them, and no row is older than its results."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from proofs.programs import PAGE, Program, page, programs
from tests.truth.table import proofs

PROOFS_DIR = Path(__file__).parent


def test_every_program_has_a_row() -> None:
    packages = {path.parent.name for path in PROOFS_DIR.glob("*/__main__.py")}
    assert {program.name for program in programs()} == packages
    assert len(programs()) == len(packages)


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_row_is_not_older_than_the_results(program: Program) -> None:
    results = [
        date.fromisoformat(proof.day)
        for proof in proofs()
        if re.match(rf"python -m proofs\.{program.name}\b", proof.command)
    ]
    last_run = date.fromisoformat(program.last_run)
    assert all(result <= last_run for result in results)


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_contributing_page_describes_every_program(program: Program) -> None:
    page = (PROOFS_DIR.parent / "CONTRIBUTING.md").read_text("utf-8")
    assert f"python -m proofs.{program.name}" in page


def test_proofs_page_is_generated_from_the_table() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m proofs > docs/proofs.md"
