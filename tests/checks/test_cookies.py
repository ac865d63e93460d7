"""Cookies against the store: their name, their text, their cluster."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, places, tables


def test_a_cookie_under_another_name_is_told(spark: SparkSession) -> None:
    asked = tables(
        spark,
        cookies=[
            {"bookie_id": "bk1", "bookie_host": "bk1"},
            {"bookie_id": "bk2", "bookie_host": "bk1"},
            {"bookie_id": "bk3", "damage": "no layout"},
        ],
    )
    [found] = find("cookie-key-mismatch", asked)
    assert (found.where, found.severity, found.evidence["bookie_host"]) == ((None, "bk2"), "error", "bk1")


def test_unreadable_cookies_are_one_finding_a_bookie(spark: SparkSession) -> None:
    asked = tables(
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
    both, old = find("cookie-unreadable", asked)
    assert (both.where, both.severity, both.confidence) == ((None, "bk1"), "error", "confirmed")
    assert both.evidence["cookies"] == [
        {"place": "ledgers0", "damage": "cut"},
        {"place": "metadata store", "damage": "no layout"},
    ]
    assert old.where == (None, "bk2")
    assert "layout 2 is older than 3" in old.message


def test_a_disk_in_the_wrong_place_is_told_by_place(spark: SparkSession) -> None:
    asked = tables(
        spark,
        directories=[
            {"place": "bk1", "path": "ledgers0", "cookie_bookie_id": "bk1", "owner": "bk1"},
            {"place": "bk1", "path": "ledgers1", "cookie_bookie_id": "bk2", "owner": "bk2"},
            {"place": "bk1", "path": "ledgers2", "cookie_bookie_id": "bk3", "owner": "bk1"},
            {"place": "bk2", "path": "ledgers0", "cookie_bookie_id": None, "owner": "bk2"},
        ],
    )
    [found] = find("disk-id-mismatch", asked)
    assert (found.where, found.severity) == ((None, "bk1"), "error")
    assert [each["path"] for each in found.evidence["directories"]] == ["ledgers1", "ledgers2"]
    assert found.message == "bk1: 2 directories at its path carry the cookie of bk2, bk3"


def test_another_instance_id_or_none_is_told_once_a_bookie(spark: SparkSession) -> None:
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
    assert [each["place"] for each in foreign.evidence["cookies"]] == ["ledgers0", "metadata store"]
    assert without.evidence["cookies"] == [{"place": "metadata store", "instance_id": None}]
    assert places(find("instance-mismatch", tables(spark, facts(instance_id=None), **rows))) == []
