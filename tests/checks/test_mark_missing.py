"""Ledgers of an unregistered bookie that nobody marked: one finding per bookie."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, ledger, tables


def test_unmarked_ledgers_get_one_finding_per_bookie(spark: SparkSession) -> None:
    rows: dict[str, list[Row]] = {
        "bookies": [
            {"bookie_id": "down", "registered": None, "depending": 14},
            {"bookie_id": "marked", "registered": None, "depending": 1},
            {"bookie_id": "idle", "registered": None},
            {"bookie_id": "up", "depending": 14},
        ],
        "ledgers": [ledger(number, "down", "up") for number in range(13)]
        + [ledger(20, "down", "marked"), ledger(21, "down", "idle", depends=False)],
        "marks": [
            {"ledger_id": 20, "replicas": ["marked"]},
            {"ledger_id": 0, "replicas": ["down"], "misplaced": True},
        ],
    }
    [finding] = find("mark-missing", tables(spark, facts(), **rows))
    assert (finding.where, finding.severity, finding.confidence) == ((None, "down"), "note", "confirmed")
    sample = [str(number) for number in range(10)]
    assert finding.evidence == {"unmarked": 13, "doubted_unmarked": 0, "depending": 14, "sample": sample}
    assert find("mark-missing", tables(spark, facts(has_marks=False), **rows)) == []


def test_mark_applies_only_to_scope_0_and_the_sample_names_other_scopes(spark: SparkSession) -> None:
    scopes = (0, 1, -1)
    cluster_tables = tables(
        spark,
        facts(),
        bookies=[{"bookie_id": "down", "registered": None, "depending": 3}, {"bookie_id": "up"}],
        ledgers=[{**ledger(7, "down", "up"), "scope_id": scope} for scope in scopes],
        marks=[{"ledger_id": 7, "replicas": ["down"]}],
    )
    [finding] = find("mark-missing", cluster_tables)
    assert finding.evidence == {
        "unmarked": 2,
        "doubted_unmarked": 0,
        "depending": 3,
        "sample": ["7 of scope -1", "7 of scope 1"],
    }


def test_ledger_deleted_between_the_scans_needs_no_mark(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        facts(live=True, two_scans=True),
        bookies=[{"bookie_id": "down", "registered": None, "depending": 3}, {"bookie_id": "up"}],
        ledgers=[ledger(number, "down", "up") for number in (1, 2, 3)],
    )
    scheme = "scope_id long, ledger_id long, listed boolean, version long, version_again long, doubt string"

    def unmarked(*changes: tuple[int, int | None]) -> list[tuple[str, int, int]]:
        rows = [(0, number, True, 1, again, None) for number, again in changes]
        moved = spark.createDataFrame(rows, scheme)
        findings = find("mark-missing", replace(cluster_tables, moved_ledgers=moved))
        return [
            (finding.confidence, finding.evidence["unmarked"], finding.evidence["doubted_unmarked"])
            for finding in findings
        ]

    assert unmarked((2, None)) == [("confirmed", 2, 0)]
    assert unmarked((2, None), (3, 2)) == [("confirmed", 1, 1)]
    assert unmarked((1, 2), (2, None), (3, None)) == [("suspect", 0, 1)]
    assert unmarked((1, None), (2, None), (3, None)) == []
