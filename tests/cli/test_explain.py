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


def test_a_ledger_of_which_only_a_mark_is_left_is_told(tmp_path: Path) -> None:
    made_run(tmp_path / "run", [MARK])
    told = explain("ledger", "77", "--run", str(tmp_path / "run"))
    assert told.exit_code == 0, told.output
    assert (
        "neither the metadata nor a bookie of this run has ledger 77\n\nmark-of-deleted-ledger: "
        in told.stdout
    )
    assert "\n         bookkeeper shell ledgermetadata -l 77\n" in told.stdout


def test_a_ledger_that_nothing_knows_is_wrong_usage(tmp_path: Path) -> None:
    made_run(tmp_path / "run", [MARK])
    told = explain("ledger", "78", "--run", str(tmp_path / "run"))
    assert (told.exit_code, told.stdout) == (2, "")
    assert "neither the metadata nor a bookie of this run has ledger 78" in told.stderr


def test_a_run_is_the_newest_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("20260101T000000Z", "20260102T000000Z"):
        made_run(Path("runs") / name, [LOST])
        manifest = {"identity": {"options": {"fail_on": "new", "fail_on_suspect": True}}}
        (tmp_path / "runs" / name / "manifest.json").write_text(json.dumps(manifest))
    newest, named = explain("run"), explain("run", "runs/20260101T000000Z")
    assert newest.stdout.startswith("run        runs/20260102T000000Z, ended "), newest.output
    assert named.stdout.startswith("run        runs/20260101T000000Z, ended "), named.output
    assert "\nexit code  1, with --fail-on new --fail-on-suspect: " in named.stdout


def test_a_page_is_as_narrow_as_its_terminal() -> None:
    told = CliRunner().invoke(main, ["explain", "check", "entry-lost"], env={"COLUMNS": "60"})
    lines = told.stdout.splitlines()
    assert max(len(line) for line in lines if "bookkeeper shell" not in line) <= 60
