"""Progress: a bar for a person, lines for a log, nothing for who wants none."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from auditor.audit import audit as audit_module
from auditor.cli import main
from auditor.cli import progress as progress_module
from auditor.cli.progress import STAGES, LogProgress, ProgressPosition, stage_number
from auditor.errors import UsageError
from auditor.model.progress import Progress
from auditor.spark.session import _output_to


def test_a_log_gets_a_line_every_period_with_stage_rows_and_time() -> None:
    lines: list[str] = []
    with LogProgress(lines.append, internal=False, period_s=0.01) as log:
        log.stage("availability")
        log.expect(40)
        log.advance(12)
        deadline = time.monotonic() + 20
        while not any("12 of 40" in line for line in lines) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert lines[-1].startswith("stage 3 of 8, reading the indexes, 12 of 40 tasks, ")
    assert lines[-1].endswith(" in all")


def test_a_log_gets_its_lines_while_something_else_has_the_number_of_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So it is while Spark starts, which may take a minute."""
    monkeypatch.setattr(sys, "stderr", os.fdopen(2, "w", closefd=False))
    monkeypatch.setattr(LogProgress.__init__, "__defaults__", (0.01,))
    with progress_module.shown_progress() as progress, _output_to(tmp_path / "spark.log"):
        progress.stage("spark")
        time.sleep(0.1)
    assert "bkaudit: stage 1 of 8, starting Spark" in capfd.readouterr().err
    assert (tmp_path / "spark.log").read_text() == ""


def test_tables_are_named_only_where_that_is_asked_for() -> None:
    lines: list[str] = []
    for internal in (False, True):
        with LogProgress(lines.append, internal, period_s=1000) as log:
            log.stage("judged_by_index")
    assert [line.partition(", a ")[0] for line in lines] == ["stage 5 of 8, comparing (judged_by_index)"]


def test_what_is_sent_to_tasks_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    CliRunner().invoke(main, ["audit", "--log-level", "debug"])  # without metadata it ends there
    assert logging.getLogger("kazoo").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.DEBUG)


def test_a_stage_is_never_gone_back_to() -> None:
    at = ProgressPosition(internal=False)
    numbers = []
    for table in ("spark", "ledgers", "availability", "doubtful_ids", "judged", "marks", "findings"):
        at.stage(table)
        numbers.append(at.number)
    assert numbers == [1, 2, 3, 3, 5, 5, 8]
    assert len(STAGES) == stage_number("report") == 8


def stderr(monkeypatch: pytest.MonkeyPatch, *flags: str) -> str:
    def run(_: Any, __: Any, progress: Progress) -> None:
        progress.stage("availability")
        time.sleep(0.1)
        raise UsageError("enough")

    monkeypatch.setattr(audit_module.Audit, "run", run)
    monkeypatch.setattr(progress_module.LogProgress.__init__, "__defaults__", (0.02,))
    arguments = ["audit", "--metadata", "dump:///nowhere", "--out", "o", *flags]
    return CliRunner().invoke(main, arguments).stderr


def test_quiet_says_errors_only_and_verbose_names_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "stage 3 of 8, reading the indexes, a second in all" in stderr(monkeypatch)
    assert stderr(monkeypatch, "-q") == "bkaudit: enough\n"
    assert "reading the indexes (availability), " in stderr(monkeypatch, "-v")
