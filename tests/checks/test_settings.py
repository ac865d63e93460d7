"""Checks use their constants: the value of a constant decides if there is a finding."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.check_settings import CheckSettings
from tests.checks.tables_builder import HOUR, NOW_MS, Row, facts, find, ledger, tables

DAY = 24 * HOUR
HOLDINGS: list[Row] = [{"bookie_id": "bk1", "ledgers": 1_000, "orphans": 60, "recent": 0, "unexplained": 60}]
CASES: list[tuple[str, dict[str, int], dict[str, int], dict[str, Any]]] = [
    (
        "recovery-stuck",
        {"stuck_hours": 24},
        {"stuck_hours": 26},
        {"ledgers": [ledger(1, "bk1", state="IN_RECOVERY", mtime=NOW_MS - 25 * HOUR)]},
    ),
    (
        "lock-without-mark",
        {"lock_minutes": 60},
        {"lock_minutes": 180},
        {"locks": [{"ledger_id": 1, "ctime": NOW_MS - 2 * HOUR, "owner": "worker"}]},
    ),
    (
        "mark-directory-empty",
        {"empty_directories": 2},
        {"empty_directories": 3},
        {"empty_directories": [{"path": f"/u/{number}", "ctime": NOW_MS} for number in (1, 2)]},
    ),
    (
        "metadata-suspect",
        {"least_orphans": 60},
        {"least_orphans": 61},
        {"bookies": [{"bookie_id": "bk1"}], "holdings": HOLDINGS},
    ),
    (
        "metadata-suspect",
        {"least_orphans": 1, "orphan_share_percent": 5},
        {"least_orphans": 1, "orphan_share_percent": 6},
        {"bookies": [{"bookie_id": "bk1"}], "holdings": HOLDINGS},
    ),
    (
        "metadata-suspect",
        {"large_orphan_share_percent": 5},
        {"large_orphan_share_percent": 6},
        {"bookies": [{"bookie_id": "bk1"}], "holdings": HOLDINGS},
    ),
    (
        "metadata-suspect",
        {"large_orphan_share_percent": 5, "least_unexplained": 60},
        {"large_orphan_share_percent": 5, "least_unexplained": 61},
        {"bookies": [{"bookie_id": "bk1"}], "holdings": HOLDINGS},
    ),
]


@pytest.mark.parametrize(("id", "finding", "silent", "rows"), CASES)
def test_check_constant_decides_if_there_is_a_finding(
    spark: SparkSession, id: str, finding: dict[str, int], silent: dict[str, int], rows: dict[str, Any]
) -> None:
    for values, count in ((finding, 1), (silent, 0)):
        cluster_tables = tables(spark, facts(settings=CheckSettings(**values)), **rows)
        assert len(find(id, cluster_tables)) == count, values


def test_message_has_the_configured_hours(spark: SparkSession) -> None:
    rows: dict[str, Any] = {
        "bookies": [{"bookie_id": "bk1", "registered": None}],
        "ledgers": [ledger(1, "bk1", last_entry_id=-1)],
        "marks": [
            {"ledger_id": 1, "replicas": ["bk1"], "ctime": NOW_MS - 3 * DAY, "mtime": NOW_MS - 3 * DAY}
        ],
    }
    [default] = find("mark-of-empty-ledger", tables(spark, **rows))
    assert "for more than a day" in default.message
    [longer] = find(
        "mark-of-empty-ledger", tables(spark, facts(settings=CheckSettings(stuck_hours=48)), **rows)
    )
    assert "for more than 48 hours" in longer.message
