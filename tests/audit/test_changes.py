"""The parts of the table changes that go into a report."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from auditor import Audit, AuditOptions
from auditor.audit.changes import RunChanges, check_suppressions
from auditor.errors import UsageError
from auditor.findings.suppress import SuppressionEntry
from auditor.findings.table import FindingCount
from auditor.model.history import RunSummary
from tests.findings.changed_runs import write_run
from tests.reports.samples import report, tally

NOON = 1_795_262_400_000  # 2026-11-21 12:00 UTC
COUNTS = (
    FindingCount("new", "rest", "note", "orphan-ledger", "confirmed", None, "bk-a", 2, 0, 36),
    FindingCount("new", "rest", "note", "orphan-ledger", "confirmed", 1, "bk-a", 5, 0, 30),
    FindingCount("same", "rest", "note", "orphan-ledger", "confirmed", None, "bk-b", 1, 0, 36),
    FindingCount("worse", "lost", "critical", "entry-lost", "confirmed", 2, None, 1, 0, 7),
    FindingCount("worse", "below-ack-quorum", "error", "below-ack-quorum", "suspect", None, None, 3, 0, 8),
    FindingCount("better", "below-ack-quorum", "error", "below-ack-quorum", "confirmed", None, None, 4, 0, 9),
    FindingCount("fixed", "rest", "warning", "mark-stuck", "confirmed", None, None, 6, 0, 1),
    FindingCount("unseen", "rest", "note", "orphan-ledger", "confirmed", None, "bk-a", 7, 0, 2),
)
ENTRIES = (
    SuppressionEntry("emptied", date(2026, 11, 21), {"id": "orphan-ledger"}),
    SuppressionEntry("known", date(2026, 12, 31), {}, "runs/1"),
    SuppressionEntry("over", date(2026, 11, 20), {"id": "*"}),
)


def make_changes(previous: bool) -> RunChanges:
    before = RunSummary.from_report("/runs/yesterday", report()) if previous else None
    rows: Any = None  # which this asks nothing of
    return RunChanges(COUNTS, before, (), ENTRIES, NOON, rows)


def test_tally_lists_findings_worst_first_and_counts_suppressed_separately() -> None:
    assert make_changes(True).tally() == [
        tally("entry-lost", "critical", 1, suppressed=1),
        tally("below-ack-quorum", "error", 4),
        tally("below-ack-quorum", "error", 3, "suspect", worse=3),
        tally("orphan-ledger", "note", 8, new=2, suppressed=5),
    ]


def test_without_a_previous_run_no_finding_counts_as_new_or_worse() -> None:
    assert make_changes(False).change_counts() is None
    assert sum(row["new"] + row["worse"] for row in make_changes(False).tally()) == 0


def test_change_counts_include_suppressed_findings() -> None:
    assert make_changes(True).change_counts() == {
        "previous": "yesterday",
        "finished": report().run.finished,
        "new": 7,
        "fixed": 6,
        "worse": 4,
        "better": 4,
        "same": 1,
        "unseen": 7,
    }


def test_suppressions_list_their_finding_count_and_whether_they_expired() -> None:
    assert [tuple(row.values()) for row in make_changes(True).suppressions()] == [
        ("emptied", "2026-11-21", 5, False),
        ("known", "2026-12-31", 1, False),
        ("over", "2026-11-20", 0, True),
    ]


def test_missing_suppressions_file_is_reported_before_the_run_starts(tmp_path: Path) -> None:
    options = AuditOptions(suppressions=str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        Audit("dump:///nowhere.jsonl", ["/nowhere"], str(tmp_path / "run"), options).run()
    assert not (tmp_path / "run").exists()


def test_baseline_must_be_a_finished_run_until_it_expires(tmp_path: Path) -> None:
    file = tmp_path / "suppressions.toml"
    options = AuditOptions(suppressions=str(file))
    entry = '[[baseline]]\nrun = "runs/1"\nreason = "known"\nuntil = {}\n'
    file.write_text(entry.format("2020-01-01"))
    check_suppressions(options)
    file.write_text(entry.format("2999-01-01"))
    with pytest.raises(
        UsageError, match=r"suppressions\.toml: baseline: run: .*runs/1: contains no finished run"
    ):
        check_suppressions(options)
    write_run(tmp_path / "runs" / "1", [])
    check_suppressions(options)
