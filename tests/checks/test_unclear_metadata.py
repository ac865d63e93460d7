"""Metadata that cannot be decoded, and znodes that are no ledger's."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, find, places, tables

ROWS: list[Row] = [
    {"ledger_id": 1, "path": "L1"},
    {
        "ledger_id": 2,
        "path": "L2",
        "status": "unreadable",
        "damage": "no header",
        "damage_offset": 0,
        "version": 4,
    },
    {"ledger_id": 3, "path": "wrong/L3", "status": "misplaced", "low": 3, "high": 3, "damage": "wrong tree"},
    {"ledger_id": 3, "path": "L3"},
    {"path": "L0x", "status": "misplaced", "low": 0, "high": 9999},
    {"path": "L9x", "status": "misplaced"},
    {"path": "00", "status": "gap", "low": 0, "high": 99},
]


def test_unreadable_metadata_is_told_with_its_byte(spark: SparkSession) -> None:
    [found] = find("metadata-unreadable", tables(spark, ledgers=ROWS))
    assert (found.where, found.severity, found.confidence) == ((2, None), "error", "confirmed")
    assert found.evidence == {"path": "L2", "offset": 0, "reason": "no header", "version": 4}
    assert found.message.endswith("no header (at byte 0)")


def test_misplaced_znodes_are_told_by_the_id_they_stand_for(spark: SparkSession) -> None:
    nameless, named = find("metadata-misplaced", tables(spark, ledgers=ROWS))
    assert places([nameless, named]) == [(None, None), (3, None)]
    assert nameless.evidence["paths"] == ["L0x", "L9x"]
    assert (nameless.evidence["low"], nameless.evidence["high"]) == ("0", "9999")
    assert (named.evidence["paths"], named.evidence["count"]) == (["wrong/L3"], 1)
    assert named.severity == "error"
