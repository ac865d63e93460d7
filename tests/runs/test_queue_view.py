"""Tests of the text about a run's marks and locks of one ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.notebook.run import open_run
from auditor.runs.load_ledger import NO_ANSWER_TEXT, NO_QUEUE_TEXT
from tests.made_runs import made_run
from tests.reports.samples import report

MARK = {"kind": "mark", "ledger_id": 7, "replicas": ["bk-a", "bk-b"], "ctime": 1_795_237_669_000}
LOCK = {"kind": "lock", "ledger_id": 7, "owner": "worker1", "ctime": 1_795_237_670_000}


def texts_of(
    below: Path, *rows: dict[str, Any], keeps_marks: bool | None = True, scope: int = 0
) -> tuple[str, ...]:
    ledger_row = {"scope_id": scope, "ledger_id": 7, "status": "ok", "undecidable": True}
    run_report = report()
    run_report = replace(run_report, run=replace(run_report.run, keeps_marks=keeps_marks))
    run = made_run(below, report=run_report, marks=list(rows), ledgers=[ledger_row])
    return run.ledger(7, scope).mark_texts


def test_marks_and_locks_become_sentences(tmp_path: Path) -> None:
    marked = "marked for replication since 2026-11-21 05:07:49 UTC, for missing copies on bk-a, bk-b"
    locked = "locked by worker1 since 2026-11-21 05:07:50 UTC"
    assert texts_of(tmp_path, MARK, LOCK) == (marked, locked)
    assert texts_of(tmp_path, MARK, {**LOCK, "ledger_id": 8}) == (marked, "no worker has locked the ledger")
    assert texts_of(tmp_path, LOCK) == ("not marked for replication", locked)
    assert texts_of(tmp_path) == ("not marked for replication",)
    assert texts_of(tmp_path, {**MARK, "replicas": [], "ctime": None})[0] == (
        "marked for replication since an unknown time, for a better placement"
    )


def test_unlisted_marks_are_unknown_and_stores_without_marks_say_so(tmp_path: Path) -> None:
    gap = {"kind": "gap", "path": "/l/underreplication", "damage": "cut"}
    assert texts_of(tmp_path, gap) == ("unknown: not all marks could be listed",)
    assert texts_of(tmp_path, MARK, keeps_marks=False) == (NO_QUEUE_TEXT,)
    assert texts_of(tmp_path, MARK, gap, scope=1) == ("not marked for replication",)
    (tmp_path / "tables" / "marks").rename(tmp_path / "tables" / "others")
    assert open_run(tmp_path).ledger(7, 1).mark_texts == ()


def test_run_without_the_marks_fact_leaves_the_queue_unknown(tmp_path: Path) -> None:
    assert texts_of(tmp_path, keeps_marks=None) == (NO_ANSWER_TEXT,)
    assert texts_of(tmp_path, MARK, keeps_marks=None)[1] == "no worker has locked the ledger"
