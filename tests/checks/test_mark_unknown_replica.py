"""Bookie ids that only marks know."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, tables


def test_an_id_that_only_marks_know_is_told_with_its_marks(spark: SparkSession) -> None:
    nobody = {"named": False, "registered": None, "has_cookie": False}
    asked = tables(
        spark,
        bookies=[
            {"bookie_id": "cookie", **nobody, "has_cookie": True},
            {"bookie_id": "ensemble", **nobody, "named": True},
            {"bookie_id": "registered", **nobody, "registered": "both"},
            {"bookie_id": "strange", **nobody, "found": True},
        ],
        marks=[
            {"ledger_id": 1, "replicas": ["cookie", "ensemble", "registered"]},
            {"ledger_id": 2, "replicas": ["strange", "strange", "stranger"]},
            {"ledger_id": 3, "replicas": ["strange"]},
        ],
    )
    strange, stranger = find("mark-unknown-replica", asked)
    assert (strange.where, strange.severity) == ((None, "strange"), "note")
    assert strange.evidence == {"marks": 2, "sample": ["2", "3"]}
    assert stranger.evidence == {"marks": 1, "sample": ["2"]}
