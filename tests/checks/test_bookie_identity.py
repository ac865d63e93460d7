"""Bookies by their sources: ensembles, cookies and registrations."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import facts, find, places, tables


def test_bookies_are_reported_by_missing_ensemble_cookie_or_registration(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[
            {"bookie_id": f"{is_named:d}{cookie:d}{registered:d}", "named": is_named, "has_cookie": cookie,
             "depending": 2, "registered": "readonly" if registered else None}
            for is_named in (True, False)
            for cookie in (True, False)
            for registered in (True, False)
        ]
        + [{"bookie_id": "idle-ghost", "has_cookie": False, "registered": None, "ledgers": 1}],
    )  # fmt: skip
    ghosts = find("ghost-bookie", cluster_tables)
    assert [(finding.bookie_id, finding.severity) for finding in ghosts] == [
        ("100", "error"),
        ("idle-ghost", "note"),
    ]
    assert "1 ledger names it, 0 ledgers depend on it" in ghosts[1].message

    [down] = find("bookie-down", cluster_tables)
    assert (down.where, down.severity, down.confidence) == ((None, "110"), "warning", "confirmed")

    missing = find("cookie-missing", cluster_tables)
    assert places(missing) == [(None, "001"), (None, "101")]
    assert {finding.severity for finding in missing} == {"error"}

    [unused] = find("cookie-unused", cluster_tables)
    assert (unused.where, unused.severity) == ((None, "010"), "note")


def test_incomplete_cookie_and_registration_lists_report_no_missing_bookie(
    spark: SparkSession,
) -> None:
    bookies = [
        {"bookie_id": "a:1", "has_cookie": False, "registered": None, "ledgers": 1, "depending": 1},
        {"bookie_id": "b:1", "has_cookie": True, "registered": None, "ledgers": 1, "depending": 1},
        {"bookie_id": "c:1", "has_cookie": False},
        {"bookie_id": "d:1", "named": False, "registered": None},
    ]
    expected = {
        "ghost-bookie": ["a:1"], "bookie-down": ["b:1"], "cookie-missing": ["c:1"], "cookie-unused": ["d:1"],
    }  # fmt: skip
    whole, cut = (tables(spark, facts(bookies_listed=listed), bookies=bookies) for listed in (True, False))
    unclear = tables(spark, facts(unclear_bookies=frozenset({"a:1", "c:1"})), bookies=bookies)
    for id, names in expected.items():
        assert [finding.bookie_id for finding in find(id, whole)] == names
        assert find(id, cut) == []
        assert [finding.bookie_id for finding in find(id, unclear)] == [
            name for name in names if name in "b:1 d:1"
        ]


def test_registration_without_cookie_says_if_no_directory_was_found(spark: SparkSession) -> None:
    columns: dict[str, object] = {"has_cookie": False, "named": False, "found": False}
    bookies = [{"bookie_id": "stray:1", **columns}, {"bookie_id": "on-disk:1", **columns, "found": True}]
    messages = [finding.message for finding in find("cookie-missing", tables(spark, bookies=bookies))]
    assert messages == [
        "on-disk:1 is registered (writable), but has no cookie: the bookie cannot restart",
        "stray:1 is registered (writable), but has no cookie: "
        "no ledger names it, and none of its directories was found",
    ]
