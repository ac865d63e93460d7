"""Repair that does not work: one finding per cause for the cluster, with the number of waiting ledgers."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.checks import CHECK_BY_ID, RosterCheck
from auditor.model.repair import DAY_MS, RepairState
from auditor.tables import Roster
from tests.checks.tables_builder import HOUR, NOW_MS, Row, facts, find, tables

HEALTHY: dict[str, Any] = {
    "sees_autorecovery": True, "auditor": "bk1", "votes": 2, "registered": 3, "writable": 3,
    "knows_registrations": True,
}  # fmt: skip
BOOKIES = tuple({"bookie_id": f"bk{number}", "named": True} for number in range(3))


def findings(id: str, **state: Any) -> list[tuple[str, str, str]]:
    """Return severity, confidence and message of findings of a cluster that is healthy except ``state``."""
    return findings_among(BOOKIES, id, **state)


def findings_among(bookies: tuple[Row, ...], id: str, **state: Any) -> list[tuple[str, str, str]]:
    """Return the same for a cluster with these bookies."""
    check = CHECK_BY_ID[id]
    assert isinstance(check, RosterCheck)
    rows = [{"has_cookie": True, "registered": "writable", **row} for row in bookies]
    cluster = facts(repair=RepairState(**{**HEALTHY, **state}))
    roster = Roster.read(lambda name: rows if name == "bookies" else [], cluster)
    return [(row["severity"], row["confidence"], row["message"]) for row in check(roster)]


ROSTER_CHECKS = (
    "no-auditor", "replication-disabled", "lost-bookie-delay-long", "all-bookies-read-only",
    "too-few-writable-bookies", "server-check-overdue",
)  # fmt: skip


@pytest.mark.parametrize("id", ROSTER_CHECKS)
@pytest.mark.parametrize(
    "state",
    [
        {},
        # etcd keeps no marks, or the nodes of AutoRecovery were not read.
        {"sees_autorecovery": False, "auditor": None, "votes": 0, "last_check": None},
        # Saved metadata without registrations.
        {
            "sees_autorecovery": False, "auditor": None, "votes": 0, "registered": 0, "writable": 0,
            "knows_registrations": False, "largest_ensemble": 3, "smallest_ensemble": 3,
        },
    ],
)  # fmt: skip
def test_healthy_or_unseen_cluster_gets_no_finding(id: str, state: dict[str, Any]) -> None:
    assert findings(id, **state) == []


def test_cluster_without_an_auditor_vote_gets_a_no_auditor_finding() -> None:
    message = (
        "no auditor is elected, and no worker runs; 7 ledgers wait for re-replication, 5 of them unmarked"
    )
    state = {"auditor": None, "votes": 0, "waiting": 7, "queued": 2}
    assert findings("no-auditor", **state) == [("warning", "confirmed", message)]
    assert findings_among(BOOKIES[:1], "no-auditor", **state) == []  # nothing can be copied
    unused = ({"bookie_id": "a", "named": False}, {"bookie_id": "b", "named": False})
    assert findings_among(unused, "no-auditor", **state) == []


def test_auditor_vote_of_a_down_bookie_is_suspect() -> None:
    [(severity, confidence, message)] = findings("no-auditor", auditor_down=True)
    assert (severity, confidence) == ("warning", "suspect")
    assert message.startswith("the auditor's vote names bk1, which is not registered")


def test_disabled_replication_is_an_error_once_ledgers_have_waited_a_day() -> None:
    lately, long_ago = NOW_MS - HOUR, NOW_MS - 2 * DAY_MS
    states: tuple[tuple[dict[str, Any], str], ...] = (
        ({"disabled_since": lately, "waiting": 3}, "warning"),
        ({"disabled_since": long_ago, "waiting": 0}, "warning"),
        ({"disabled_since": long_ago, "waiting": 3}, "error"),
        ({"disabled_since": None, "waiting": 3}, "error"),
    )
    for state, severity in states:
        [(actual, confidence, message)] = findings("replication-disabled", disabled=True, **state)
        assert (actual, confidence) == (severity, "confirmed")
        assert ("3 ledgers wait" if state["waiting"] else "no ledger waits") in message


def test_long_lost_bookie_delay_is_an_error_if_unmarked_ledgers_wait() -> None:
    ten_years = 10 * 365 * 24 * 3600
    assert findings("lost-bookie-delay-long", delay_s=24 * 3600, waiting=9) == []
    [(severity, _, message)] = findings("lost-bookie-delay-long", delay_s=ten_years, waiting=9)
    assert severity == "error"
    assert "9 ledgers wait for re-replication, 9 of them unmarked" in message
    assert [row[0] for row in findings("lost-bookie-delay-long", delay_s=ten_years)] == ["warning"]


def test_read_only_and_too_few_writable_bookies_are_reported() -> None:
    [(severity, _, message)] = findings("all-bookies-read-only", writable=0)
    assert severity == "error"
    assert message.startswith("every registered bookie (3) is read-only")
    assert findings("all-bookies-read-only", writable=1) == []
    # Which bookies there are is only known without a gap.
    sizes = {"smallest_ensemble": 2, "largest_ensemble": 3}
    assert findings("too-few-writable-bookies", writable=0, **sizes) == []
    assert [row[0] for row in findings("too-few-writable-bookies", writable=1, **sizes)] == ["error"]
    assert [row[0] for row in findings("too-few-writable-bookies", writable=2, **sizes)] == ["warning"]
    assert findings("too-few-writable-bookies", writable=3, **sizes) == []
    # A live store in which every bookie is gone.
    assert [row[0] for row in findings("too-few-writable-bookies", writable=0, registered=0, **sizes)] == [
        "error"
    ]


def test_server_check_that_has_not_ended_for_a_month_is_overdue() -> None:
    late, new = NOW_MS - 31 * DAY_MS, NOW_MS - 29 * DAY_MS
    assert [row[0] for row in findings("server-check-overdue", last_check=late)] == ["warning"]
    assert findings("server-check-overdue", last_check=new, age_ms=99 * DAY_MS) == []
    assert [row[0] for row in findings("server-check-overdue", age_ms=31 * DAY_MS)] == ["note"]
    assert findings("server-check-overdue", age_ms=DAY_MS) == []


def test_old_marks_without_any_lock_mean_no_replication_workers(spark: SparkSession) -> None:
    rows: dict[str, list[Row]] = {
        "bookies": [{"bookie_id": "down", "registered": None, "depending": 2}, {"bookie_id": "up"}],
        "ledgers": [{"ledger_id": number} for number in (1, 2)],
        "marks": [
            {"ledger_id": 1, "replicas": ["down"], "ctime": NOW_MS - 30 * HOUR},
            {"ledger_id": 2, "replicas": ["down"], "ctime": NOW_MS - 25 * HOUR},
        ],
    }

    def idle(**state: Any) -> list[Any]:
        cluster = facts(repair=RepairState(**{**HEALTHY, "waiting": 2, **state}))
        return find("no-replication-workers", tables(spark, cluster, **rows))

    [finding] = idle()
    assert (finding.severity, finding.confidence) == ("warning", "suspect")
    assert finding.message == (
        "2 marked ledgers have waited for over a day, the oldest for 30 hours, and no worker holds a lock; "
        "2 AutoRecovery processes vote in the auditor election"
    )
    assert idle(locked=1) == []
    assert idle(disabled=True) == []


def test_ledger_that_no_registered_bookie_can_serve_is_unavailable(spark: SparkSession) -> None:
    rows: list[Row] = [
        {"scope_id": 0, "ledger_id": 1, "reach": "unavailable", "entries": 10, "bookies": ["a", "b"]},
        {"scope_id": 0, "ledger_id": 2, "reach": "unrecoverable", "entries": 0, "bookies": ["a"]},
        {"scope_id": 0, "ledger_id": 3, "reach": "single-copy", "entries": 10, "bookies": ["a"]},
    ]

    def unavailable(**state: int) -> list[Any]:
        cluster = facts(repair=RepairState(**{**HEALTHY, "down": ("a", "b"), **state}))
        return find("ledger-unavailable", tables(spark, cluster, reachability=rows))

    first, second = unavailable(unavailable=1, unrecoverable=1)
    assert (first.ledger_id, first.severity, first.confidence) == (1, "error", "confirmed")
    assert first.message == "ledger 1: no registered bookie can serve 10 entries; not registered: a, b"
    assert second.message.startswith(
        "ledger 2: it is not closed, and recovery cannot close it because too few of its bookies are "
        "registered"
    )
    [summary] = unavailable(unavailable=1_000, unrecoverable=1)
    assert summary.where == (None, None)
    assert summary.message == (
        "no registered bookie can serve entries of 1000 ledgers, and recovery cannot close 1 more ledger; "
        "for example ledger 1, 2; not registered: a, b"
    )
    assert summary.evidence["rows"] == "tables/reachability"
