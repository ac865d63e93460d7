"""``bkaudit explain`` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.finding import Confidence, Finding, Severity
from tests.made_runs import made_run
from tests.reports.samples import LOST

MARK = Finding(
    "mark-of-deleted-ledger",
    Severity.NOTE,
    Confidence.CONFIRMED,
    0,
    77,
    message="ledger 77 is marked and has no metadata",
    fingerprint="m77",
)


def explain(*words: str) -> Result:
    return CliRunner().invoke(main, ["explain", *words], prog_name="bkaudit")


def test_ledger_known_only_from_a_mark_is_explained(tmp_path: Path) -> None:
    made_run(tmp_path / "run", [MARK])
    outcome = explain("ledger", "77", "--run", str(tmp_path / "run"))
    assert outcome.exit_code == 0, outcome.output
    assert (
        "neither the metadata nor a bookie of this run has ledger 77\n\nmark-of-deleted-ledger: "
        in outcome.stdout
    )
    assert "\n         bookkeeper shell ledgermetadata -l 77\n" in outcome.stdout


def test_unknown_ledger_is_wrong_usage(tmp_path: Path) -> None:
    made_run(tmp_path / "run", [MARK])
    outcome = explain("ledger", "78", "--run", str(tmp_path / "run"))
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "neither the metadata nor a bookie of this run has ledger 78" in outcome.stderr


def test_explain_run_shows_the_newest_run_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("20260101T000000Z", "20260102T000000Z"):
        made_run(Path("runs") / name, [LOST])
        manifest = {"identity": {"options": {"fail_on": "new", "fail_on_suspect": True}}}
        (tmp_path / "runs" / name / "manifest.json").write_text(json.dumps(manifest))
    newest, older = explain("run"), explain("run", "runs/20260101T000000Z")
    assert newest.stdout.startswith("run        runs/20260102T000000Z, ended "), newest.output
    assert older.stdout.startswith("run        runs/20260101T000000Z, ended "), older.output
    assert "\nexit code  1, with --fail-on new --fail-on-suspect: " in older.stdout


def test_check_page_fits_the_width_of_its_terminal() -> None:
    outcome = CliRunner().invoke(main, ["explain", "check", "entry-lost"], env={"COLUMNS": "60"})
    lines = outcome.stdout.splitlines()
    assert max(len(line) for line in lines if "bookkeeper shell" not in line) <= 60
