"""The conditions under which a bookie's metadata is suspect."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.checks.tables_builder import facts, find, tables


def test_each_rule_fires_above_its_limit_and_not_at_it(spark: SparkSession) -> None:
    counts = {
        "few": (2000, 100),  # 5 % exactly
        "share": (1999, 100),
        "small-share": (1000, 99),  # nearly 10 %, and less than a hundred
        "every": (100, 100),
        "handful": (3, 3),  # made and deleted within one interval of garbage collection
        "range": (100_000, 150),
        "foreign": (7, 0),
        "none": (0, 0),
    }
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": name, "foreign_instance": name == "foreign"} for name in [*counts, "unread"]],
        holdings=[
            {"bookie_id": name, "ledgers": ledgers, "orphans": orphans}
            for name, (ledgers, orphans) in counts.items()
        ],
        vanished_ranges=[
            {"bookie_id": "range", "low": low, "high": low + 9_999, "ledgers": 150}
            for low in (20_000, 50_000)
        ],
    )
    by_bookie = {finding.bookie_id: finding for finding in find("metadata-suspect", cluster_tables)}
    assert {name: finding.evidence["rules"] for name, finding in by_bookie.items()} == {
        "share": ["orphan-share"],
        "every": ["orphan-share", "every-ledger"],
        "range": ["vanished-ranges"],
        "foreign": ["foreign-instance"],
    }
    assert {(finding.severity, finding.confidence) for finding in by_bookie.values()} == {
        ("critical", "confirmed")
    }
    ranges = by_bookie["range"].evidence
    assert (ranges["vanished_ranges"], ranges["vanished_low"], ranges["vanished_high"]) == (
        2,
        "20000",
        "59999",
    )


def test_vanished_ranges_in_a_finding_are_of_one_scope(spark: SparkSession) -> None:
    lows = {0: [20_000], -(2**63): [-10_000, 30_000]}
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk"}],
        holdings=[{"bookie_id": "bk", "ledgers": 100_000, "orphans": 300}],
        vanished_ranges=[
            {"bookie_id": "bk", "scope_id": scope, "low": low, "high": low + 9_999, "ledgers": 100}
            for scope, scope_lows in lows.items()
            for low in scope_lows
        ],
    )
    [finding] = find("metadata-suspect", cluster_tables)
    assert {name: value for name, value in finding.evidence.items() if name.startswith("vanished")} == {
        "vanished_ranges": 3,
        "vanished_scope": str(-(2**63)),
        "vanished_low": "-10000",
        "vanished_high": "39999",
    }


def test_orphans_with_doubtful_ids_count_but_leave_the_finding_suspect(spark: SparkSession) -> None:
    counts = {
        "unseen": (1000, 150, 150),
        "most": (1000, 150, 51),
        "enough": (1000, 151, 51),
        "few": (1000, 99, 99),
    }
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": name} for name in [*counts, "range", "both"]],
        holdings=[
            {"bookie_id": name, "ledgers": ledgers, "orphans": orphans, "in_doubt": unseen}
            for name, (ledgers, orphans, unseen) in counts.items()
        ],
        vanished_ranges=[
            {"bookie_id": name, "low": low, "high": low + 9_999, "ledgers": 100, "in_doubt": unseen}
            for name, low, unseen in (("range", 0, 1), ("both", 0, 100), ("both", 10_000, 0))
        ],
    )
    by_bookie = {finding.bookie_id: finding for finding in find("metadata-suspect", cluster_tables)}
    assert {name: finding.confidence for name, finding in by_bookie.items()} == {
        "unseen": "suspect",
        "most": "suspect",
        "enough": "confirmed",
        "range": "suspect",
        "both": "confirmed",
    }
    assert by_bookie["unseen"].evidence["in_doubt"] == 150
    assert (
        "150 of these may have metadata, because not all metadata could be read"
        in by_bookie["unseen"].message
    )


def test_one_undrawn_orphan_id_shows_that_the_store_is_older_than_the_data(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "ahead"}, {"bookie_id": "fine"}],
        holdings=[{"bookie_id": name, "ledgers": 1000, "orphans": 1} for name in ("ahead", "fine")],
        orphans=[{"bookie_id": "ahead", "ledger_id": 71}, {"bookie_id": "fine", "ledger_id": 3}],
        undrawn=[{"bookie_id": "ahead", "undrawn": 1, "lowest": 71, "highest": 71}],
    )
    [finding] = find("metadata-suspect", cluster_tables)
    assert (finding.bookie_id, finding.confidence) == ("ahead", "confirmed")
    assert (finding.evidence["rules"], finding.evidence["undrawn_lowest"]) == (["store-older"], "71")
    orphans = {result.bookie_id: result.confidence for result in find("orphan-ledger", cluster_tables)}
    assert orphans == {"ahead": "suspect", "fine": "confirmed"}


@pytest.mark.parametrize(("live", "confidence"), [(True, "confirmed"), (False, "suspect")])
def test_unused_looking_store_gets_a_finding_for_bookies_with_orphans(
    spark: SparkSession, live: bool, confidence: str
) -> None:
    cluster_tables = tables(
        spark,
        facts(looks_unused=True, live=live),
        bookies=[{"bookie_id": "full"}, {"bookie_id": "empty"}, {"bookie_id": "known"}],
        holdings=[
            {"bookie_id": "full", "ledgers": 3, "orphans": 3},
            {"bookie_id": "known", "ledgers": 3, "orphans": 0},
        ],
    )
    [finding] = find("metadata-suspect", cluster_tables)
    assert (finding.bookie_id, finding.evidence["rules"]) == ("full", ["store-bare"])
    assert (finding.severity, finding.confidence) == ("critical", confidence)


ORPHAN_COUNTS = {
    "none": (2000, 150, 0, 0),  # deleted since the last collection
    "few": (2000, 150, 0, 99),
    "share": (2000, 150, 0, 100),  # 5 % exactly
    "lasting": (1999, 150, 0, 100),
    "doubtful": (1999, 150, 51, 99),
    "every": (150, 150, 0, 0),
    "range": (100_000, 150, 0, 99),  # the oldest ids, deleted since the last collection
    "lasting-range": (100_000, 150, 0, 100),
}


@pytest.mark.parametrize("earlier_ms", [1_795_237_669_000, None])
def test_many_orphans_on_a_live_store_are_confirmed_by_lasting_orphans(
    spark: SparkSession, earlier_ms: int | None
) -> None:
    cluster_tables = tables(
        spark,
        facts(live=True, two_scans=True, earlier_orphans_time=earlier_ms),
        bookies=[{"bookie_id": name} for name in ORPHAN_COUNTS],
        holdings=[
            {
                "bookie_id": name,
                "ledgers": ledgers,
                "orphans": orphans,
                "in_doubt": unseen,
                "lasting": 0 if earlier_ms is None else lasting,
            }
            for name, (ledgers, orphans, unseen, lasting) in ORPHAN_COUNTS.items()
        ],
        vanished_ranges=[
            {"bookie_id": name, "low": 0, "high": 9_999, "ledgers": 150}
            for name in ("range", "lasting-range")
        ],
    )
    by_bookie = {finding.bookie_id: finding for finding in find("metadata-suspect", cluster_tables)}
    assert {finding.severity for finding in by_bookie.values()} == {"critical"}
    assert {name for name, finding in by_bookie.items() if finding.confidence == "confirmed"} == (
        # Whatever else speaks for it needs no second look.
        {"every"} if earlier_ms is None else {"every", "lasting", "lasting-range"}
    )
    assert set(by_bookie) == set(ORPHAN_COUNTS)
    evidence, message = by_bookie["lasting"].evidence, by_bookie["lasting"].message
    assert (evidence["rules"], evidence["earlier_run_ended"]) == (["orphan-share"], earlier_ms)
    if earlier_ms is None:
        assert by_bookie["range"].message.endswith(
            "(reasons: vanished-ranges); unconfirmed until a run at least an hour later finds the same "
            "orphans"
        )
        assert message.endswith(
            "(reasons: orphan-share); unconfirmed until a run at least an hour later finds the same orphans"
        )
    else:
        assert evidence["lasting_orphans"] == 100
        assert message.endswith("; 100 of them were already orphans in the run of 2026-11-21 05:07:49 UTC")
    assert by_bookie["every"].message.endswith("every-ledger)")


def test_orphan_share_in_saved_metadata_is_confirmed_by_one_run(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk"}],
        holdings=[{"bookie_id": "bk", "ledgers": 1999, "orphans": 100}],
    )
    [finding] = find("metadata-suspect", cluster_tables)
    assert (finding.confidence, finding.evidence["earlier_run_ended"]) == ("confirmed", None)
    assert finding.message.endswith("(reasons: orphan-share)")


def test_recent_orphans_do_not_count_toward_the_orphan_share(spark: SparkSession) -> None:
    counts = {
        "busy": (250, 150, 0, 150),
        "half": (250, 150, 0, 51),  # 99 others
        "enough": (250, 150, 0, 50),
        "emptied": (150, 150, 0, 150),
        "doubtful": (250, 250, 100, 150),
    }
    for live in (True, False):
        cluster_tables = tables(
            spark,
            facts(live=live, two_scans=live),
            bookies=[{"bookie_id": name} for name in counts],
            holdings=[
                {
                    "bookie_id": name,
                    "ledgers": ledgers,
                    "orphans": orphans,
                    "in_doubt": unseen,
                    "recent": recent,
                }
                for name, (ledgers, orphans, unseen, recent) in counts.items()
            ],
        )
        by_bookie = {finding.bookie_id: finding for finding in find("metadata-suspect", cluster_tables)}
        assert {name: finding.evidence["rules"] for name, finding in by_bookie.items()} == {
            "enough": ["orphan-share"],
            "emptied": ["every-ledger"],
            "doubtful": ["orphan-share", "every-ledger"],
        }
        assert by_bookie["enough"].evidence["recent_orphans"] == 50
        assert by_bookie["emptied"].confidence == "confirmed"
        assert by_bookie["enough"].confidence == ("suspect" if live else "confirmed")


def test_large_orphan_share_of_few_ledgers_is_suspect(spark: SparkSession) -> None:
    counts = {
        "most": (91, 90, 90),
        "fifth": (25, 5, 5),  # 20 % exactly
        "above-fifth": (24, 5, 5),
        "four": (4, 4, 4),
        "new-cluster": (3, 3, 3),
        "explained": (91, 90, 4),  # recent, newer than the scan, or dropped by their owner
    }
    for live in (True, False):
        cluster_tables = tables(
            spark,
            facts(live=live, two_scans=live),
            bookies=[{"bookie_id": name} for name in counts],
            holdings=[
                {"bookie_id": name, "ledgers": ledgers, "orphans": orphans, "unexplained": unexplained}
                for name, (ledgers, orphans, unexplained) in counts.items()
            ],
        )
        by_bookie = {finding.bookie_id: finding for finding in find("metadata-suspect", cluster_tables)}
        assert {name: finding.evidence["rules"] for name, finding in by_bookie.items()} == {
            "most": ["large-orphan-share"],
            "above-fifth": ["large-orphan-share"],
        }
        assert {(finding.severity, finding.confidence) for finding in by_bookie.values()} == {
            ("critical", "suspect")
        }
        assert by_bookie["most"].evidence["unexplained_orphans"] == 90


def test_large_orphan_share_does_not_weaken_a_confirmed_finding(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk"}],
        holdings=[{"bookie_id": "bk", "ledgers": 150, "orphans": 120, "unexplained": 120}],
    )
    [finding] = find("metadata-suspect", cluster_tables)
    assert (finding.confidence, finding.evidence["rules"]) == (
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
    [finding] = find("metadata-suspect", tables(spark, facts(lists_no_ledger=True), **rows))
    assert (finding.bookie_id, finding.confidence) == ("holder", "suspect")
    assert finding.evidence["rules"] == ["store-empty"]
    assert not find("metadata-suspect", tables(spark, facts(), **rows))
