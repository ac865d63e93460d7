"""Index entries located in an absent entry log: which are missing, and which are unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from auditor.checks.replication_undecided import _REASON_TEXTS
from auditor.codecs.availability import coverage
from auditor.model.states import IndexState, UnknownCopy
from auditor.tables.gone_entries import find_entries_in_no_log, gone_entries
from auditor.tables.judge_replicas import BookieState, LedgerFacts, Pair, groups_of
from auditor.tables.judgement import Judgement
from auditor.tables.ledger_class import judge
from auditor.tables.rejudgement import judge_again
from tests.checks.tables_builder import frame
from tests.tables.rows import pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST = 9
LEDGER = LedgerFacts(1, True, 2, 2, 1, LAST, 0, [(0, ["a", "b"])])
ALL_ENTRIES = frozenset(range(LAST + 1))
ABSENT = frozenset({3, 4, 5})
EIO = "the bookie refused: EIO (501)"


def pair(bookie: str, agreed: bool, absent_ids: frozenset[int] = ABSENT) -> Pair:
    present, absent = (groups_of(pack(set(entries))) for entries in (ALL_ENTRIES - absent_ids, absent_ids))
    expected = groups_of(pack(set(ALL_ENTRIES)))
    return Pair(bookie, expected, present, IndexState.OK, gone_groups=absent, read_twice=agreed)


def states(**flags: Any) -> dict[str, BookieState]:
    # The index is older than the ledger: a clock explains nothing of what it has.
    return {name: BookieState("read", index_time=-1, **flags) for name in ("a", "b")}


def missing_and_unknown(answer: Judgement) -> tuple[dict[str, set[int]], dict[str, tuple[set[int], str]]]:
    missing = {bookie: members(groups) for bookie, groups in answer.missing}
    return missing, {bookie: (members(groups), why) for bookie, groups, why in answer.unknown}


def members(groups: Any) -> set[int]:
    return {entry for entry in ALL_ENTRIES if coverage.count(coverage.clip(groups, entry, entry))}


def test_entries_absent_in_two_readings_are_missing_without_doubt() -> None:
    answer = judge(LEDGER, [pair("a", True), pair("b", True)], states(), 0)
    assert missing_and_unknown(answer) == ({"a": set(ABSENT), "b": set(ABSENT)}, {})
    assert (answer.m, answer.doubts) == (2, set())


def test_entries_absent_in_one_reading_are_missing_only_if_bookie_was_stopped() -> None:
    pairs = [pair("a", False)]
    assert missing_and_unknown(judge(LEDGER, pairs, states(is_stopped=True), 0)) == ({"a": set(ABSENT)}, {})
    unknown = missing_and_unknown(judge(LEDGER, pairs, states(), 0))
    assert unknown == ({}, {"a": (set(ABSENT), UnknownCopy.ENTRY_LOG)})


def test_all_entries_of_foreign_bookie_are_missing() -> None:
    answer = judge(LEDGER, [pair("a", True)], states(is_foreign=True), 0)
    assert members(answer.missing[0][1]) == set(ALL_ENTRIES)


def answers(*rows: tuple[int, str, str | None]) -> list[dict[str, Any]]:
    return [
        {"bookie_id": "a", "entry_id": entry, "answer": answer, "reason": reason}
        for entry, answer, reason in rows
    ]


@pytest.mark.parametrize("agreed", [True, False])
@pytest.mark.parametrize(("answer", "reason"), [("no-such-entry", None), ("unknown", EIO)])
def test_one_unserved_entry_makes_all_absent_entries_missing(
    answer: str, reason: str | None, agreed: bool
) -> None:
    judgement = judge_again(LEDGER, [pair("a", agreed)], answers((3, answer, reason)), ["a"], states(), 0)
    assert missing_and_unknown(judgement) == ({"a": set(ABSENT)}, {})
    assert judgement.doubts == set()


def test_served_entry_leaves_unasked_entries_unknown() -> None:
    rows = answers((3, "served", None), (4, "no-such-entry", None))
    judgement = judge_again(LEDGER, [pair("a", True)], rows, ["a"], states(), 0)
    assert missing_and_unknown(judgement) == ({"a": {4}}, {"a": ({5}, UnknownCopy.ENTRY_LOG)})
    assert judgement.unindexed == []


def test_bookie_without_answer_leaves_decision_to_two_readings() -> None:
    rows = answers((3, "unknown", "no answer"))
    judgement = judge_again(LEDGER, [pair("a", True)], rows, ["a"], states(), 0)
    assert missing_and_unknown(judgement) == ({"a": set(ABSENT)}, {})
    assert judgement.doubts == set()


def test_every_unknown_copy_reason_has_a_text() -> None:
    assert set(_REASON_TEXTS) == set(UnknownCopy)


def location(bookie: str, log: int, ledger: int, absent: set[int] | None, **columns: Any) -> dict[str, Any]:
    row = {"bookie_id": bookie, "logger": 0, "log_id": log, "scope_id": 0, "ledger_id": ledger}
    return {**row, "gone": None if absent is None else pack(absent), **columns}


def test_only_entries_absent_in_both_readings_are_agreed(spark: SparkSession) -> None:
    once = [
        location("agrees", 0, 1, {1, 2}),
        location("agrees", 1, 1, {5}),
        location("moved", 0, 1, {1, 2}),
        location("failed", 0, 1, {1, 2}),
        location("collected", 0, 1, {1, 2}),
        location("agrees", 0, 99, {1, 2}),
        location("agrees", 3, 1, None),
    ]
    twice = [
        location("agrees", 0, 1, {1, 2}),
        location("agrees", 1, 1, {5, 6}),
        # Compaction moved what the first reading saw in log 0.
        location("moved", 2, 1, None),
        location("moved", 4, 1, {9}),
        location("failed", 0, 1, None, log_id=None, ledger_id=None, reason="No such file or directory"),
    ]
    ledgers = [{"scope_id": 0, "ledger_id": 1, "undecidable": False}]
    wrong = find_entries_in_no_log(frame(spark, "locations", once), frame(spark, "ledgers", ledgers))
    rows = gone_entries(wrong, frame(spark, "locations", twice)).collect()
    results = {
        row["bookie_id"]: (members(groups_of(row["groups"])), row["logs"], row["state"]) for row in rows
    }
    assert results == {
        "agrees": ({1, 2, 5, 6}, [0, 1], "agreed"),
        "failed": ({1, 2}, [0], "once"),
        "collected": ({1, 2}, [0], "once"),
    }
    single_reading = gone_entries(wrong, None).collect()
    assert {row["state"] for row in single_reading} == {"once"}
