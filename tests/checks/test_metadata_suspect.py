"""When a bookie's metadata is in doubt."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.checks.tables_builder import facts, find, tables


def test_each_guard_fires_and_just_below_it_none_does(spark: SparkSession) -> None:
    held = {
        "few": (2000, 100),  # 5 % exactly
        "share": (1999, 100),
        "small-share": (1000, 99),  # nearly 10 %, and less than a hundred
        "every": (100, 100),
        "handful": (3, 3),  # made and deleted within one interval of garbage collection
        "range": (100_000, 150),
        "foreign": (7, 0),
        "none": (0, 0),
    }
    asked = tables(
        spark,
        bookies=[{"bookie_id": name, "foreign_instance": name == "foreign"} for name in [*held, "unread"]],
        holdings=[{"bookie_id": name, "ledgers": of, "orphans": gone} for name, (of, gone) in held.items()],
        vanished_ranges=[
            {"bookie_id": "range", "low": low, "high": low + 9_999, "ledgers": 150}
            for low in (20_000, 50_000)
        ],
    )
    found = {each.bookie_id: each for each in find("metadata-suspect", asked)}
    assert {name: each.evidence["rules"] for name, each in found.items()} == {
        "share": ["orphan-share"],
        "every": ["orphan-share", "every-ledger"],
        "range": ["vanished-ranges"],
        "foreign": ["foreign-instance"],
    }
    assert {(each.severity, each.confidence) for each in found.values()} == {("critical", "confirmed")}
    ranges = found["range"].evidence
    assert (ranges["vanished_ranges"], ranges["vanished_low"], ranges["vanished_high"]) == (
        2,
        "20000",
        "59999",
    )


def test_the_ranges_that_are_told_are_of_one_scope(spark: SparkSession) -> None:
    lows = {0: [20_000], -(2**63): [-10_000, 30_000]}
    asked = tables(
        spark,
        bookies=[{"bookie_id": "bk"}],
        holdings=[{"bookie_id": "bk", "ledgers": 100_000, "orphans": 300}],
        vanished_ranges=[
            {"bookie_id": "bk", "scope_id": scope, "low": low, "high": low + 9_999, "ledgers": 100}
            for scope, of_scope in lows.items()
            for low in of_scope
        ],
    )
    [found] = find("metadata-suspect", asked)
    assert {name: said for name, said in found.evidence.items() if name.startswith("vanished")} == {
        "vanished_ranges": 3,
        "vanished_scope": str(-(2**63)),
        "vanished_low": "-10000",
        "vanished_high": "39999",
    }


def test_orphans_whose_ids_are_in_doubt_count_and_leave_it_suspect(spark: SparkSession) -> None:
    held = {
        "unseen": (1000, 150, 150),
        "most": (1000, 150, 51),
        "enough": (1000, 151, 51),
        "few": (1000, 99, 99),
    }
    asked = tables(
        spark,
        bookies=[{"bookie_id": name} for name in [*held, "range", "both"]],
        holdings=[
            {"bookie_id": name, "ledgers": of, "orphans": gone, "in_doubt": unseen}
            for name, (of, gone, unseen) in held.items()
        ],
        vanished_ranges=[
            {"bookie_id": name, "low": low, "high": low + 9_999, "ledgers": 100, "in_doubt": unseen}
            for name, low, unseen in (("range", 0, 1), ("both", 0, 100), ("both", 10_000, 0))
        ],
    )
    found = {each.bookie_id: each for each in find("metadata-suspect", asked)}
    assert {name: each.confidence for name, each in found.items()} == {
        "unseen": "suspect",
        "most": "suspect",
        "enough": "confirmed",
        "range": "suspect",
        "both": "confirmed",
    }
    assert found["unseen"].evidence["in_doubt"] == 150
    assert "150 of these may have metadata, because not all metadata could be read" in found["unseen"].message


def test_a_store_that_is_older_than_the_data_is_in_doubt_for_one_orphan(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=[{"bookie_id": "ahead"}, {"bookie_id": "fine"}],
        holdings=[{"bookie_id": name, "ledgers": 1000, "orphans": 1} for name in ("ahead", "fine")],
        orphans=[{"bookie_id": "ahead", "ledger_id": 71}, {"bookie_id": "fine", "ledger_id": 3}],
        undrawn=[{"bookie_id": "ahead", "undrawn": 1, "lowest": 71, "highest": 71}],
    )
    [found] = find("metadata-suspect", asked)
    assert (found.bookie_id, found.confidence) == ("ahead", "confirmed")
    assert (found.evidence["rules"], found.evidence["undrawn_lowest"]) == (["store-older"], "71")
    orphans = {each.bookie_id: each.confidence for each in find("orphan-ledger", asked)}
    assert orphans == {"ahead": "suspect", "fine": "confirmed"}


@pytest.mark.parametrize(("live", "confidence"), [(True, "confirmed"), (False, "suspect")])
def test_a_store_that_no_cluster_used_is_in_doubt_where_bookies_hold_orphans(
    spark: SparkSession, live: bool, confidence: str
) -> None:
    asked = tables(
        spark,
        facts(looks_unused=True, live=live),
        bookies=[{"bookie_id": "full"}, {"bookie_id": "empty"}, {"bookie_id": "known"}],
        holdings=[
            {"bookie_id": "full", "ledgers": 3, "orphans": 3},
            {"bookie_id": "known", "ledgers": 3, "orphans": 0},
        ],
    )
    [found] = find("metadata-suspect", asked)
    assert (found.bookie_id, found.evidence["rules"]) == ("full", ["store-bare"])
    assert (found.severity, found.confidence) == ("critical", confidence)


HELD = {
    "none": (2000, 150, 0, 0),  # deleted since the last collection
    "few": (2000, 150, 0, 99),
    "share": (2000, 150, 0, 100),  # 5 % exactly
    "lasting": (1999, 150, 0, 100),
    "doubtful": (1999, 150, 51, 99),
    "every": (150, 150, 0, 0),
    "range": (100_000, 150, 0, 99),  # the oldest ids, deleted since the last collection
    "lasting-range": (100_000, 150, 0, 100),
}


@pytest.mark.parametrize("known", [1_795_237_669_000, None])
def test_many_orphans_on_a_live_store_are_confirmed_by_those_that_last(
    spark: SparkSession, known: int | None
) -> None:
    asked = tables(
        spark,
        facts(live=True, two_scans=True, earlier_orphans_time=known),
        bookies=[{"bookie_id": name} for name in HELD],
        holdings=[
            {
                "bookie_id": name,
                "ledgers": of,
                "orphans": gone,
                "in_doubt": unseen,
                "lasting": 0 if known is None else lasting,
            }
            for name, (of, gone, unseen, lasting) in HELD.items()
        ],
        vanished_ranges=[
            {"bookie_id": name, "low": 0, "high": 9_999, "ledgers": 150}
            for name in ("range", "lasting-range")
        ],
    )
    found = {each.bookie_id: each for each in find("metadata-suspect", asked)}
    assert {each.severity for each in found.values()} == {"critical"}
    assert {name for name, each in found.items() if each.confidence == "confirmed"} == (
        # Whatever else speaks for it needs no second look.
        {"every"} if known is None else {"every", "lasting", "lasting-range"}
    )
    assert set(found) == set(HELD)
    said, alone = found["lasting"].evidence, found["lasting"].message
    assert (said["rules"], said["earlier_run_ended"]) == (["orphan-share"], known)
    if known is None:
        assert found["range"].message.endswith(
            "(reasons: vanished-ranges); unconfirmed until a run at least an hour later finds the same "
            "orphans"
        )
        assert alone.endswith(
            "(reasons: orphan-share); unconfirmed until a run at least an hour later finds the same orphans"
        )
    else:
        assert said["lasting_orphans"] == 100
        assert alone.endswith("; 100 of them were already orphans in the run of 2026-11-21 05:07:49 UTC")
    assert found["every"].message.endswith("every-ledger)")


def test_the_share_of_orphans_in_saved_metadata_needs_no_second_look(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=[{"bookie_id": "bk"}],
        holdings=[{"bookie_id": "bk", "ledgers": 1999, "orphans": 100}],
    )
    [found] = find("metadata-suspect", asked)
    assert (found.confidence, found.evidence["earlier_run_ended"]) == ("confirmed", None)
    assert found.message.endswith("(reasons: orphan-share)")


def test_what_was_in_the_metadata_lately_is_no_sign_of_loss(spark: SparkSession) -> None:
    held = {
        "busy": (250, 150, 0, 150),
        "half": (250, 150, 0, 51),  # 99 others
        "enough": (250, 150, 0, 50),
        "emptied": (150, 150, 0, 150),
        "doubtful": (250, 250, 100, 150),
    }
    for live in (True, False):
        asked = tables(
            spark,
            facts(live=live, two_scans=live),
            bookies=[{"bookie_id": name} for name in held],
            holdings=[
                {"bookie_id": name, "ledgers": of, "orphans": gone, "in_doubt": unseen, "recent": recent}
                for name, (of, gone, unseen, recent) in held.items()
            ],
        )
        found = {each.bookie_id: each for each in find("metadata-suspect", asked)}
        assert {name: each.evidence["rules"] for name, each in found.items()} == {
            "enough": ["orphan-share"],
            "emptied": ["every-ledger"],
            "doubtful": ["orphan-share", "every-ledger"],
        }
        assert found["enough"].evidence["recent_orphans"] == 50
        assert found["emptied"].confidence == "confirmed"
        assert found["enough"].confidence == ("suspect" if live else "confirmed")


def test_a_large_share_of_few_ledgers_is_suspect(spark: SparkSession) -> None:
    held = {
        "most": (91, 90, 90),
        "fifth": (25, 5, 5),  # 20 % exactly
        "above-fifth": (24, 5, 5),
        "four": (4, 4, 4),
        "new-cluster": (3, 3, 3),
        "explained": (91, 90, 4),  # recent, newer than the scan, or dropped by their owner
    }
    for live in (True, False):
        asked = tables(
            spark,
            facts(live=live, two_scans=live),
            bookies=[{"bookie_id": name} for name in held],
            holdings=[
                {"bookie_id": name, "ledgers": ledgers, "orphans": orphans, "unexplained": unexplained}
                for name, (ledgers, orphans, unexplained) in held.items()
            ],
        )
        found = {each.bookie_id: each for each in find("metadata-suspect", asked)}
        assert {name: each.evidence["rules"] for name, each in found.items()} == {
            "most": ["large-orphan-share"],
            "above-fifth": ["large-orphan-share"],
        }
        assert {(each.severity, each.confidence) for each in found.values()} == {("critical", "suspect")}
        assert found["most"].evidence["unexplained_orphans"] == 90


def test_a_large_share_leaves_what_another_rule_confirms(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=[{"bookie_id": "bk"}],
        holdings=[{"bookie_id": "bk", "ledgers": 150, "orphans": 120, "unexplained": 120}],
    )
    [found] = find("metadata-suspect", asked)
    assert (found.confidence, found.evidence["rules"]) == (
        "confirmed",
        ["orphan-share", "large-orphan-share"],
    )


def test_a_store_that_lists_no_ledger_is_suspect_if_a_bookie_holds_data(spark: SparkSession) -> None:
    rows: dict[str, list[dict[str, Any]]] = {
        "bookies": [{"bookie_id": name} for name in ("holder", "explained", "empty")],
        "holdings": [
            {"bookie_id": "holder", "ledgers": 1, "orphans": 1, "unexplained": 1},
            {"bookie_id": "explained", "ledgers": 1, "orphans": 1},
        ],
    }
    [found] = find("metadata-suspect", tables(spark, facts(lists_no_ledger=True), **rows))
    assert (found.bookie_id, found.confidence) == ("holder", "suspect")
    assert found.evidence["rules"] == ["store-empty"]
    assert not find("metadata-suspect", tables(spark, facts(), **rows))
