"""``bkaudit status``: one line, an exit code, and no import of heavy modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.model.report import Report
from auditor.reports.history import status_line
from tests.reports.samples import coverage, report, tally

HOUR = 3_600_000
AFTER = 1_795_237_689_000 + 3 * 3_600_000


def run_in(path: Path, run_report: Report, fail_on: str = "error", order: int = 0) -> None:
    path.mkdir(parents=True)
    (path / "report.json").write_text(run_report.to_json())
    options = {"fail_on": fail_on, "fail_on_suspect": False}
    (path / "manifest.json").write_text(json.dumps({"identity": {"options": options}}))
    os.utime(path / "report.json", (order, order))


def status(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["status", *(str(argument) for argument in arguments)])


def test_newest_run_is_shown_in_one_line(tmp_path: Path) -> None:
    assert status_line(report(), "runs/a", AFTER) == (
        "NOT HEALTHY 6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51: 1 critical, 3 error, 8 note; first action: find "
        "the disks that held ledger 9223372036854770002, and keep all entry logs; 4 suppressed; 1 new, "
        "1 worse, 2 fixed; 118 of 120 ledgers checked; 2 of 3 bookies read; "
        "3.0 h old (2026-11-21 05:08:09 UTC); runs/a"
    )
    accepted = report([tally("a", "warning", 3, suppressed=3)], coverage=coverage(True))
    assert ": only suppressed findings; 3 suppressed; " in status_line(accepted, "runs/a", AFTER)
    run_in(tmp_path / "a", report(), order=5)
    run_in(tmp_path / "b", report([], coverage=coverage(True), changes=None), order=3)
    outcome = status(tmp_path)
    assert (outcome.exit_code, outcome.stdout.count("\n")) == (1, 1)
    assert outcome.stdout.endswith(f"{tmp_path}/a\n")
    assert status(tmp_path / "b").exit_code == 0


@pytest.mark.parametrize(
    ("outcome", "fail_on", "code"),
    [
        (report([], coverage=coverage(True)), "error", 0),
        (report([], coverage=coverage(False)), "error", 3),
        (report([tally("a", "warning")], coverage=coverage(True)), "error", 0),
        (report([tally("a", "warning")], coverage=coverage(True)), "warning", 1),
        (report([tally("a", "error", new=0)], coverage=coverage(True)), "new", 0),
        (report([tally("metadata-unreadable", "error", 100)]), "error", 5),
    ],
)
def test_the_exit_code_is_that_of_the_audit(tmp_path: Path, outcome: Report, fail_on: str, code: int) -> None:
    run_in(tmp_path / "a", outcome, fail_on)
    assert status(tmp_path).exit_code == code


def test_fail_on_of_an_older_manifest_sets_the_exit_code(tmp_path: Path) -> None:
    run_in(tmp_path / "a", report([tally("a", "warning")], coverage=coverage(True)))
    manifest = tmp_path / "a" / "manifest.json"
    manifest.write_text('{"identity": {"options": {"fail_on": "warning"}}}')
    assert status(tmp_path).exit_code == 1
    manifest.write_text("{}")
    outcome = status(tmp_path)
    message = f"{manifest} is damaged (it has no 'identity'): restore a complete copy of it, or audit again"
    assert (outcome.exit_code, outcome.stderr) == (5, f"bkaudit: {message}\n"), "no exit code is made up"


def test_max_age_limits_the_age_of_a_run(tmp_path: Path) -> None:
    old: Any = report([], coverage=coverage(True))
    run_in(tmp_path / "a", old)
    assert status(tmp_path, "--max-age", "0.0001").exit_code in (0, 3)
    assert status(tmp_path, "--max-age", "1e9").exit_code == 0


def test_age_of_a_run_is_that_of_its_oldest_data(tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    facts = replace(report([], coverage=coverage(True)).run, scan_time=now_ms - 2 * HOUR, finished=now_ms)
    run_in(tmp_path / "a", replace(report([], coverage=coverage(True)), run=facts))
    older = status(tmp_path, "--max-age", "1")
    assert (older.exit_code, status(tmp_path, "--max-age", "3").exit_code) == (3, 0)
    assert "its oldest data is 2.0 h old" in older.stdout
    manifest = tmp_path / "a" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"data_as_of": now_ms - 9 * HOUR}))
    assert status(tmp_path, "--max-age", "3").exit_code == 3
    manifest.write_text(json.dumps(content | {"data_as_of": now_ms}))
    assert status(tmp_path, "--max-age", "1").exit_code == 0
    manifest.write_text(json.dumps(content | {"data_as_of": now_ms + 9 * HOUR}))
    future = status(tmp_path, "--max-age", "1")
    assert (future.exit_code, status(tmp_path).exit_code) == (3, 0)
    assert "its data is dated in the future" in future.stdout
    manifest.write_text(json.dumps(content | {"data_as_of": "yesterday"}))
    assert status(tmp_path, "--max-age", "1").exit_code == 5


def test_missing_run_is_reported_in_one_line(tmp_path: Path) -> None:
    nowhere = tmp_path / "none"
    for path, message in (
        (tmp_path, f"no finished run in {tmp_path}; make one with bkaudit audit --out {tmp_path}/NAME"),
        (nowhere, f"{nowhere}: no such directory; bkaudit audit creates it with the first run"),
    ):
        outcome = status(path)
        assert (outcome.exit_code, outcome.stderr) == (2, f"bkaudit: {message}\n")


@pytest.mark.parametrize(
    "words",
    ["status", "report", "space", "explain run", "explain ledger 5", "history", "prune --keep-last 1"],
)
def test_every_command_reports_missing_runs_in_the_same_words(
    words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BKAUDIT_RUNS", raising=False)
    outcome = CliRunner().invoke(main, words.split())
    message = "bkaudit: runs: no such directory; bkaudit audit creates it with the first run\n"
    assert (outcome.exit_code, outcome.stderr) == (2, message)


def test_status_loads_no_heavy_modules(tmp_path: Path) -> None:
    run_in(tmp_path / "a", report())
    program = f"""
import sys
from auditor.cli import main
try:
    main(["status", {str(tmp_path)!r}])
except SystemExit as end:
    assert end.code == 1, end.code
heavy = ("pyspark", "pandas", "pyarrow", "numpy", "rich", "auditor.checks", "kazoo", "jinja2")
print([name for name in heavy if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[1:] == ["[]"]
