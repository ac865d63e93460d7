"""Ledgers that are open for a month without a change, by owner or application."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.check_settings import CheckSettings
from tests.checks.tables_builder import HOUR, NOW, Found, Row, facts, find, ledger, tables

DAY = 24 * HOUR
PULSAR = [("application", b"pulsar")]


def opened(ledger_id: int, days: float, **said: Any) -> Row:
    return ledger(ledger_id, "bk1", state="OPEN", mtime=NOW - round(days * DAY), **said)


def named(ledger_id: int, place: int, list_size: int, topic: str = "returns", **said: Any) -> Row:
    return {
        "ledger_id": ledger_id, "standing": "owned", "kind": "data", "topic": topic, "place": place,
        "list_size": list_size, "path": f"/managed-ledgers/shop/orders/persistent/{topic}", "state": "OPEN",
        **said,
    }  # fmt: skip


def by_owner(found: list[Found]) -> dict[str, Found]:
    return {each.evidence["owner"]: each for each in found}


def test_age_counts_from_the_last_change_of_the_metadata(spark: SparkSession) -> None:
    asked = tables(
        spark,
        ledgers=[
            opened(1, 30),
            opened(2, 31),
            ledger(3, "bk1", state="IN_RECOVERY", mtime=NOW - 40 * DAY),
            ledger(4, "bk1", state="CLOSED", mtime=NOW - 40 * DAY),
            ledger(5, "bk1", state="OPEN", mtime=None),
            opened(6, 40, status="unreadable"),
        ],
    )
    [found] = find("ledger-open-long", asked)
    assert (found.where, found.severity, found.confidence) == ((2, None), "note", "confirmed")
    assert (found.evidence["ledgers"], found.evidence["days"]) == (1, 31)
    assert "it is unknown whether a writer still exists" in found.message


@pytest.mark.parametrize(("open_days", "ids"), [(7, [1]), (8, []), (1, [1])])
def test_the_age_is_a_setting(spark: SparkSession, open_days: int, ids: list[int]) -> None:
    asked = tables(spark, facts(settings=CheckSettings(open_days=open_days)), ledgers=[opened(1, 7.5)])
    assert [each.ledger_id for each in find("ledger-open-long", asked)] == ids


def test_without_owners_there_is_one_finding_for_each_application(spark: SparkSession) -> None:
    asked = tables(
        spark,
        ledgers=[
            *(opened(number, 30 + number, custom_metadata=PULSAR) for number in (3, 4, 5)),
            opened(6, 50),
            opened(7, 60),
        ],
    )
    found = by_owner(find("ledger-open-long", asked))
    assert {name: (each.ledger_id, each.evidence["ledgers"]) for name, each in found.items()} == {
        "application pulsar": (3, 3),
        "no application": (6, 2),
    }
    assert found["application pulsar"].evidence["days"] == 35


def test_the_last_ledger_of_an_owner_may_well_have_a_writer(spark: SparkSession) -> None:
    asked = tables(
        spark,
        ledgers=[*(opened(number, 40, custom_metadata=PULSAR) for number in (1, 2, 3, 4)), opened(5, 40)],
        ownership=[
            named(1, 0, 2),
            named(2, 1, 2),
            named(3, 2, 3, topic="sales"),
            named(4, 0, 2, topic="stock"),
            {"ledger_id": 5, "standing": "unnamed"},
        ],
    )
    found = by_owner(find("ledger-open-long", asked))
    counts = {
        name: tuple(each.evidence[part] for part in ("last", "superseded", "unnamed"))
        for name, each in found.items()
    }
    assert counts == {
        "topic shop/orders/returns": (1, 1, 0),
        "topic shop/orders/sales": (1, 0, 0),
        "topic shop/orders/stock": (0, 1, 0),
        "no application": (0, 0, 1),
    }
    assert "it may still have a writer" in found["topic shop/orders/sales"].message
    assert "1 of them may still have a writer" in found["topic shop/orders/returns"].message
    assert "its owner has later ledgers" in found["topic shop/orders/stock"].message
    assert "it is unknown" in found["no application"].message


def test_a_ledger_that_its_application_claims_and_nobody_names_counts_for_the_application(
    spark: SparkSession,
) -> None:
    asked = tables(
        spark,
        ledgers=[opened(1, 40, custom_metadata=PULSAR)],
        ownership=[{"ledger_id": 1, "standing": "unowned"}],
    )
    [found] = find("ledger-open-long", asked)
    assert found.evidence["owner"] == "application pulsar"


def test_no_finding_tells_to_delete() -> None:
    from auditor.checks import CHECK_BY_ID

    check = CHECK_BY_ID["ledger-open-long"]
    assert check.do_now is None
    assert check.action is None
    assert not any("deleteledger" in command.text for command in check.commands)
