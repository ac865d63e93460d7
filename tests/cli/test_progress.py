"""Progress: a bar for a person, lines for a log, and nothing on request."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from auditor.audit import audit as audit_module
from auditor.cli import main
from auditor.cli import progress as progress_module
from auditor.cli.progress import LogProgress, ProgressPosition, TerminalProgress
from auditor.errors import UsageError
from auditor.model.progress import Progress
from auditor.spark.session import _redirect_output


def test_log_progress_prints_stage_tasks_and_time_every_period() -> None:
    lines: list[str] = []
    with LogProgress(lines.append, shows_tables=False, period_s=0.01) as log:
        log.stage("indexes", 3, 15)
        log.table("availability")
        log.expect(40)
        log.advance(12)
        deadline = time.monotonic() + 20
        while not any("12 of 40" in line for line in lines) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert lines[-1].startswith("stage 3 of 15: indexes, 12 of 40 tasks, ")
    assert lines[-1].endswith(" in total")


def test_log_progress_reaches_standard_error_while_output_is_redirected(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The output is redirected while Spark starts, which may take a minute."""
    monkeypatch.setattr(sys, "stderr", os.fdopen(2, "w", closefd=False))
    monkeypatch.setattr(LogProgress.__init__, "__defaults__", (0.01,))
    with progress_module.shown_progress() as progress, _redirect_output(tmp_path / "spark.log"):
        progress.stage("starting Spark")
        time.sleep(0.1)
    assert "bkaudit: starting Spark, " in capfd.readouterr().err
    assert (tmp_path / "spark.log").read_text() == ""


def test_tables_are_named_only_on_request() -> None:
    lines: list[str] = []
    for internal in (False, True):
        with LogProgress(lines.append, internal, period_s=1000) as log:
            log.stage("judge", 7, 15)
            log.table("judged_by_index")
    shown = [line.partition(", a ")[0] for line in lines]
    assert shown == ["stage 7 of 15: judge", "stage 7 of 15: judge (judged_by_index)"]


def test_gateway_messages_are_not_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    CliRunner().invoke(main, ["audit", "--log-level", "debug"])  # without metadata it ends there
    assert logging.getLogger("kazoo").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.DEBUG)


def test_new_stage_or_table_starts_without_the_earlier_task_count() -> None:
    position = ProgressPosition(shows_tables=True)
    texts = [str(position)]
    position.stage("starting Spark")
    texts.append(str(position))
    position.stage("compare", 6, 15)
    position.table("unequal", 4)
    texts.append(str(position))
    position.table("rows")
    texts.append(str(position))
    position.expect(2)
    position.stage("judge", 7, 15)
    texts.append(str(position))
    assert texts == [
        "starting",
        "starting Spark",
        "stage 6 of 15: compare (unequal), 0 of 4 tasks",
        "stage 6 of 15: compare (rows)",
        "stage 7 of 15: judge",
    ]


@pytest.mark.parametrize("width", [60, 200])
def test_a_terminal_shows_stage_and_note_in_its_width(width: int) -> None:
    note = "reusing the tables of an interrupted run; continuing with stage 7 of 15: judge"
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    with progress_module._new_bars(out, console) as bars:
        shown = TerminalProgress(bars, shows_tables=True)
        shown.note(note)
        shown.stage("judge", 7, 15)
        shown.table("judged_by_index", 40)
        bars.refresh()
        assert (bars.tasks[0].completed, bars.tasks[0].total) == (6, 15)
        shown.end()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n").splitlines()
    assert f"bkaudit: {note}" in lines
    place, table = (
        next(number for number, line in enumerate(lines) if text in line and note not in line)
        for text in ("stage 7 of 15: judge", "judged_by_index, 0 of 40 tasks")
    )
    assert table == place + 1
    assert all(len(line) <= width for line in lines if note not in line)
    assert any("done" in line for line in lines)


def stderr(monkeypatch: pytest.MonkeyPatch, *flags: str) -> str:
    def run(_: Any, __: Any, progress: Progress) -> None:
        progress.stage("indexes", 3, 15)
        progress.table("availability")
        time.sleep(0.1)
        raise UsageError("enough")

    monkeypatch.setattr(audit_module.Audit, "run", run)
    monkeypatch.setattr(progress_module.LogProgress.__init__, "__defaults__", (0.02,))
    arguments = ["audit", "--metadata", "dump:///nowhere", "--out", "o", *flags]
    return CliRunner().invoke(main, arguments).stderr


def test_quiet_prints_only_errors_and_verbose_names_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "stage 3 of 15: indexes, a second in total" in stderr(monkeypatch)
    assert stderr(monkeypatch, "-q") == "bkaudit: enough\n"
    assert "stage 3 of 15: indexes (availability), " in stderr(monkeypatch, "-v")
