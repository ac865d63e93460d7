"""The numbers of a report, computed from the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.audit.summary import count_impact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST = 2**63 - 1


def test_ledger_counts_once_per_severity_with_its_longest_length(spark: SparkSession) -> None:
    findings = spark.createDataFrame(
        [
            ("critical", 0, 1),
            ("note", 0, 1),
            ("note", 0, 1),
            ("note", 7, 1),  # another scope: another ledger
            ("note", 0, 2),
            ("note", 0, 3),
            ("warning", None, None),
        ],
        "severity string, scope_id bigint, ledger_id bigint",
    )
    ledgers = spark.createDataFrame(
        [(0, 1, 10), (0, 1, 30), (7, 1, 500), (0, 2, None), (0, 3, -4), (0, 9, 1000), (None, None, None)],
        "scope_id bigint, ledger_id bigint, length bigint",
    )
    assert count_impact(findings, ledgers) == [
        {"severity": "critical", "ledgers": 1, "bytes": 30},
        {"severity": "note", "ledgers": 4, "bytes": 530},
    ]


def test_impossibly_long_ledger_lengths_are_summed(spark: SparkSession) -> None:
    findings = spark.createDataFrame(
        [("note", 0, 1), ("note", 0, 2)], "severity string, scope_id bigint, ledger_id bigint"
    )
    ledgers = spark.createDataFrame(
        [(0, 1, _MOST), (0, 2, _MOST)], "scope_id bigint, ledger_id bigint, length bigint"
    )
    assert count_impact(findings, ledgers) == [{"severity": "note", "ledgers": 2, "bytes": 2 * _MOST}]
