"""Ledgers that name a renamed bookie's old id: the bookie's own collector would delete them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.checks.tables_builder import Row, entries, find, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.tables import Tables

ABSENT = {"registered": None, "has_cookie": True, "found": False, "read": "unread"}
DUE = entries("old", (0, 9, 1, 3))[1]


def cluster(spark: SparkSession, ids: Sequence[int], *, groups: bytes = DUE, **columns: Any) -> Tables:
    """Return ledgers that name old and are on new. ``columns`` are those of old, ``new`` those of new."""
    new = columns.pop("new", {})
    pair_columns = columns.pop("each", {})
    replicas = [("old", DUE, True), ("other", entries("other", (1, 8, 1, 3))[1], True)]
    pairs: list[Row] = [{"scope_id": 0, "ledger_id": number, "bookie_id": "new"} for number in ids]
    return tables(
        spark,
        bookies=[
            {"bookie_id": "new"} | new,
            {"bookie_id": "old", **ABSENT} | columns,
            {"bookie_id": "other"},
        ],
        ledgers=[{**ledger(number), "replicas": replicas} for number in ids],
        over_replicated=[{**pair, "count": 4} | pair_columns for pair in pairs],
        unequal=[{**pair, "held": groups, "index_state": "ok"} for pair in pairs],
    )


def test_live_data_under_an_unregistered_id_is_critical(spark: SparkSession) -> None:
    [finding] = find("alias-gc-danger", cluster(spark, range(12)))
    assert (finding.where, finding.severity, finding.confidence) == ((None, "new"), "critical", "confirmed")
    assert finding.message == (
        "new holds copies of 12 ledgers that name old, which is not registered: "
        "the garbage collector of new will delete 12 of these ledgers"
    )
    [alias] = finding.evidence["aliases"]
    assert (alias["alias"], alias["has_cookie"], alias["ledgers"]) == ("old", True, 12)
    assert alias["sample"] == [str(number) for number in range(10)]


def test_few_ledgers_or_a_suspect_bookie_make_the_finding_suspect(spark: SparkSession) -> None:
    [few] = find("alias-gc-danger", cluster(spark, range(4)))
    [swapped] = find("alias-gc-danger", cluster(spark, range(5), new={"suspect": True}))
    assert (few.confidence, swapped.confidence) == ("suspect", "suspect")


def test_open_ledgers_count_as_ledgers_but_not_as_closed(spark: SparkSession) -> None:
    [finding] = find("alias-gc-danger", cluster(spark, range(6), each={"state": "OPEN"}))
    assert (finding.evidence["ledgers"], finding.evidence["closed"]) == (6, 0)


def test_marked_ledgers_still_make_a_finding(spark: SparkSession) -> None:
    assert find("alias-gc-danger", cluster(spark, range(6), each={"marked": True}))


def test_ledgers_in_no_danger_of_deletion_get_no_alias_finding(
    spark: SparkSession,
) -> None:
    other_groups = entries("new", (0, 8, 1, 2))[1]
    for safe_cluster in (
        cluster(spark, range(9), groups=other_groups),
        cluster(spark, range(9), registered="writable"),
        cluster(spark, range(9), found=True),
        cluster(spark, range(9), each={"locked": True}),
        cluster(spark, range(9), new={"registered": None}),
        cluster(spark, range(9), new={"foreign_instance": True}),
    ):
        assert find("alias-gc-danger", safe_cluster) == []
