"""Who is who: what is known of each id, and what ledgers say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from auditor.model.alias_evidence import BookieFacts, ContentComparison, PairContents
from auditor.model.bookie_alias import alias_edges, find_identities
from auditor.model.cookie import Cookie
from auditor.tables.identities import (
    collect_facts,
    compare_contents,
    count_shared_ledgers,
    edge_rows,
    facts_by_id,
    identity_rows,
)
from tests.checks.tables_builder import Row, entries, ledger, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from auditor.tables import Tables

GONE = {"registered": None, "found": False, "read": "unread"}
OLD, NEW, OTHER = "10.0.0.1:3181", "bookie-7", "bookie-8"
DUE, ELSE = (entries("", (at, 30, 2, 3))[1] for at in (0, 1))


def facts_of(asked: Tables) -> list[dict[str, Any]]:
    roster = asked.roster
    return collect_facts(roster.bookies, roster.registrations, roster.cookies, roster.directories)


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.collect()]


def test_all_that_is_known_of_an_id_is_in_one_row(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=[{"bookie_id": OLD, **GONE}, {"bookie_id": NEW}, {"bookie_id": OTHER, "registered": None}],
        registrations=[
            {"bookie_id": NEW, "host": "10.0.0.1", "port": 3181, "endpoints": [
                {"id": "bookie", "host": "10.0.0.1", "port": 3181, "protocol": "bookie-rpc"},
                {"id": "http", "host": "bk1", "port": 8080, "protocol": "http"},
            ]},
            {"bookie_id": NEW, "host": "10.9.9.9", "port": 3181, "mode": "readonly", "used": False},
        ],
        cookies=[
            {"bookie_id": NEW, "bookie_host": OLD, "journal_dirs": "/j", "ledger_dirs": ["/l"]},
            {"bookie_id": OTHER, "damage": "no layout"},
        ],
        directories=[
            {"path": "/d/2", "place": NEW, "cookie_bookie_id": OLD},
            {"path": "/d/1", "place": NEW, "cookie_bookie_id": NEW},
            {"path": "/d/3", "place": NEW, "damage": "no layout"},
            {"path": "/d/4", "cookie_bookie_id": OLD},
        ],
    )  # fmt: skip
    assert facts_by_id(facts_of(asked)) == {
        OLD: BookieFacts(),
        NEW: BookieFacts(
            True,
            ("10.0.0.1", 3181),
            ("10.0.0.1", "bk1"),
            Cookie(5, OLD, "/j", ("/l",), None, "a77a8e0d"),
            (OLD, NEW),
        ),
        OTHER: BookieFacts(),
    }


def shared(
    spark: SparkSession,
    ledgers: Sequence[Row],
    unequal: Sequence[Row],
    new: Row | None = None,
    old: Row | None = None,
) -> ContentComparison:
    asked = tables(
        spark,
        bookies=[
            {"bookie_id": OLD, **GONE} | dict(old or {}),
            {"bookie_id": NEW} | dict(new or {}),
            {"bookie_id": OTHER},
        ],
        ledgers=ledgers,
        unequal=[{"scope_id": 0, "index_state": "ok"} | dict(row) for row in unequal],
    )
    rows = count_shared_ledgers(asked.ledgers, asked.unequal, asked.bookies)
    return compare_contents(rows_of(rows), facts_of(asked))


def naming(number: int, *segments: list[str], groups: bytes = DUE, scope: int = 0) -> Row:
    members = dict.fromkeys(member for segment in segments for member in segment)
    return {
        **ledger(number),
        "scope_id": scope,
        "segments": [(100 * at, segment) for at, segment in enumerate(segments)],
        "replicas": [(member, groups, True) for member in members],
    }


def test_ledgers_on_a_live_bookie_are_counted_by_what_they_hold(spark: SparkSession) -> None:
    found = shared(
        spark,
        [naming(number, [OLD, OTHER]) for number in range(4)] + [naming(4, [OTHER, NEW])],
        [
            {"ledger_id": 0, "bookie_id": NEW, "held": DUE},
            {"ledger_id": 1, "bookie_id": NEW, "held": ELSE},
            {"ledger_id": 2, "bookie_id": NEW, "held": b""},
            {"ledger_id": 3, "bookie_id": NEW, "held": DUE, "index_state": "cut"},
            {"ledger_id": 0, "bookie_id": OLD, "expected": DUE},
            {"ledger_id": 4, "bookie_id": NEW, "expected": DUE, "held": ELSE},
            {"scope_id": 1, "ledger_id": 2, "bookie_id": NEW, "held": DUE},
        ],
    )
    assert found == ContentComparison(
        {OLD: 4},
        {
            (OLD, NEW): PairContents(4, held_ledgers=2, matching_ledgers=1, is_fully_read=True),
            (OLD, OTHER): PairContents(4, shared_ledgers=4, same_ensemble_ledgers=4, is_fully_read=True),
        },
        {NEW, OTHER},
    )


def test_a_member_of_another_segment_may_be_the_id_under_its_new_name(spark: SparkSession) -> None:
    ledgers = [naming(1, [OLD, OTHER], [NEW, OTHER]), naming(2, [OLD, NEW])]
    # What a member holds is its own: that it holds the other's entries says nothing.
    held = [{"ledger_id": 1, "bookie_id": NEW, "held": DUE}]
    found = shared(spark, ledgers, held)
    assert found.contents_by_pair[OLD, NEW] == PairContents(
        2, shared_ledgers=2, same_ensemble_ledgers=1, is_fully_read=True
    )


def test_an_id_that_shares_nothing_is_due_its_ledgers(spark: SparkSession) -> None:
    assert shared(spark, [naming(1, [OLD])], []) == ContentComparison({OLD: 1}, {}, {NEW, OTHER})


@pytest.mark.parametrize(
    ("ledgers", "old"),
    [
        pytest.param([naming(1, [OLD], groups=b"")], {}, id="nothing of it is judged"),
        pytest.param([{**naming(1, [OLD]), "undecidable": True}], {}, id="metadata that breaks a rule"),
        pytest.param([naming(1, [OLD])], {"registered": "writable"}, id="it is registered"),
        pytest.param([naming(1, [OLD])], {"found": True}, id="it has a disk of its own"),
    ],
)
def test_ids_of_which_nothing_is_judged_or_that_are_there_are_not_compared(
    spark: SparkSession, ledgers: list[Row], old: Row
) -> None:
    held = [{"ledger_id": 1, "bookie_id": NEW, "held": DUE}]
    assert shared(spark, ledgers, held, old=old) == ContentComparison({}, {}, {NEW, OTHER})


@pytest.mark.parametrize("new", [{"registered": None}, {"foreign_instance": True, "read": "unread"}])
def test_disks_of_a_bookie_that_is_down_or_anothers_say_nothing(spark: SparkSession, new: Row) -> None:
    held = [{"ledger_id": 1, "bookie_id": NEW, "held": DUE}]
    found = shared(spark, [naming(1, [OLD])], held, new=new)
    assert found == ContentComparison({OLD: 1}, {}, {OTHER})


def test_rows_say_what_the_rules_found(spark: SparkSession) -> None:
    asked = tables(
        spark,
        bookies=[{"bookie_id": OLD, **GONE}, {"bookie_id": NEW}, {"bookie_id": OTHER}],
        registrations=[
            {"bookie_id": NEW, "host": "10.0.0.1", "port": 3181},
            {"bookie_id": OTHER, "host": "10.0.0.8", "port": 3181},
        ],
    )
    rows = facts_of(asked)
    edges = alias_edges(facts_by_id(rows))
    assert edge_rows(edges) == [
        {
            "one": OLD, "other": NEW, "rule": "endpoint-is-id", "joins": True,
            "evidence": "bookie-7 is registered at 10.0.0.1:3181", "against": None, "apart": False,
        }
    ]  # fmt: skip
    said = identity_rows(rows, find_identities(facts_by_id(rows), edges))
    assert [(row["bookie_id"], row["identity"], row["aliases"], row["stranded"]) for row in said] == [
        (OLD, OLD, [NEW], True),
        (NEW, OLD, [OLD], True),
        (OTHER, OTHER, [], False),
    ]
    assert (said[1]["host"], said[1]["port"], said[1]["cookie_names"]) == ("10.0.0.1", 3181, None)
