"""Tests of the repair line, and of the facts that a previous run adds to it."""

from __future__ import annotations

from typing import Any

from auditor.model.repair import RepairFacts, RepairState, repair_facts
from auditor.model.views import Backlog, TopicLedger, TopicView
from auditor.reports.first_screen import render
from auditor.reports.history import status_line
from auditor.reports.owners import topic_text
from auditor.reports.repair import repair_line
from tests.reports.samples import report

HOUR = 3_600_000
SCAN = 1_795_237_669_000


def facts(previous: tuple[RepairFacts, int] | None = None, **state: Any) -> RepairFacts:
    usual = {"sees_autorecovery": True, "auditor": "bk-2", "votes": 2, "knows_registrations": True}
    return repair_facts(RepairState(**{**usual, **state}), SCAN, previous)


def test_repair_line_names_auditor_workers_and_queue() -> None:
    line = repair_line(facts(queued=14, oldest=SCAN - 3 * HOUR), SCAN)
    assert line == "auditor on bk-2, 2 AutoRecovery processes; 14 ledgers queued, oldest 3.0 h"
    assert repair_line(facts(), SCAN) == "auditor on bk-2, 2 AutoRecovery processes; no ledgers queued"
    assert repair_line(facts(auditor=None, votes=0, waiting=5), SCAN) == (
        "no auditor and no worker; no ledgers queued, 5 ledgers need repair, but have no "
        "under-replication mark"
    )
    assert repair_line(facts(disabled=True), SCAN).startswith("replication is switched off; ")  # type: ignore[union-attr]
    assert repair_line(facts(sees_autorecovery=False), SCAN) is None


def test_repair_rate_counts_marks_removed_since_the_previous_run() -> None:
    before = facts(queued=30)
    current = facts((before, SCAN - 2 * HOUR), queued=14, queued_since=4)
    assert (current["repaired_per_hour"], current["remaining_ms"]) == (10.0, 14 * HOUR // 10)
    line = repair_line(current, SCAN)
    assert line is not None
    assert line.endswith("14 ledgers queued, 10.0 repaired per hour since the previous run, about 1.4 h left")
    stalled = facts((before, SCAN - 2 * HOUR), queued=30)
    assert (stalled["repaired_per_hour"], stalled["remaining_ms"]) == (None, None)


def test_first_screen_has_repair_line_and_status_counts_unavailable_ledgers() -> None:
    run_report = report(repair=facts(unavailable=12, unrecoverable=3))
    assert "repair     auditor on bk-2, 2 AutoRecovery processes; no ledgers queued\n" in render(run_report)
    assert "; 15 ledgers unavailable; " in status_line(run_report, "runs/a", SCAN)
    assert "unavailable" not in status_line(report(repair=None), "runs/a", SCAN)


def test_topic_counts_its_unavailable_ledgers() -> None:
    def ledger(number: int, klass: str, reach: str | None) -> TopicLedger:
        usual = {
            "ownership_status": "owned",
            "fault": None,
            "state": "CLOSED",
            "entries": 1,
            "size": 9,
            "offload": None,
        }
        return TopicLedger(
            number,
            replication_class=klass,
            reachability=reach,
            is_borrowed=False,
            backlog=Backlog.PASSED_BY_ALL,
            **usual,  # type: ignore[arg-type]
        )

    ledgers = [
        ledger(1, "healthy", "unavailable"),
        ledger(2, "below-write-quorum", "single-copy"),
        ledger(3, "healthy", None),
    ]
    text = topic_text(TopicView("shop/orders/returns", "/managed-ledgers/x", ledgers, [], []))
    assert "1       unavailable " in text
    assert "2       single-copy, below-write-quorum " in text
    assert "3       healthy " in text
    assert "  1 ledger has too few registered ensemble members to be read or closed\n" in text
