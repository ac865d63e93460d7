"""Id generators that would issue ids that are in use."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.checks.tables_builder import ParsedFinding, find, tables

GENERATOR = {"low": 0, "high": 2**31 - 1, "next": 70, "listed": 0, "drawn": 0, "chosen": 0, "held": 0}


def findings(spark: SparkSession, **row: Any) -> list[ParsedFinding]:
    return find("id-generator-behind", tables(spark, id_generators=[{**GENERATOR, **row}]))


def test_a_generator_beyond_every_id_in_use_is_no_finding(spark: SparkSession) -> None:
    assert findings(spark) == []


def test_used_ids_of_an_application_that_never_chooses_ids_are_confirmed(spark: SparkSession) -> None:
    [finding] = findings(spark, listed=3, listed_highest=5_000_000, drawn=1, chosen=7)
    assert (finding.severity, finding.confidence) == ("error", "confirmed")
    assert "the next ledger gets id 70" in finding.message
    assert "3 listed ledgers have ids up to 5000000" in finding.message
    assert (finding.evidence["next_id"], finding.evidence["drawn"]) == ("70", 1)


def test_deleted_ledgers_that_bookies_hold_are_confirmed(spark: SparkSession) -> None:
    [finding] = findings(spark, held=8, held_highest=79)
    assert finding.confidence == "confirmed"
    assert "a bookie holds 8 deleted ledgers with ids up to 79" in finding.message


def test_unclaimed_ids_close_together_are_suspect(spark: SparkSession) -> None:
    [finding] = findings(spark, listed=9, listed_highest=9_069)
    assert finding.confidence == "suspect"


def test_ids_that_an_application_chose_are_no_finding(spark: SparkSession) -> None:
    assert findings(spark, listed=9, listed_highest=9_070) == []  # far apart
    assert findings(spark, listed=9, listed_highest=80, chosen=1) == []  # some cannot have been drawn
    assert findings(spark, chosen=12) == []
