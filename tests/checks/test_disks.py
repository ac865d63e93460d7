"""Disks without VERSION, in conflict with each other or the store, or in two places; and refused starts."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import Row, facts, find, places, tables


def _disk(place: str, path: str, *ledgers: str, **overrides: object) -> Row:
    return {
        "place": place, "path": f"{place}/{path}", "cookie_bookie_id": place, "owner": place,
        "journal_dirs": "/j", "ledger_dirs": list(ledgers), "configured": f"/{path}", **overrides,
    }  # fmt: skip


def test_directories_without_version_get_one_finding_per_bookie(spark: SparkSession) -> None:
    no_version = {"version_absent": True, "empty": True, "layout": None}
    rows: list[Row] = [
        {"place": "bk1", "path": "l0", **no_version},
        {"place": "bk1", "path": "l1", **no_version, "empty": False},
        {"place": "bk2", "path": "other", "role": "unknown", **no_version},
        {"place": "bk3", "path": "l0", "damage": "Permission denied"},
    ]
    [finding] = find("disk-version-missing", tables(spark, directories=rows))
    assert (finding.where, finding.severity, finding.confidence) == ((None, "bk1"), "critical", "confirmed")
    assert finding.message == "bk1: 2 directories have no VERSION file: l0, l1"
    assert [directory["empty"] for directory in finding.evidence["directories"]] == [True, False]


def test_missing_version_is_a_warning_if_no_copy_depends_on_the_disk(spark: SparkSession) -> None:
    directory: Row = {"place": "bk1", "path": "l0", "version_absent": True, "empty": True, "layout": None}
    released = {"bookie_id": "bk1", "named": False, "read": "partial"}

    def severity(complete: bool = True, other_row: Row | None = None, **changed: object) -> tuple[str, str]:
        rows: list[Row] = [{**released, **changed}, {"bookie_id": "bk2", **(other_row or {})}]
        cluster_tables = tables(spark, facts(copies_complete=complete), directories=[directory], bookies=rows)
        [finding] = find("disk-version-missing", cluster_tables)
        return finding.severity, finding.message

    message = "bk1: 1 directory has no VERSION file: l0"
    released_words = "; no ledger names this bookie, and all copies of every entry exist elsewhere"
    assert severity() == ("warning", message + released_words)
    critical = ("critical", message)
    assert severity(complete=False) == critical
    assert severity(named=True) == critical
    assert severity(marked=True) == critical
    assert severity(suspect=True) == critical
    assert severity(foreign_instance=True) == critical
    assert severity(other_row={"read": "unread"}) == critical
    assert severity(other_row={"read": "unread", "named": False})[0] == "warning"


def test_directory_lists_are_compared_only_within_one_bookie(spark: SparkSession) -> None:
    rows = [
        _disk("bk1", "l0", "/l0"),
        _disk("bk1", "l1", "/l0", "/l1"),
        # A disk of another bookie, and one of another cluster, are other findings.
        _disk("bk2", "l0", "/l0"),
        _disk("bk2", "l1", "/l9", cookie_bookie_id="bk3"),
        _disk("bk2", "l2", "/l0", instance_id="other", layout=4),
    ]
    [finding] = find("disk-dirs-disagree", tables(spark, directories=rows))
    assert (finding.where, finding.severity) == ((None, "bk1"), "error")
    assert "2 different sets of directories" in finding.message


def test_cookie_difference_is_a_warning_for_added_directories_and_else_an_error(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        starts=[
            {"bookie_id": "bk1", "store_differs": ["ledgerDirs"], "store_grows": True},
            {"bookie_id": "bk2", "store_differs": ["journalDir"], "store_grows": False},
            {"bookie_id": "bk3", "store_differs": []},
        ],
        cookies=[{"bookie_id": f"bk{n}", "journal_dirs": "/j"} for n in (1, 2, 3)],
    )
    grown, changed = find("dirset-mismatch", cluster_tables)
    assert (grown.where, grown.severity) == ((None, "bk1"), "warning")
    assert (changed.where, changed.severity) == ((None, "bk2"), "error")
    assert changed.evidence["stored"]["journal_dirs"] == "/j"


def test_cloned_directory_is_shared_and_swapped_directories_are_not(spark: SparkSession) -> None:
    cloned = [_disk("bk1", "l0", "/l0"), _disk("bk2", "l0", "/l0", cookie_bookie_id="bk1")]
    swapped = [
        _disk("bk3", "l0", "/l0", "/l1"),
        _disk("bk4", "l1", "/l0", "/l1", cookie_bookie_id="bk3"),
        _disk("bk5", "l0", "/l0", configured=None),
        _disk("bk6", "l0", "/l0", configured=None, cookie_bookie_id="bk5"),
    ]
    [finding] = find("disk-shared", tables(spark, directories=[*cloned, *swapped]))
    assert (finding.where, finding.severity) == ((None, "bk1"), "critical")
    assert finding.message == "bk1: 1 directory is in more than one place: bk1, bk2"


def test_refused_start_is_reported_unless_another_finding_covers_it(spark: SparkSession) -> None:
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
    cluster_tables = tables(spark, starts=starts, bookies=bookies)
    wiped, instance, forgotten = find("start-refused", cluster_tables)
    assert (wiped.where, wiped.severity) == ((None, "bk1"), "error")
    assert (wiped.evidence["fault"], wiped.evidence["paths"]) == ("wiped", ["/l0"])
    assert wiped.evidence["with_expansion"]["error"] == "Invalid"
    assert (instance.bookie_id, instance.evidence["with_expansion"]) == ("bk4", None)
    assert (forgotten.bookie_id, forgotten.severity) == ("forgotten", "note")
    without = tables(spark, facts(instance_id=None, instance_id_missing=True), starts=starts, bookies=bookies)
    assert places(find("start-refused", without)) == [(None, "bk1"), (None, "forgotten")]


def test_refused_start_of_a_down_bookie_names_the_way_out(spark: SparkSession) -> None:
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


def test_refused_upgrade_of_a_running_bookie_is_a_note(spark: SparkSession) -> None:
    refusal: Row = {
        "error": "Invalid", "fault": "index-not-in-cookie", "reason": "why", "paths": ["/i0"],
        "expansion_paths": [], "certain": False, "way_out": "start it without indexDirectories",
    }  # fmt: skip
    starts = [{"bookie_id": f"bk{n}", **refusal} for n in (1, 2)]
    bookies: list[Row] = [{"bookie_id": "bk1"}, {"bookie_id": "bk2", "registered": None}]
    runs, down = find("start-refused", tables(spark, starts=starts, bookies=bookies))
    assert {runs.bookie_id: runs.severity, down.bookie_id: down.severity} == {"bk1": "note", "bk2": "error"}
    assert (runs.confidence, down.confidence) == ("suspect", "suspect")


def test_bookie_without_any_cookie_gets_a_refused_start_and_no_unread_finding(
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
    cluster_tables = tables(spark, starts=[start], bookies=bookies)
    assert places(find("bookie-unread", cluster_tables)) == [(None, "bk2")]
    assert places(find("start-refused", cluster_tables)) == [(None, "bk1")]
    unlisted = tables(spark, facts(bookies_listed=False), starts=[start], bookies=bookies)
    assert find("start-refused", unlisted) == []


def test_uncertain_refused_start_is_suspect(spark: SparkSession) -> None:
    fault = {"error": "java.io.IOException", "fault": "journal-gone", "reason": "why", "expansion_paths": []}
    starts: list[Row] = [{"bookie_id": f"bk{n}", "certain": n == 1, "paths": ["/j"], **fault} for n in (1, 2)]
    cluster_tables = tables(spark, starts=starts, bookies=[{"bookie_id": "bk1"}, {"bookie_id": "bk2"}])
    assert [finding.confidence for finding in find("start-refused", cluster_tables)] == [
        "confirmed",
        "suspect",
    ]
