"""Disks: without VERSION, at odds with each other or the store, in two places; and what a start would say."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, places, tables


def _disk(place: str, path: str, *ledgers: str, **said: object) -> Row:
    return {
        "place": place, "path": f"{place}/{path}", "cookie_bookie_id": place, "owner": place,
        "journal_dirs": "/j", "ledger_dirs": list(ledgers), "configured": f"/{path}", **said,
    }  # fmt: skip


def test_a_named_directory_without_a_version_is_told_once_a_bookie(spark: SparkSession) -> None:
    gone = {"version_absent": True, "empty": True, "layout": None}
    rows: list[Row] = [
        {"place": "bk1", "path": "l0", **gone},
        {"place": "bk1", "path": "l1", **gone, "empty": False},
        {"place": "bk2", "path": "other", "role": "unknown", **gone},
        {"place": "bk3", "path": "l0", "damage": "Permission denied"},
    ]
    [found] = find("disk-version-missing", tables(spark, directories=rows))
    assert (found.where, found.severity, found.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert found.message == "bk1: 2 directories have no VERSION: l0, l1"
    assert [each["empty"] for each in found.evidence["directories"]] == [True, False]


def test_disks_disagree_only_by_their_own_lists(spark: SparkSession) -> None:
    rows = [
        _disk("bk1", "l0", "/l0"),
        _disk("bk1", "l1", "/l0", "/l1"),
        # A disk of another bookie, and one of another cluster, are other findings.
        _disk("bk2", "l0", "/l0"),
        _disk("bk2", "l1", "/l9", cookie_bookie_id="bk3"),
        _disk("bk2", "l2", "/l0", instance_id="other", layout=4),
    ]
    [found] = find("disk-dirs-disagree", tables(spark, directories=rows))
    assert (found.where, found.severity) == ((None, "bk1"), "error")
    assert "2 different sets of directories" in found.message


def test_the_store_and_the_disks_differ_by_more_or_in_earnest(spark: SparkSession) -> None:
    asked = tables(
        spark,
        starts=[
            {"bookie_id": "bk1", "store_differs": ["ledgerDirs"], "store_grows": True},
            {"bookie_id": "bk2", "store_differs": ["journalDir"], "store_grows": False},
            {"bookie_id": "bk3", "store_differs": []},
        ],
        cookies=[{"bookie_id": f"bk{n}", "journal_dirs": "/j"} for n in (1, 2, 3)],
    )
    grown, other = find("dirset-mismatch", asked)
    assert (grown.where, grown.severity) == ((None, "bk1"), "warning")
    assert (other.where, other.severity) == ((None, "bk2"), "error")
    assert other.evidence["stored"]["journal_dirs"] == "/j"


def test_one_directory_in_two_places_is_shared_and_a_swapped_one_is_not(spark: SparkSession) -> None:
    cloned = [_disk("bk1", "l0", "/l0"), _disk("bk2", "l0", "/l0", cookie_bookie_id="bk1")]
    swapped = [
        _disk("bk3", "l0", "/l0", "/l1"),
        _disk("bk4", "l1", "/l0", "/l1", cookie_bookie_id="bk3"),
        _disk("bk5", "l0", "/l0", configured=None),
        _disk("bk6", "l0", "/l0", configured=None, cookie_bookie_id="bk5"),
    ]
    [found] = find("disk-shared", tables(spark, directories=[*cloned, *swapped]))
    assert (found.where, found.severity) == ((None, "bk1"), "critical")
    assert found.message == "bk1: 1 directory is in more than one place: bk1, bk2"


def test_a_refused_start_is_told_unless_another_finding_says_it(spark: SparkSession) -> None:
    refused = {"error": "Invalid", "reason": "why", "paths": ["/l0"], "expansion_paths": []}
    starts: list[Row] = [
        {"bookie_id": "bk1", "fault": "wiped", **refused, "expansion_error": "Invalid"},
        {"bookie_id": "bk2"},
        {"bookie_id": "bk3", "fault": "not-in-store", **refused},
        {"bookie_id": "bk4", "fault": "version-instance", **refused},
        {"bookie_id": "forgotten", "fault": "not-in-store", **refused},
    ]
    bookies: list[Row] = [
        *({"bookie_id": f"bk{n}", "has_cookie": n != 3} for n in (1, 2, 3, 4)),
        {"bookie_id": "forgotten", "named": False, "registered": None, "has_cookie": False},
    ]
    asked = tables(spark, starts=starts, bookies=bookies)
    wiped, instance = find("start-refused", asked)
    assert (wiped.where, wiped.severity) == ((None, "bk1"), "error")
    assert (wiped.evidence["fault"], wiped.evidence["paths"]) == ("wiped", ["/l0"])
    assert wiped.evidence["with_expansion"]["error"] == "Invalid"
    assert (instance.bookie_id, instance.evidence["with_expansion"]) == ("bk4", None)
    without = tables(spark, facts(instance_id=None, instance_id_missing=True), starts=starts, bookies=bookies)
    assert places(find("start-refused", without)) == [(None, "bk1")]


def test_a_start_that_something_else_may_explain_is_a_suspect(spark: SparkSession) -> None:
    gone = {"error": "java.io.IOException", "fault": "journal-gone", "reason": "why", "expansion_paths": []}
    starts: list[Row] = [{"bookie_id": f"bk{n}", "certain": n == 1, "paths": ["/j"], **gone} for n in (1, 2)]
    asked = tables(spark, starts=starts, bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}])
    assert [found.confidence for found in find("start-refused", asked)] == ["confirmed", "suspect"]
