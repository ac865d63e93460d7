"""``bkaudit demo`` ends with one screen, notes that its time is ahead, and names unexpected results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.demo import sample
from auditor.demo.sample import DemoResult
from tests.made_runs import change_row, made_run
from tests.reports.samples import BELOW, LOST, report

FINDINGS = tuple(
    replace(finding, ledger_id=number, fingerprint=f"{number:015x}{finding is LOST:x}")
    for finding in (LOST, BELOW)
    for number in range(1, 51)
)


@pytest.fixture
def run_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return the command, with a run of very many findings instead of the audit."""

    def run(*options: str, not_found: Any = ()) -> Result:
        def show(out: str, *_: object) -> DemoResult:
            summary = report(findings=FINDINGS)
            made_run(
                Path(out),
                FINDINGS,
                summary,
                changes=[change_row(entry, 1_795_000_000_000) for entry in FINDINGS],
            )
            return DemoResult(summary, list(not_found), [])

        monkeypatch.setattr(sample, "show", show)
        return CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "run"), *options])

    return run


def test_demo_ends_with_one_screen_and_a_note_that_its_time_is_ahead(run_demo: Any) -> None:
    ended = run_demo()
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.startswith("cluster ")
    assert len(ended.stdout.splitlines()) <= 22
    assert "bkaudit: the run's clock is 25 hours ahead" in ended.stderr
    assert "--all\n" in ended.stderr  # which shows every finding


def test_all_option_shows_all_findings(run_demo: Any) -> None:
    ended = run_demo("--all")
    assert ended.exit_code == 0, ended.stderr
    assert len(ended.stdout.splitlines()) > len(FINDINGS)


def test_unexpected_demo_result_is_named_and_exits_with_1(run_demo: Any) -> None:
    ended = run_demo(not_found=[("entry-lost", "7", None)])
    assert (ended.exit_code, "bkaudit: not found: entry-lost 7 -\n" in ended.stderr) == (1, True)
