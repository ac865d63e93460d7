"""Which bookie the ledgers in a directory belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor.checks.attribution import points_elsewhere
from auditor.spark import functions as F
from auditor.tables.contents import CONTENTS, LargeTables, bookies_in_doubt, contents
from tests.checks.tables_builder import entries, frame, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Ensemble of three, write quorum two: what each position holds is its own.
STRIPES = {name: entries(name, (at, 30, 2, 3))[1] for at, name in enumerate(("a", "b", "c"))}


def ranked(
    spark: SparkSession,
    held: Mapping[int, bytes],
    *,
    directory: str = "/disk",
    lacking: Sequence[str] = ("b",),
    foreign: bool = False,
    stripes: Mapping[str, bytes] = STRIPES,
    state: str = "ok",
) -> dict[str, Any]:
    """The rows of one directory of "a" that holds these ledgers, by candidate; ``lacking`` lack them all."""
    rows = tables(
        spark,
        bookies=[{"bookie_id": "a", "foreign_instance": foreign}, {"bookie_id": "b"}, {"bookie_id": "c"}],
        directories=[
            {"path": directory, "place": "a", "owner": "a"},
            {"path": "/elsewhere", "place": "b", "owner": "b"},
        ],
        ledgers=[
            {**ledger(number), "replicas": [(name, groups, True) for name, groups in stripes.items()]}
            for number in held
        ],
        availability=[
            {"bookie_id": "a", "ledger_id": number, "groups": groups, "state": state}
            | {"path": f"/disk/current/0/{number:x}/{number:x}.idx"}
            for number, groups in held.items()
        ],
        unequal=[
            {"scope_id": 0, "ledger_id": number, "bookie_id": name, "expected": stripes[name]}
            for number in held
            for name in lacking
            if name != "a"
        ]
        + [
            {"scope_id": 0, "ledger_id": number, "bookie_id": "a", "expected": stripes["a"], "held": groups}
            | {"index_state": state}
            for number, groups in held.items()
            if groups != stripes["a"] or state != "ok"
        ],
    )
    asked = [row["bookie_id"] for row in bookies_in_doubt(rows.unequal).collect()]
    places = frame(spark, "directories", rows.roster.directories)

    alike = rows.availability.groupBy("bookie_id", "state").agg(F.count("*").alias("number"))
    large = LargeTables(rows.ledgers, rows.availability, alike.withColumn("known", F.lit(True)), ["a"], [])

    def found(doubted: Sequence[str]) -> list[dict[str, Any]]:
        made = contents(rows.availability, rows.ledgers, rows.unequal, places, rows.bookies, doubted, large)
        return [row.asDict() for row in made.collect()]

    listed, others = found(asked), found(["a"])
    assert told_of_owners(listed) == told_of_owners(others), "what an owner explains needs no other id"
    assert {row["candidate"] for row in others if points_elsewhere(row)} == {
        row["candidate"] for row in listed if points_elsewhere(row)
    }
    assert {row["directory"] for row in listed} <= {directory}
    return {row["candidate"]: {**row, "elsewhere": points_elsewhere(row)} for row in listed}


def told_of_owners(found: list[dict[str, Any]]) -> list[Any]:
    owners = [row for row in found if row["candidate"] == row["owner"]]
    return [[row[name] for name in CONTENTS.names[:-1]] for row in owners]


def counts(row: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in ("ledgers", "named", "exact", "better", "worse", "rank"))


def test_the_owner_explains_a_directory_in_its_place(spark: SparkSession) -> None:
    rows = ranked(spark, dict.fromkeys(range(20), STRIPES["a"]), lacking=())
    assert counts(rows["a"]) == (20, 20, 20, 0, 0, 1)
    assert list(rows) == ["a"], "nothing speaks against it, so no other id is asked for"


def test_an_owner_that_lost_entries_still_explains_what_is_left(spark: SparkSession) -> None:
    held = {number: STRIPES["a"] if number % 4 else entries("a", (0, 12, 2, 3))[1] for number in range(20)}
    rows = ranked(spark, held, lacking=())
    assert counts(rows["a"]) == (20, 20, 15, 0, 0, 1)
    assert list(rows) == ["a"]


def test_another_explains_a_disk_that_was_swapped(spark: SparkSession) -> None:
    held = {number: STRIPES["b" if number else "a"] for number in range(21)}
    rows = ranked(spark, held)
    assert counts(rows["b"]) == (21, 21, 20, 20, 1, 1)
    assert [name for name, row in rows.items() if row["elsewhere"]] == ["b"]


def test_copies_of_what_another_has_as_well_point_nowhere(spark: SparkSession) -> None:
    rows = ranked(spark, dict.fromkeys(range(20), STRIPES["b"]), lacking=("a",))
    assert counts(rows["a"]) == (20, 20, 0, 0, 0, 1)
    assert list(rows) == ["a"]


def test_ids_that_should_hold_the_same_cannot_be_told_apart(spark: SparkSession) -> None:
    alike = dict.fromkeys("abc", entries("a", (0, 0, 30, 0))[1])
    rows = ranked(spark, dict.fromkeys(range(20), alike["a"]), lacking=("b", "c"), stripes=alike)
    assert {counts(row)[:5] for row in rows.values()} == {(20, 20, 20, 0, 0)}
    assert not any(row["elsewhere"] for row in rows.values())


def test_what_an_index_does_not_show_whole_is_there_and_exact_for_nobody(spark: SparkSession) -> None:
    rows = ranked(spark, dict.fromkeys(range(9), STRIPES["b"]), state="cut")
    assert {counts(row)[:5] for row in rows.values()} == {(9, 9, 0, 0, 0)}
    assert ranked(spark, dict.fromkeys(range(9), STRIPES["b"]), state="not-indexed") == {}


def test_a_collected_directory_is_known_by_its_path_where_it_was(spark: SparkSession) -> None:
    held = dict.fromkeys(range(9), STRIPES["b"])
    assert ranked(spark, held, directory="/saved/#1#/disk")["b"]["elsewhere"]


def test_another_clusters_disks_say_nothing(spark: SparkSession) -> None:
    assert ranked(spark, dict.fromkeys(range(9), STRIPES["b"]), foreign=True) == {}
