"""A renamed bookie whose ledgers name its old id: its own collector would delete them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.checks.tables_builder import Row, entries, find, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.tables import Tables

GONE = {"registered": None, "has_cookie": True, "found": False, "read": "unread"}
DUE = entries("old", (0, 9, 1, 3))[1]


def cluster(spark: SparkSession, ids: Sequence[int], *, held: bytes = DUE, **said: Any) -> Tables:
    """Ledgers that name "old" and lie on "new". What is said is of old; what ``new`` says, of new."""
    new = said.pop("new", {})
    of_each = said.pop("each", {})
    replicas = [("old", DUE, True), ("other", entries("other", (1, 8, 1, 3))[1], True)]
    pairs: list[Row] = [{"scope_id": 0, "ledger_id": number, "bookie_id": "new"} for number in ids]
    return tables(
        spark,
        bookies=[{"bookie_id": "new"} | new, {"bookie_id": "old", **GONE} | said, {"bookie_id": "other"}],
        ledgers=[{**ledger(number), "replicas": replicas} for number in ids],
        over_replicated=[{**pair, "count": 4} | of_each for pair in pairs],
        unequal=[{**pair, "held": held, "index_state": "ok"} for pair in pairs],
    )


def test_live_data_under_an_id_that_is_gone_is_critical(spark: SparkSession) -> None:
    [found] = find("alias-gc-danger", cluster(spark, range(12)))
    assert (found.where, found.severity, found.confidence) == ((None, "new"), "critical", "confirmed")
    assert found.message == (
        "new holds copies of 12 ledgers that name old, which is not registered: "
        "the garbage collector of new will delete 12 of these ledgers"
    )
    [alias] = found.evidence["aliases"]
    assert (alias["alias"], alias["has_cookie"], alias["ledgers"]) == ("old", True, 12)
    assert alias["sample"] == [str(number) for number in range(10)]


def test_few_ledgers_or_a_disk_in_anothers_place_make_it_suspect(spark: SparkSession) -> None:
    [few] = find("alias-gc-danger", cluster(spark, range(4)))
    [swapped] = find("alias-gc-danger", cluster(spark, range(5), new={"suspect": True}))
    assert (few.confidence, swapped.confidence) == ("suspect", "suspect")


def test_the_collector_leaves_open_ledgers_alone(spark: SparkSession) -> None:
    [found] = find("alias-gc-danger", cluster(spark, range(6), each={"state": "OPEN"}))
    assert (found.evidence["ledgers"], found.evidence["closed"]) == (6, 0)


def test_marked_ledgers_count_for_a_lost_id_has_all_of_its_marked(spark: SparkSession) -> None:
    assert find("alias-gc-danger", cluster(spark, range(6), each={"marked": True}))


def test_other_entries_a_live_id_a_found_disk_a_copy_in_flight_and_a_dead_bookie_are_left_alone(
    spark: SparkSession,
) -> None:
    others = entries("new", (0, 8, 1, 2))[1]
    for left_alone in (
        cluster(spark, range(9), held=others),
        cluster(spark, range(9), registered="writable"),
        cluster(spark, range(9), found=True),
        cluster(spark, range(9), each={"locked": True}),
        cluster(spark, range(9), new={"registered": None}),
        cluster(spark, range(9), new={"foreign_instance": True}),
    ):
        assert find("alias-gc-danger", left_alone) == []
