"""Bookies by what knows them: ensembles, cookies, registrations."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import facts, find, places, tables


def test_every_bookie_is_told_by_what_does_not_know_it(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=[
            {"bookie_id": f"{named:d}{cookie:d}{registered:d}", "named": named, "has_cookie": cookie,
             "depending": 2, "registered": "readonly" if registered else None}
            for named in (True, False)
            for cookie in (True, False)
            for registered in (True, False)
        ]
        + [{"bookie_id": "idle-ghost", "has_cookie": False, "registered": None, "ledgers": 1}],
    )  # fmt: skip
    ghosts = find("ghost-bookie", asked)
    assert [(each.bookie_id, each.severity) for each in ghosts] == [("100", "error"), ("idle-ghost", "note")]
    assert "1 ledger names it, 0 ledgers depend on it" in ghosts[1].message

    [down] = find("bookie-down", asked)
    assert (down.where, down.severity, down.confidence) == ((None, "110"), "warning", "confirmed")

    missing = find("cookie-missing", asked)
    assert places(missing) == [(None, "001"), (None, "101")]
    assert {each.severity for each in missing} == {"error"}

    [unused] = find("cookie-unused", asked)
    assert (unused.where, unused.severity) == ((None, "010"), "note")


def test_where_cookies_and_registrations_were_not_seen_to_their_end_nobody_is_missing(
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
        assert [each.bookie_id for each in find(id, whole)] == names
        assert find(id, cut) == []
        assert [each.bookie_id for each in find(id, unclear)] == [name for name in names if name in "b:1 d:1"]


def test_a_registration_that_nothing_else_knows_may_be_nobodys(spark: SparkSession) -> None:
    said: dict[str, object] = {"has_cookie": False, "named": False, "found": False}
    bookies = [{"bookie_id": "stray:1", **said}, {"bookie_id": "on-disk:1", **said, "found": True}]
    told = [each.message for each in find("cookie-missing", tables(spark, bookies=bookies))]
    assert told == [
        "on-disk:1 is registered (writable), but has no cookie: the bookie cannot restart",
        "stray:1 is registered (writable), but has no cookie: "
        "no ledger names it, and none of its directories was found",
    ]
