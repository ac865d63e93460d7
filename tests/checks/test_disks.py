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
    assert found.message == "bk1: 2 directories have no VERSION file: l0, l1"
    assert [each["empty"] for each in found.evidence["directories"]] == [True, False]


def test_a_disk_without_a_version_is_a_warning_once_nothing_can_need_it(spark: SparkSession) -> None:
    gone: Row = {"place": "bk1", "path": "l0", "version_absent": True, "empty": True, "layout": None}
    released = {"bookie_id": "bk1", "named": False, "read": "partial"}

    def severity(complete: bool = True, other: Row | None = None, **changed: object) -> tuple[str, str]:
        rows: list[Row] = [{**released, **changed}, {"bookie_id": "bk2", **(other or {})}]
        asked = tables(spark, facts(copies_complete=complete), directories=[gone], bookies=rows)
        [found] = find("disk-version-missing", asked)
        return found.severity, found.message

    message = "bk1: 1 directory has no VERSION file: l0"
    released_words = "; no ledger names this bookie, and all copies of every entry exist elsewhere"
    assert severity() == ("warning", message + released_words)
    critical = ("critical", message)
    assert severity(complete=False) == critical
    assert severity(named=True) == critical
    assert severity(marked=True) == critical
    assert severity(suspect=True) == critical
    assert severity(foreign_instance=True) == critical
    assert severity(other={"read": "unread"}) == critical
    assert severity(other={"read": "unread", "named": False})[0] == "warning"


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
    wiped, instance, forgotten = find("start-refused", asked)
    assert (wiped.where, wiped.severity) == ((None, "bk1"), "error")
    assert (wiped.evidence["fault"], wiped.evidence["paths"]) == ("wiped", ["/l0"])
    assert wiped.evidence["with_expansion"]["error"] == "Invalid"
    assert (instance.bookie_id, instance.evidence["with_expansion"]) == ("bk4", None)
    assert (forgotten.bookie_id, forgotten.severity) == ("forgotten", "note")
    without = tables(spark, facts(instance_id=None, instance_id_missing=True), starts=starts, bookies=bookies)
    assert places(find("start-refused", without)) == [(None, "bk1"), (None, "forgotten")]


def test_a_start_is_refused_to_a_bookie_that_is_down_and_the_way_out_is_named(spark: SparkSession) -> None:
    refusal = {
        "error": "java.io.IOException", "fault": "journal-invalid-record", "reason": "why", "paths": ["/j"],
        "expansion_paths": [], "way_out": "with skipReplayJournalInvalidRecord=true",
    }  # fmt: skip
    lost = {"error": "Invalid", "fault": "not-in-store", "reason": "no cookie", "expansion_paths": []}
    bookies: list[Row] = [
        {"bookie_id": "bk1", "registered": None},
        {"bookie_id": "bk2", "registered": None, "has_cookie": False},
        {"bookie_id": "bk3", "registered": None, "has_cookie": False, "named": False},
    ]
    starts: list[Row] = [
        {"bookie_id": "bk1", **refusal}, {"bookie_id": "bk2", **lost}, {"bookie_id": "bk3", **lost}
    ]  # fmt: skip
    down, without_cookie, unnamed = find("start-refused", tables(spark, starts=starts, bookies=bookies))
    assert (down.where, down.confidence) == ((None, "bk1"), "confirmed")
    assert down.evidence["way_out"] == "with skipReplayJournalInvalidRecord=true"
    assert down.message == "bk1 would not restart: why; with skipReplayJournalInvalidRecord=true"
    assert (without_cookie.where, without_cookie.severity) == ((None, "bk2"), "error")
    assert (unnamed.where, unnamed.severity) == ((None, "bk3"), "note")


def test_an_upgrade_that_would_be_refused_is_a_note_while_the_bookie_runs(spark: SparkSession) -> None:
    refusal: Row = {
        "error": "Invalid", "fault": "index-not-in-cookie", "reason": "why", "paths": ["/i0"],
        "expansion_paths": [], "certain": False, "way_out": "start it without indexDirectories",
    }  # fmt: skip
    starts = [{"bookie_id": f"bk{n}", **refusal} for n in (1, 2)]
    bookies: list[Row] = [{"bookie_id": "bk1"}, {"bookie_id": "bk2", "registered": None}]
    runs, down = find("start-refused", tables(spark, starts=starts, bookies=bookies))
    assert {runs.bookie_id: runs.severity, down.bookie_id: down.severity} == {"bk1": "note", "bk2": "error"}
    assert (runs.confidence, down.confidence) == ("suspect", "suspect")


def test_a_bookie_without_any_cookie_is_a_refused_start_and_nothing_more_can_be_given(
    spark: SparkSession,
) -> None:
    start: Row = {
        "bookie_id": "bk1", "source": "nothing", "error": "Invalid", "fault": "not-empty", "reason": "why",
        "paths": ["/l0"], "expansion_paths": [],
    }  # fmt: skip
    bookies: list[Row] = [
        {"bookie_id": name, "registered": None, "has_cookie": False, "read": "unread", "reason": "no VERSION"}
        for name in ("bk1", "bk2")
    ]
    asked = tables(spark, starts=[start], bookies=bookies)
    assert places(find("bookie-unread", asked)) == [(None, "bk2")]
    assert places(find("start-refused", asked)) == [(None, "bk1")]
    unlisted = tables(spark, facts(bookies_listed=False), starts=[start], bookies=bookies)
    assert find("start-refused", unlisted) == []


def test_a_start_that_something_else_may_explain_is_a_suspect(spark: SparkSession) -> None:
    gone = {"error": "java.io.IOException", "fault": "journal-gone", "reason": "why", "expansion_paths": []}
    starts: list[Row] = [{"bookie_id": f"bk{n}", "certain": n == 1, "paths": ["/j"], **gone} for n in (1, 2)]
    asked = tables(spark, starts=starts, bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}])
    assert [found.confidence for found in find("start-refused", asked)] == ["confirmed", "suspect"]
