"""Metadata that parses but breaks a rule: each rule has its own id."""

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
ALL_RULES = [rule for rules in RULES.values() for rule in rules]


@pytest.mark.parametrize("check_id", RULES)
def test_broken_rule_gets_one_finding_per_ledger(spark: SparkSession, check_id: str) -> None:
    cluster_tables = tables(
        spark,
        ledgers=[
            ledger(0, "bk1"),
            *(ledger(number, "bk1", rules=[(rule, "why")]) for number, rule in enumerate(ALL_RULES, 1)),
            ledger(
                99,
                "bk1",
                status="broken",
                rules=[(rule, f"{rule} {n}") for rule in ALL_RULES for n in (1, 2)],
            ),
        ],
    )
    *single, several = find(check_id, cluster_tables)
    assert [finding.ledger_id for finding in single] == [
        ALL_RULES.index(rule) + 1 for rule in RULES[check_id]
    ]
    assert {(finding.severity, finding.confidence, finding.bookie_id) for finding in single} == {
        ("error", "confirmed", None)
    }
    assert several.ledger_id == 99
    assert several.evidence["reasons"] == [f"{rule} {n}" for rule in RULES[check_id] for n in (1, 2)]
