"""Artificial clusters (``tests/data/hazards``) that nothing repairs, or with ledgers that nobody can read."""

from __future__ import annotations

import pytest

from auditor.model.finding import Severity
from auditor.model.report import exit_code
from auditor.reports import ledger as ledger_report
from auditor.reports.first_screen import render
from auditor.runs.load_ledger import ledger_view
from auditor.runs.reader import RunReader
from tests.corpora.audited import FinishedRun
from tests.hazards.cases import Hazards

REPAIR = {
    "ledger-unavailable", "no-auditor", "no-replication-workers", "replication-disabled",
    "lost-bookie-delay-long", "all-bookies-read-only", "too-few-writable-bookies", "server-check-overdue",
}  # fmt: skip


def audited(hazards: Hazards, case: str) -> FinishedRun:
    return FinishedRun(hazards.run(case).report, hazards.run_path(case))


def repair_findings(run: FinishedRun) -> set[tuple[str, int | None, str, str]]:
    rows = [row for row in run.findings() if row["id"] in REPAIR]
    return {(row["id"], row["ledger_id"], row["severity"], row["confidence"]) for row in rows}


def lines_of_ledgers_with_a_member_down(run: FinishedRun) -> list[str]:
    """Return first lines of `explain ledger`; each explanation names who is down, none says healthy."""
    reader, calls = RunReader(run.out), []
    down = {row["bookie_id"] for row in run.table("bookies") if row["registered"] is None}
    for row in run.table("ledgers"):
        if down & {replica["bookie_id"] for replica in row["replicas"] if replica["depends"]}:
            first, *details = ledger_report.render(ledger_view(reader, row["ledger_id"])).splitlines()
            assert "healthy" not in first
            assert any(line.startswith("  down ") for line in details)
            calls.append(first)
    return calls


@pytest.mark.parametrize(
    ("case", "expected", "message", "code"),
    [
        ("f1", {("no-auditor", None, "warning", "confirmed")}, "no auditor and no worker", 0),
        (
            "f3",
            {("lost-bookie-delay-long", None, "error", "confirmed")},
            "ledgers need repair, but have no under-replication mark",
            1,
        ),
        ("f4", {("all-bookies-read-only", None, "error", "confirmed")}, "no ledgers queued", 1),
        (
            "h20",
            {("ledger-unavailable", number, "error", "confirmed") for number in range(20, 25)},
            "5 ledgers queued",
            1,
        ),
    ],
)
def test_cluster_without_working_repair_is_reported(
    hazards: Hazards,
    case: str,
    expected: set[tuple[str, int | None, str, str]],
    message: str,
    code: int,
) -> None:
    run = audited(hazards, case)
    assert repair_findings(run) == expected
    assert exit_code(run.report, Severity.ERROR) == code
    screen = render(run.report, str(run.out))
    assert message in screen
    assert next(iter(expected))[0] in screen
    assert bool(lines_of_ledgers_with_a_member_down(run)) == (case in ("f3", "h20"))


def test_ledger_with_its_only_copy_on_a_down_bookie_is_unavailable(hazards: Hazards) -> None:
    run = audited(hazards, "h17")
    assert ("ledger-unavailable", 30, "error", "confirmed") in repair_findings(run)
    text = ledger_report.render(ledger_view(RunReader(run.out), 30))
    assert text.startswith("ledger 30: unavailable: no registered bookie can serve ")
    assert lines_of_ledgers_with_a_member_down(run)
