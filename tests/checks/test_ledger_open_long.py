"""Ledgers that are open for a month without a change, by owner or application."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.check_settings import CheckSettings
from tests.checks.tables_builder import HOUR, NOW_MS, ParsedFinding, Row, facts, find, ledger, tables

DAY = 24 * HOUR
PULSAR = [("application", b"pulsar")]


def opened(ledger_id: int, days: float, **overrides: Any) -> Row:
    return ledger(ledger_id, "bk1", state="OPEN", mtime=NOW_MS - round(days * DAY), **overrides)


def owned_row(ledger_id: int, place: int, list_size: int, topic: str = "returns", **overrides: Any) -> Row:
    return {
        "ledger_id": ledger_id, "standing": "owned", "kind": "data", "topic": topic, "place": place,
        "list_size": list_size, "path": f"/managed-ledgers/shop/orders/persistent/{topic}", "state": "OPEN",
        **overrides,
    }  # fmt: skip


def by_owner(findings: list[ParsedFinding]) -> dict[str, ParsedFinding]:
    return {finding.evidence["owner"]: finding for finding in findings}


def test_age_counts_from_the_last_change_of_the_metadata(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[
            opened(1, 30),
            opened(2, 31),
            ledger(3, "bk1", state="IN_RECOVERY", mtime=NOW_MS - 40 * DAY),
            ledger(4, "bk1", state="CLOSED", mtime=NOW_MS - 40 * DAY),
            ledger(5, "bk1", state="OPEN", mtime=None),
            opened(6, 40, status="unreadable"),
        ],
    )
    [finding] = find("ledger-open-long", cluster_tables)
    assert (finding.where, finding.severity, finding.confidence) == ((2, None), "note", "confirmed")
    assert (finding.evidence["ledgers"], finding.evidence["days"]) == (1, 31)
    assert "it is unknown whether a writer still exists" in finding.message


@pytest.mark.parametrize(("open_days", "ids"), [(7, [1]), (8, []), (1, [1])])
def test_open_days_setting_changes_the_age_limit(spark: SparkSession, open_days: int, ids: list[int]) -> None:
    cluster_tables = tables(
        spark, facts(settings=CheckSettings(open_days=open_days)), ledgers=[opened(1, 7.5)]
    )
    assert [finding.ledger_id for finding in find("ledger-open-long", cluster_tables)] == ids


def test_open_ledgers_without_owners_get_one_finding_per_application(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[
            *(opened(number, 30 + number, custom_metadata=PULSAR) for number in (3, 4, 5)),
            opened(6, 50),
            opened(7, 60),
        ],
    )
    findings = by_owner(find("ledger-open-long", cluster_tables))
    assert {name: (finding.ledger_id, finding.evidence["ledgers"]) for name, finding in findings.items()} == {
        "application pulsar": (3, 3),
        "no application": (6, 2),
    }
    assert findings["application pulsar"].evidence["days"] == 35


def test_last_ledger_of_an_owner_may_have_a_writer(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[*(opened(number, 40, custom_metadata=PULSAR) for number in (1, 2, 3, 4)), opened(5, 40)],
        ownership=[
            owned_row(1, 0, 2),
            owned_row(2, 1, 2),
            owned_row(3, 2, 3, topic="sales"),
            owned_row(4, 0, 2, topic="stock"),
            {"ledger_id": 5, "standing": "unnamed"},
        ],
    )
    findings = by_owner(find("ledger-open-long", cluster_tables))
    counts = {
        name: tuple(finding.evidence[part] for part in ("last", "superseded", "unnamed"))
        for name, finding in findings.items()
    }
    assert counts == {
        "topic shop/orders/returns": (1, 1, 0),
        "topic shop/orders/sales": (1, 0, 0),
        "topic shop/orders/stock": (0, 1, 0),
        "no application": (0, 0, 1),
    }
    assert "it may still have a writer" in findings["topic shop/orders/sales"].message
    assert "1 of them may still have a writer" in findings["topic shop/orders/returns"].message
    assert "its owner has later ledgers" in findings["topic shop/orders/stock"].message
    assert "it is unknown" in findings["no application"].message


def test_unowned_ledger_counts_for_the_application_in_its_metadata(
    spark: SparkSession,
) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[opened(1, 40, custom_metadata=PULSAR)],
        ownership=[{"ledger_id": 1, "standing": "unowned"}],
    )
    [finding] = find("ledger-open-long", cluster_tables)
    assert finding.evidence["owner"] == "application pulsar"


def test_open_ledger_check_never_advises_deletion() -> None:
    from auditor.checks import CHECK_BY_ID

    check = CHECK_BY_ID["ledger-open-long"]
    assert check.do_now is None
    assert check.action is None
    assert not any("deleteledger" in command.text for command in check.commands)
