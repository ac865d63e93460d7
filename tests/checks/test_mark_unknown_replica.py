"""Bookie ids that occur only in marks."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, tables


def test_bookie_id_known_only_from_marks_is_reported_with_its_marks(spark: SparkSession) -> None:
    unknown = {"named": False, "registered": None, "has_cookie": False}
    cluster_tables = tables(
        spark,
        bookies=[
            {"bookie_id": "cookie", **unknown, "has_cookie": True},
            {"bookie_id": "ensemble", **unknown, "named": True},
            {"bookie_id": "registered", **unknown, "registered": "both"},
            {"bookie_id": "strange", **unknown, "found": True},
        ],
        marks=[
            {"ledger_id": 1, "replicas": ["cookie", "ensemble", "registered"]},
            {"ledger_id": 2, "replicas": ["strange", "strange", "stranger"]},
            {"ledger_id": 3, "replicas": ["strange"]},
        ],
    )
    strange, stranger = find("mark-unknown-replica", cluster_tables)
    assert (strange.where, strange.severity) == ((None, "strange"), "note")
    assert strange.evidence == {"marks": 2, "sample": ["2", "3"]}
    assert stranger.evidence == {"marks": 1, "sample": ["2"]}
