"""The bookie to which the ledgers in a directory belong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from auditor.checks.disk_content_mismatch import matches_other_bookie
from auditor.model.check_settings import CheckSettings
from auditor.spark import functions as F
from auditor.tables.contents import (
    CONTENTS,
    LargeTables,
    contents,
    find_bookies_to_compare,
    find_incomplete_replicas,
)
from tests.checks.tables_builder import Row, entries, frame, ledger, tables

MARGIN = CheckSettings().content_margin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Ensemble of three, write quorum two: what each position holds is its own.
STRIPES = {name: entries(name, (at, 30, 2, 3))[1] for at, name in enumerate(("a", "b", "c"))}
EQUAL_STRIPES = dict.fromkeys("abc", entries("a", (0, 0, 30, 0))[1])
SHORT = entries("a", (0, 12, 2, 3))[1]
ALL = entries("a", (0, 0, 30, 0))[1]


class Case(NamedTuple):
    """A directory of bookie "a" with these ledgers; the bookies in ``lacking`` lack all of them.

    Those in ``surplus`` have all entries of the ledgers, their own and others. ``read`` gives
    how far each bookie was read that was not read completely.

    Each case has its own bookies, directories and ledgers, so one query over all cases tests each of them.
    """

    held: Mapping[int, bytes]
    above: str = ""
    lacking: Sequence[str] = ("b",)
    foreign: bool = False
    stripes: Mapping[str, bytes] = STRIPES
    state: str = "ok"
    surplus: Sequence[str] = ()
    read: Mapping[str, str] = MappingProxyType({})


CASES = {
    "in its place": Case(dict.fromkeys(range(20), STRIPES["a"]), lacking=()),
    "entries lost": Case({at: STRIPES["a"] if at % 4 else SHORT for at in range(20)}, lacking=()),
    "swapped": Case({at: STRIPES["b" if at else "a"] for at in range(21)}),
    "copies": Case(dict.fromkeys(range(20), STRIPES["b"]), lacking=("a",)),
    # What a decommissioned bookie leaves behind; the worker copied whole segments to the new member.
    "decommissioned": Case(dict.fromkeys(range(20), STRIPES["b"]), lacking=(), surplus=("b",)),
    "unread": Case(dict.fromkeys(range(20), STRIPES["b"]), lacking=(), read={"b": "unread"}),
    "read in part": Case(dict.fromkeys(range(20), STRIPES["b"]), lacking=(), read={"b": "partial"}),
    "alike": Case(dict.fromkeys(range(20), EQUAL_STRIPES["a"]), lacking=("b", "c"), stripes=EQUAL_STRIPES),
    "cut": Case(dict.fromkeys(range(9), STRIPES["b"]), state="cut"),
    "not indexed": Case(dict.fromkeys(range(9), STRIPES["b"]), state="not-indexed"),
    "collected": Case(dict.fromkeys(range(9), STRIPES["b"]), above="/saved/#1#"),
    "foreign": Case(dict.fromkeys(range(9), STRIPES["b"]), foreign=True),
}

Ranked = dict[str, dict[str, dict[str, Any]]]
"""By case and candidate: the rows of the directory."""


@pytest.fixture(scope="module")
def ranked(spark: SparkSession) -> Ranked:
    rows = tables(
        spark,
        bookies=[
            {"bookie_id": f"{case}/{name}", "foreign_instance": name == "a" and case_data.foreign}
            | {"read": case_data.read.get(name, "read")}
            for case, case_data in CASES.items()
            for name in "abc"
        ],
        directories=[
            {
                "path": f"{CASES[case].above}/{case}/{name}",
                "place": f"{case}/{name}",
                "owner": f"{case}/{name}",
            }
            for case in CASES
            for name in "ab"
        ],
        ledgers=[row for case in CASES for row in ledgers_of(case)],
        availability=[row for case in CASES for row in indexes_of(case)],
        unequal=[row for case in CASES for row in unequal_of(case)],
        judged=[row for case in CASES for row in judged_of(case)],
    )
    lacking = find_incomplete_replicas(rows.judged, rows.bookies)
    doubted_ids = [row["bookie_id"] for row in find_bookies_to_compare(rows.unequal, lacking).collect()]
    places = frame(spark, "directories", rows.roster.directories)
    owners = [f"{case}/a" for case in CASES]
    state_counts = rows.availability.groupBy("bookie_id", "state").agg(F.count("*").alias("number"))
    large = LargeTables(
        rows.ledgers, rows.availability, state_counts.withColumn("known", F.lit(True)), owners, []
    )

    def find_contents(doubted: Sequence[str]) -> list[dict[str, Any]]:
        contents_frame = contents(
            rows.availability, rows.ledgers, rows.unequal, lacking, places, rows.bookies, doubted, large
        )
        return sorted(
            (row.asDict() for row in contents_frame.collect()), key=lambda row: str(row["directory"])
        )

    listed, all_rows = find_contents(doubted_ids), find_contents(owners)
    assert owner_contents(listed) == owner_contents(all_rows), "what an owner explains needs no other id"
    assert {row["candidate"] for row in all_rows if matches_other_bookie(row, MARGIN)} == {
        row["candidate"] for row in listed if matches_other_bookie(row, MARGIN)
    }
    assert {row["directory"] for row in listed} <= {
        f"{case_data.above}/{case}/a" for case, case_data in CASES.items()
    }
    by_case: Ranked = {case: {} for case in CASES}
    for row in listed:
        case, candidate = row["candidate"].split("/")
        assert row["owner"] == f"{case}/a"
        by_case[case][candidate] = {**row, "elsewhere": matches_other_bookie(row, MARGIN)}
    return by_case


def held_of(case: str) -> dict[int, bytes]:
    first = 1000 * [*CASES].index(case)
    return {first + number: groups for number, groups in CASES[case].held.items()}


def stripes_of(case: str) -> dict[str, bytes]:
    return {f"{case}/{name}": groups for name, groups in CASES[case].stripes.items()}


def ledgers_of(case: str) -> list[Row]:
    replicas = [(name, groups, True) for name, groups in stripes_of(case).items()]
    return [{**ledger(number), "replicas": replicas} for number in held_of(case)]


def indexes_of(case: str) -> list[Row]:
    return [
        {"bookie_id": f"{case}/a", "ledger_id": number, "groups": groups, "state": CASES[case].state}
        | {"path": f"/{case}/a/current/0/{number:x}/{number:x}.idx"}
        for number, groups in held_of(case).items()
    ]


def unequal_of(case: str) -> list[Row]:
    case_data, own, stripes, groups_by_ledger = CASES[case], f"{case}/a", stripes_of(case), held_of(case)
    other_rows: list[Row] = [
        {"scope_id": 0, "ledger_id": number, "bookie_id": f"{case}/{name}"}
        | {"expected": stripes[f"{case}/{name}"], "held": ALL if name in case_data.surplus else None}
        for number in groups_by_ledger
        for name in (*case_data.lacking, *case_data.surplus, *case_data.read)
        if name != "a"
    ]
    own_rows: list[Row] = [
        {"scope_id": 0, "ledger_id": number, "bookie_id": own, "expected": stripes[own], "held": groups}
        | {"index_state": case_data.state}
        for number, groups in groups_by_ledger.items()
        if groups != stripes[own] or case_data.state != "ok"
    ]
    return other_rows + own_rows


def judged_of(case: str) -> list[Row]:
    """Return the entries that read bookies lack; all entries of bookies not read are unknown."""
    stripes = stripes_of(case)
    return [
        {"scope_id": 0, "ledger_id": number}
        | {"missing": [(f"{case}/{name}", stripes[f"{case}/{name}"], 20) for name in CASES[case].lacking]}
        | {"unknown": [(f"{case}/{name}", 20, "unread") for name in CASES[case].read]}
        for number in held_of(case)
    ]


def owner_contents(rows: list[dict[str, Any]]) -> list[Any]:
    owners = [row for row in rows if row["candidate"] == row["owner"]]
    return [[row[name] for name in CONTENTS.names[:-1]] for row in owners]


def counts(row: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in ("ledgers", "named", "exact", "better", "worse", "rank"))


def test_owner_matches_directory_in_its_place(ranked: Ranked) -> None:
    rows = ranked["in its place"]
    assert counts(rows["a"]) == (20, 20, 20, 0, 0, 1)
    assert list(rows) == ["a"], "nothing speaks against it, so no other id is asked for"


def test_owner_that_lost_entries_still_matches_its_directory(ranked: Ranked) -> None:
    rows = ranked["entries lost"]
    assert counts(rows["a"]) == (20, 20, 15, 0, 0, 1)
    assert list(rows) == ["a"]


def test_other_bookie_matches_swapped_disk(ranked: Ranked) -> None:
    rows = ranked["swapped"]
    assert counts(rows["b"]) == (21, 21, 20, 20, 1, 1)
    assert [name for name, row in rows.items() if row["elsewhere"]] == ["b"]


def test_copies_also_on_other_bookie_name_no_other_owner(ranked: Ranked) -> None:
    rows = ranked["copies"]
    assert counts(rows["a"]) == (20, 20, 0, 0, 0, 1)
    assert list(rows) == ["a"]


def test_directory_of_bookie_with_surplus_copies_matches_no_other_bookie(ranked: Ranked) -> None:
    rows = ranked["decommissioned"]
    assert not any(row["elsewhere"] for row in rows.values())


def test_unread_bookie_lacks_no_ledgers_but_partly_read_bookie_does(ranked: Ranked) -> None:
    assert not any(row["elsewhere"] for row in ranked["unread"].values())
    assert ranked["read in part"]["b"]["elsewhere"], "what was read of it lacks these ledgers"


def test_bookies_with_equal_stripes_cannot_be_distinguished(ranked: Ranked) -> None:
    rows = ranked["alike"]
    assert {counts(row)[:5] for row in rows.values()} == {(20, 20, 20, 0, 0)}
    assert not any(row["elsewhere"] for row in rows.values())


def test_incomplete_index_is_exact_for_no_bookie(ranked: Ranked) -> None:
    assert {counts(row)[:5] for row in ranked["cut"].values()} == {(9, 9, 0, 0, 0)}
    assert ranked["not indexed"] == {}


def test_collected_directory_is_matched_by_its_original_path(ranked: Ranked) -> None:
    assert ranked["collected"]["b"]["elsewhere"]


def test_disk_of_foreign_cluster_gives_no_rows(ranked: Ranked) -> None:
    assert ranked["foreign"] == {}
