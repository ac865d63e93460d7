"""Files that do not belong to a bookie: one finding per bookie."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, tables


def test_stray_files_are_counted_and_the_first_ones_are_listed(spark: SparkSession) -> None:
    strays = [{"bookie_id": "bk1", "state": "stray", "path": f"{number:02}.txt"} for number in range(12)]
    cluster_tables = tables(
        spark,
        availability=[
            *strays,
            {"bookie_id": "bk2", "state": "stray", "path": "notes.txt"},
            {"bookie_id": "bk3", "ledger_id": 1},
        ],
    )
    many, single = find("stray-file", cluster_tables)
    assert (many.where, many.severity, many.confidence) == ((None, "bk1"), "note", "confirmed")
    assert many.evidence == {"count": 12, "paths": [f"{number:02}.txt" for number in range(10)]}
    assert single.message == "bk2: 1 file among its indexes that no bookie writes: notes.txt"
