"""A directory with another bookie's ledgers, whatever its cookie states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.checks.tables_builder import Row, find, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ABSENT = {"registered": None, "found": False}


def row(directory: str, owner: str, candidate: str, better: int, worse: int = 0) -> Row:
    return {
        "directory": directory, "place": owner, "owner": owner, "ledgers": 40, "candidate": candidate,
        "named": 30, "exact": better, "better": better, "worse": worse,
    }  # fmt: skip


def test_directories_with_another_bookies_ledgers_get_one_finding_per_bookie(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}, {"bookie_id": "bk3"}],
        contents=[
            row("/d/1", "bk1", "bk2", better=30, worse=3),
            row("/d/2", "bk1", "bk3", better=5),
            row("/d/3", "bk2", "bk1", better=30),
        ],
    )
    first, second = find("disk-content-mismatch", cluster_tables)
    assert (first.where, first.severity, first.confidence) == ((None, "bk1"), "error", "suspect")
    assert first.message == (
        "bk1: 2 directories attributed to this bookie hold entries of 35 ledgers that are missing on bk2, "
        "bk3 (compared entry by entry)"
    )
    assert [directory["directory"] for directory in first.evidence["directories"]] == ["/d/1", "/d/2"]
    assert second.where == (None, "bk2")
    assert second.message.startswith(
        "bk2: 1 directory attributed to this bookie holds entries of 30 ledgers that are missing on bk1 ("
    )


def test_directory_with_few_or_own_ledgers_gets_no_finding(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}],
        contents=[
            row("/few", "bk1", "bk2", better=4),
            row("/mixed", "bk1", "bk2", better=30, worse=4),
            row("/right", "bk1", "bk1", better=30),
        ],
    )
    assert find("disk-content-mismatch", cluster_tables) == []


def test_renamed_bookie_gets_no_disk_content_finding(spark: SparkSession) -> None:
    contents = [row("/d", "new", "old", better=30)]
    renamed = tables(spark, bookies=[{"bookie_id": "new"}, {"bookie_id": "old", **ABSENT}], contents=contents)
    assert find("disk-content-mismatch", renamed) == []
    # A bookie that is down cannot be the living half of a renamed one: its disk may be a lost one's.
    down = {"bookie_id": "new", "registered": None}
    cluster_tables = tables(spark, bookies=[down, {"bookie_id": "old", **ABSENT}], contents=contents)
    assert len(find("disk-content-mismatch", cluster_tables)) == 1
