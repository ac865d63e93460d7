"""Identities of bookies: the facts known of each id, and the evidence of ledgers."""

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

ABSENT = {"registered": None, "found": False, "read": "unread"}
OLD, NEW, OTHER_ID = "10.0.0.1:3181", "bookie-7", "bookie-8"
DUE, OTHER_ENTRIES = (entries("", (position, 30, 2, 3))[1] for position in (0, 1))


def facts_of(audit_tables: Tables) -> list[dict[str, Any]]:
    roster = audit_tables.roster
    return collect_facts(roster.bookies, roster.registrations, roster.cookies, roster.directories)


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.collect()]


def test_facts_by_id_collect_registration_cookie_and_directories(spark: SparkSession) -> None:
    audit_tables = tables(
        spark,
        bookies=[
            {"bookie_id": OLD, **ABSENT}, {"bookie_id": NEW}, {"bookie_id": OTHER_ID, "registered": None}
        ],
        registrations=[
            {"bookie_id": NEW, "host": "10.0.0.1", "port": 3181, "endpoints": [
                {"id": "bookie", "host": "10.0.0.1", "port": 3181, "protocol": "bookie-rpc"},
                {"id": "http", "host": "bk1", "port": 8080, "protocol": "http"},
            ]},
            {"bookie_id": NEW, "host": "10.9.9.9", "port": 3181, "mode": "readonly", "used": False},
        ],
        cookies=[
            {"bookie_id": NEW, "bookie_host": OLD, "journal_dirs": "/j", "ledger_dirs": ["/l"]},
            {"bookie_id": OTHER_ID, "damage": "no layout"},
        ],
        directories=[
            {"path": "/d/2", "place": NEW, "cookie_bookie_id": OLD},
            {"path": "/d/1", "place": NEW, "cookie_bookie_id": NEW},
            {"path": "/d/3", "place": NEW, "damage": "no layout"},
            {"path": "/d/4", "cookie_bookie_id": OLD},
        ],
    )  # fmt: skip
    assert facts_by_id(facts_of(audit_tables)) == {
        OLD: BookieFacts(),
        NEW: BookieFacts(
            True,
            ("10.0.0.1", 3181),
            ("10.0.0.1", "bk1"),
            Cookie(5, OLD, "/j", ("/l",), None, "a77a8e0d"),
            (OLD, NEW),
        ),
        OTHER_ID: BookieFacts(),
    }


def compare_shared(
    spark: SparkSession,
    ledgers: Sequence[Row],
    unequal: Sequence[Row],
    new: Row | None = None,
    old: Row | None = None,
) -> ContentComparison:
    audit_tables = tables(
        spark,
        bookies=[
            {"bookie_id": OLD, **ABSENT} | dict(old or {}),
            {"bookie_id": NEW} | dict(new or {}),
            {"bookie_id": OTHER_ID},
        ],
        ledgers=ledgers,
        unequal=[{"scope_id": 0, "index_state": "ok"} | dict(row) for row in unequal],
    )
    rows = count_shared_ledgers(audit_tables.ledgers, audit_tables.unequal, audit_tables.bookies)
    return compare_contents(rows_of(rows), facts_of(audit_tables))


def ledger_naming(number: int, *segments: list[str], groups: bytes = DUE, scope: int = 0) -> Row:
    members = dict.fromkeys(member for segment in segments for member in segment)
    return {
        **ledger(number),
        "scope_id": scope,
        "segments": [(100 * segment_number, segment) for segment_number, segment in enumerate(segments)],
        "replicas": [(member, groups, True) for member in members],
    }


def test_ledgers_on_live_bookie_are_counted_by_held_entries(spark: SparkSession) -> None:
    comparison = compare_shared(
        spark,
        [ledger_naming(number, [OLD, OTHER_ID]) for number in range(4)] + [ledger_naming(4, [OTHER_ID, NEW])],
        [
            {"ledger_id": 0, "bookie_id": NEW, "held": DUE},
            {"ledger_id": 1, "bookie_id": NEW, "held": OTHER_ENTRIES},
            {"ledger_id": 2, "bookie_id": NEW, "held": b""},
            {"ledger_id": 3, "bookie_id": NEW, "held": DUE, "index_state": "cut"},
            {"ledger_id": 0, "bookie_id": OLD, "expected": DUE},
            {"ledger_id": 4, "bookie_id": NEW, "expected": DUE, "held": OTHER_ENTRIES},
            {"scope_id": 1, "ledger_id": 2, "bookie_id": NEW, "held": DUE},
        ],
    )
    assert comparison == ContentComparison(
        {OLD: 4},
        {
            (OLD, NEW): PairContents(4, held_ledgers=2, matching_ledgers=1, is_fully_read=True),
            (OLD, OTHER_ID): PairContents(4, shared_ledgers=4, same_ensemble_ledgers=4, is_fully_read=True),
        },
        {NEW, OTHER_ID},
    )


def test_member_of_another_segment_may_be_the_renamed_bookie(spark: SparkSession) -> None:
    ledgers = [ledger_naming(1, [OLD, OTHER_ID], [NEW, OTHER_ID]), ledger_naming(2, [OLD, NEW])]
    # What a member holds is its own: that it holds the other's entries says nothing.
    unequal_rows = [{"ledger_id": 1, "bookie_id": NEW, "held": DUE}]
    comparison = compare_shared(spark, ledgers, unequal_rows)
    assert comparison.contents_by_pair[OLD, NEW] == PairContents(
        2, shared_ledgers=2, same_ensemble_ledgers=1, is_fully_read=True
    )


def test_id_without_shared_ledgers_has_its_ledger_count(spark: SparkSession) -> None:
    assert compare_shared(spark, [ledger_naming(1, [OLD])], []) == ContentComparison(
        {OLD: 1}, {}, {NEW, OTHER_ID}
    )


@pytest.mark.parametrize(
    ("ledgers", "old"),
    [
        pytest.param([ledger_naming(1, [OLD], groups=b"")], {}, id="nothing of it is judged"),
        pytest.param(
            [{**ledger_naming(1, [OLD]), "undecidable": True}], {}, id="metadata that breaks a rule"
        ),
        pytest.param([ledger_naming(1, [OLD])], {"registered": "writable"}, id="it is registered"),
        pytest.param([ledger_naming(1, [OLD])], {"found": True}, id="it has a disk of its own"),
    ],
)
def test_unjudged_or_present_ids_are_not_compared(spark: SparkSession, ledgers: list[Row], old: Row) -> None:
    unequal_rows = [{"ledger_id": 1, "bookie_id": NEW, "held": DUE}]
    assert compare_shared(spark, ledgers, unequal_rows, old=old) == ContentComparison({}, {}, {NEW, OTHER_ID})


@pytest.mark.parametrize("new", [{"registered": None}, {"foreign_instance": True, "read": "unread"}])
def test_disks_of_unregistered_or_foreign_bookie_are_not_compared(spark: SparkSession, new: Row) -> None:
    unequal_rows = [{"ledger_id": 1, "bookie_id": NEW, "held": DUE}]
    comparison = compare_shared(spark, [ledger_naming(1, [OLD])], unequal_rows, new=new)
    assert comparison == ContentComparison({OLD: 1}, {}, {OTHER_ID})


def test_edge_and_identity_rows_contain_found_aliases(spark: SparkSession) -> None:
    audit_tables = tables(
        spark,
        bookies=[{"bookie_id": OLD, **ABSENT}, {"bookie_id": NEW}, {"bookie_id": OTHER_ID}],
        registrations=[
            {"bookie_id": NEW, "host": "10.0.0.1", "port": 3181},
            {"bookie_id": OTHER_ID, "host": "10.0.0.8", "port": 3181},
        ],
    )
    rows = facts_of(audit_tables)
    edges = alias_edges(facts_by_id(rows))
    assert edge_rows(edges) == [
        {
            "one": OLD, "other": NEW, "rule": "endpoint-is-id", "joins": True,
            "evidence": "bookie-7 is registered at 10.0.0.1:3181", "against": None, "apart": False,
        }
    ]  # fmt: skip
    identities = identity_rows(rows, find_identities(facts_by_id(rows), edges))
    assert [(row["bookie_id"], row["identity"], row["aliases"], row["stranded"]) for row in identities] == [
        (OLD, OLD, [NEW], True),
        (NEW, OLD, [OLD], True),
        (OTHER_ID, OTHER_ID, [], False),
    ]
    assert (identities[1]["host"], identities[1]["port"], identities[1]["cookie_names"]) == (
        "10.0.0.1",
        3181,
        None,
    )
