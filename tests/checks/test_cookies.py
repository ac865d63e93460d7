"""Cookies compared with the store: their name, their text and their cluster."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, places, tables


def test_cookie_under_another_bookie_id_is_reported(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        cookies=[
            {"bookie_id": "bk1", "bookie_host": "bk1"},
            {"bookie_id": "bk2", "bookie_host": "bk1"},
            {"bookie_id": "bk3", "damage": "no layout"},
        ],
    )
    [finding] = find("cookie-key-mismatch", cluster_tables)
    assert (finding.where, finding.severity, finding.evidence["bookie_host"]) == (
        (None, "bk2"),
        "error",
        "bk1",
    )


def test_unreadable_cookies_make_one_finding_per_bookie(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        cookies=[
            {"bookie_id": "bk1", "damage": "no layout"},
            {"bookie_id": "bk2", "layout": 2},
            {"bookie_id": "bk3", "layout": 3},
        ],
        directories=[
            {"place": "bk1", "path": "ledgers0", "damage": "cut"},
            {"place": "bk1", "path": "ledgers1", "cookie_bookie_id": "bk1"},
            {"place": "bk4", "path": "ledgers0", "damage": "No such file", "version_absent": True},
        ],
    )
    damaged, old = find("cookie-unreadable", cluster_tables)
    assert (damaged.where, damaged.severity, damaged.confidence) == ((None, "bk1"), "error", "confirmed")
    assert damaged.evidence["cookies"] == [
        {"place": "ledgers0", "damage": "cut"},
        {"place": "metadata store", "damage": "no layout"},
    ]
    assert old.where == (None, "bk2")
    assert "layout 2 is older than 3" in old.message


def test_misplaced_disk_is_reported_by_the_place_it_is_in(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        directories=[
            {"place": "bk1", "path": "ledgers0", "cookie_bookie_id": "bk1", "owner": "bk1"},
            {"place": "bk1", "path": "ledgers1", "cookie_bookie_id": "bk2", "owner": "bk2"},
            {"place": "bk1", "path": "ledgers2", "cookie_bookie_id": "bk3", "owner": "bk1"},
            {"place": "bk2", "path": "ledgers0", "cookie_bookie_id": None, "owner": "bk2"},
        ],
    )
    [finding] = find("disk-id-mismatch", cluster_tables)
    assert (finding.where, finding.severity) == ((None, "bk1"), "error")
    assert [directory["path"] for directory in finding.evidence["directories"]] == ["ledgers1", "ledgers2"]
    assert finding.message == "bk1: 2 directories at its path carry the cookie of bk2, bk3"


def test_wrong_or_missing_instance_id_gets_one_finding_per_bookie(spark: SparkSession) -> None:
    rows: dict[str, list[Row]] = {
        "cookies": [
            {"bookie_id": "fine"},
            {"bookie_id": "foreign", "instance_id": "other"},
            {"bookie_id": "without", "instance_id": None},
            {"bookie_id": "damaged", "instance_id": None, "damage": "cut"},
        ],
        "directories": [
            {"place": "fine", "path": "ledgers0", "cookie_bookie_id": "fine"},
            {"place": "foreign", "path": "ledgers0", "cookie_bookie_id": "foreign", "instance_id": "other"},
            {"place": "disk", "path": "ledgers0", "cookie_bookie_id": "disk", "instance_id": "other"},
            {"place": "empty", "path": "ledgers0", "cookie_bookie_id": None, "instance_id": None},
        ],
    }
    disk, foreign, without = find("instance-mismatch", tables(spark, facts(), **rows))
    assert (disk.where, disk.severity, disk.confidence) == ((None, "disk"), "critical", "confirmed")
    assert [cookie["place"] for cookie in foreign.evidence["cookies"]] == ["ledgers0", "metadata store"]
    assert without.evidence["cookies"] == [{"place": "metadata store", "instance_id": None}]
    assert places(find("instance-mismatch", tables(spark, facts(instance_id=None), **rows))) == []
