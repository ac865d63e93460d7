"""Metadata that parses and says what may not be: each rule has its id."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, ledger, tables

RULES = {
    "segment-gap": ["segment-gap"],
    "segment-order": ["segment-order", "no-segment"],
    "ensemble-size": ["ensemble-size"],
    "ensemble-duplicate": ["ensemble-duplicate"],
    "quorum-invalid": ["quorum-invalid"],
}
EVERY = [rule for rules in RULES.values() for rule in rules]


@pytest.mark.parametrize("check_id", RULES)
def test_a_broken_rule_is_told_once_a_ledger(spark: SparkSession, check_id: str) -> None:
    asked = tables(
        spark,
        ledgers=[
            ledger(0, "bk1"),
            *(ledger(number, "bk1", rules=[(rule, "why")]) for number, rule in enumerate(EVERY, 1)),
            ledger(
                99, "bk1", status="broken", rules=[(rule, f"{rule} {n}") for rule in EVERY for n in (1, 2)]
            ),
        ],
    )
    *single, several = find(check_id, asked)
    assert [each.ledger_id for each in single] == [EVERY.index(rule) + 1 for rule in RULES[check_id]]
    assert {(each.severity, each.confidence, each.bookie_id) for each in single} == {
        ("error", "confirmed", None)
    }
    assert several.ledger_id == 99
    assert several.evidence["reasons"] == [f"{rule} {n}" for rule in RULES[check_id] for n in (1, 2)]
