"""Changes of a judgement by bookies' own answers, case by case, and checked entry by entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.tables import doubts
from auditor.tables.judge_replicas import BookieState, LedgerFacts, Pair
from auditor.tables.judgement import Judgement
from auditor.tables.ledger_class import judge
from auditor.tables.rejudgement import (
    MAX_SAMPLED_ENTRIES,
    READ_LIMIT_REASON,
    choose_reads,
    judge_again,
    write_set,
)
from tests.tables.test_judge_replicas import entries, groups, ledgers, striped

HOUR = 3_600_000
A, B = "a", "b"
LEDGER = LedgerFacts(7, True, 2, 2, 1, 9, 1_000 * HOUR, [(0, [A, B])])
ALL = set(range(10))
FRESH = BookieState("read", index_time=1_001 * HOUR)
STALE = BookieState("read", index_time=999 * HOUR)


def replies(bookie: str, answer: str, *entry_ids: int, reason: str | None = None) -> list[dict[str, Any]]:
    return [
        {"bookie_id": bookie, "entry_id": entry, "answer": answer, "reason": reason} for entry in entry_ids
    ]


def judged(
    answers: list[dict[str, Any]],
    shown: set[int] | None = None,
    state: BookieState = FRESH,
    index: str = "ok",
    answered: int | None = None,
    ledger: LedgerFacts = LEDGER,
) -> Judgement:
    """Return the judgement if bookie a shows only ``shown`` in its index, and b has all entries."""
    pair = Pair(A, groups(ALL), groups(shown or set()), index, answered)
    return judge_again(ledger, [pair], answers, [A, B], {A: state, B: FRESH}, 60_000)


def missing(answer: Judgement) -> set[int]:
    return {
        entry for bookie, entry_groups in answer.missing for entry in entries(entry_groups) if bookie == A
    }


def unknown(answer: Judgement) -> dict[str, set[int]]:
    return {f"{bookie} {why}": entries(entry_groups) for bookie, entry_groups, why in answer.unknown}


def test_served_entry_is_held_and_other_unindexed_entries_are_unknown() -> None:
    answer = judged(replies(A, "served", 3))
    assert missing(answer) == set()
    assert unknown(answer) == {"a index-incomplete": ALL - {3}}
    assert [(bookie, entries(entry_groups)) for bookie, entry_groups in answer.unindexed] == [(A, {3})]
    assert (answer.m, answer.mu, answer.doubts) == (0, 1, set())


def test_small_ledger_is_decided_by_answers_for_all_entries() -> None:
    answer = judged([*replies(A, "served", *range(5)), *replies(A, "no-such-entry", *range(5, 10))])
    assert missing(answer) == set(range(5, 10))
    assert unknown(answer) == {}
    assert (answer.m, answer.doubts) == (1, set())


def test_denied_entry_makes_all_entries_absent_from_index_missing() -> None:
    answer = judged(replies(A, "no-such-entry", 3))
    assert missing(answer) == ALL
    assert answer.doubts == set()
    assert not answer.unindexed


def test_old_index_is_overruled_only_for_entries_that_were_asked_for() -> None:
    answer = judged(replies(A, "no-such-entry", 0, 3), state=STALE)
    assert missing(answer) == {0, 3}
    assert unknown(answer) == {"a not-asked": ALL - {0, 3}}
    assert (answer.m, answer.mu, answer.doubts) == (1, 1, set())


@pytest.mark.parametrize("state", [STALE, FRESH, BookieState("read")])
def test_bookie_without_the_ledger_lacks_all_entries(state: BookieState) -> None:
    answer = judged(replies(A, "no-such-ledger", 3), state=state)
    assert missing(answer) == ALL
    assert (unknown(answer), answer.doubts) == ({}, set())


def test_stale_index_contradicted_by_a_served_entry_is_not_reported() -> None:
    answer = judged(replies(A, "served", 3), state=STALE)
    assert not answer.unindexed
    assert unknown(answer) == {"a index-incomplete": ALL - {3}}


@pytest.mark.parametrize("answers", [[], replies(A, "unknown", 3, reason="silence"), replies(B, "served", 3)])
def test_bookie_without_answer_leaves_a_doubt(answers: list[dict[str, Any]]) -> None:
    answer = judged(answers)
    assert missing(answer) == ALL
    reason = "silence" if answers and answers[0]["reason"] else READ_LIMIT_REASON
    assert answer.doubts == {doubts.reads_unanswered(A, reason)}


REFUSAL = "not authorised: the bookie wants its clients to authenticate: EUA (502)"


def test_a_refused_read_leaves_no_doubt_if_the_journal_was_read() -> None:
    refused = replies(A, "refused", 3, reason=REFUSAL)
    without_witness = judge(LEDGER, [Pair(A, groups(ALL), groups(set()), "ok")], {A: FRESH, B: FRESH}, 60_000)
    sure = judged(refused, state=replace(FRESH, journal_read=True))
    assert (missing(sure), sure.doubts) == (missing(without_witness), without_witness.doubts) == (ALL, set())
    assert judged(refused).doubts == {doubts.reads_unanswered(A, REFUSAL)}


def test_refused_read_does_not_dispel_doubt_of_old_index() -> None:
    answer = judged(replies(A, "refused", 3, reason=REFUSAL), state=replace(STALE, journal_read=True))
    assert (missing(answer), answer.doubts) == (ALL, {doubts.index_too_old(A)})


def test_bookie_that_refused_and_did_not_answer_leaves_a_doubt() -> None:
    answers = [*replies(A, "refused", 3, reason=REFUSAL), *replies(A, "unknown", 4, reason="silence")]
    answer = judged(answers, state=replace(FRESH, journal_read=True))
    assert answer.doubts == {doubts.reads_unanswered(A, "silence")}


def test_entry_served_before_a_refusal_is_held() -> None:
    answers = [*replies(A, "served", 2), *replies(A, "refused", 3, reason=REFUSAL)]
    answer = judged(answers, state=replace(FRESH, journal_read=True))
    assert (missing(answer), unknown(answer)) == (set(), {"a index-incomplete": ALL - {2}})


def test_unregistered_bookie_is_judged_by_its_index() -> None:
    pair = Pair(A, groups(ALL), groups(set()), "absent")
    answer = judge_again(LEDGER, [pair], replies(B, "served", 3), [B], {A: FRESH, B: FRESH}, 60_000)
    assert (missing(answer), answer.doubts) == (ALL, set())


@pytest.mark.parametrize("answer", ["no-such-entry", "no-such-ledger"])
@pytest.mark.parametrize("index", ["cut", "unreadable", "limbo", "not-indexed", "wrong-directory"])
def test_entries_of_damaged_index_stay_unknown_if_bookie_denies_an_entry(answer: str, index: str) -> None:
    judgement = judged(replies(A, answer, 3), index=index)
    assert missing(judgement) == set()
    assert set().union(*unknown(judgement).values()) == ALL


def test_entry_served_despite_damaged_index_is_held() -> None:
    judgement = judged(replies(A, "served", 3), shown={0, 1}, index="cut")
    assert unknown(judgement) == {"a unreadable": ALL - {0, 1, 3}}
    assert not judgement.unindexed


def test_limbo_copies_are_unknown_until_the_bookie_serves_an_entry() -> None:
    """Bookies of 4.17.2 answer each read of them with EUNKNOWNLEDGERSTATE, whatever their locations show."""
    refused = judged(replies(A, "unknown", 0, reason="EUNKNOWNLEDGERSTATE"), shown=ALL, index="limbo")
    for answer in (refused, judged([], shown=ALL, index="limbo")):
        assert unknown(answer) == {"a limbo": ALL}
        assert (missing(answer), answer.m, answer.mu) == (set(), 0, 1)
    healed = judged(replies(A, "served", 0), shown=ALL, index="limbo")
    assert (unknown(healed), missing(healed)) == ({}, set())
    in_part = judged(replies(A, "served", 0), shown={1}, index="limbo")
    assert unknown(in_part) == {"a limbo": ALL - {0, 1}}


def test_misplaced_index_is_decided_by_answers_of_its_bookie() -> None:
    assert unknown(judged([], index="misplaced")) == {"a misplaced": ALL}
    denied = judged(replies(A, "no-such-ledger", 0), index="misplaced")
    assert (missing(denied), unknown(denied), denied.doubts) == (ALL, {}, set())
    still_open = judged(replies(A, "served", 0), index="misplaced")
    assert (missing(still_open), unknown(still_open)) == (set(), {"a misplaced": ALL - {0}})
    assert not still_open.unindexed


def test_entries_only_in_a_listing_are_held_and_asked_for() -> None:
    def judge_by(answers: list[dict[str, Any]] | None, state: BookieState = FRESH) -> Judgement:
        pair = Pair(A, groups(ALL), groups(ALL), "ok", listed_groups=groups({8, 9}))
        return judge_again(
            LEDGER, [pair], answers or [], [A, B] if answers is not None else [], {A: state}, 0
        )

    def decoded(pairs: list[tuple[str, Any]]) -> dict[str, set[int]]:
        return {bookie: entries(entry_groups) for bookie, entry_groups in pairs}

    unasked, silent = judge_by(None), judge_by(replies(A, "unknown", 8, 9, reason="silence"))
    for answer in (unasked, silent, judge_by([])):
        assert (decoded(answer.listed), answer.unindexed, answer.m, answer.mu) == ({A: {8, 9}}, [], 0, 0)
    served = judge_by(replies(A, "served", 8, 9))
    assert (served.listed, decoded(served.unindexed), served.m, served.mu) == ([], {A: {8, 9}}, 0, 0)
    half = judge_by(replies(A, "served", 8))
    assert (decoded(half.listed), decoded(half.unindexed)) == ({A: {9}}, {A: {8}})
    denied = judge_by(replies(A, "no-such-entry", 8))
    assert (decoded(denied.listed), denied.unindexed, unknown(denied)) == ({A: {9}}, [], {"a denied": {8}})
    for state in (STALE, BookieState("read"), replace(FRESH, has_misplaced_directory=True)):
        answer = judge_by(replies(A, "served", 8, 9), state)
        assert (answer.listed, answer.unindexed, answer.m, answer.mu) == ([], [], 0, 0)


def test_unread_bookie_is_known_only_for_entries_it_was_asked_for() -> None:
    answers = [*replies(A, "served", 3), *replies(A, "no-such-entry", 4)]
    answer = judged(answers, state=BookieState("unread"), index="absent")
    assert missing(answer) == {4}
    assert unknown(answer) == {"a unread": ALL - {3, 4}}
    assert answer.doubts == set()


def test_indexed_entry_denied_by_its_bookie_is_unknown() -> None:
    answer = judged([*replies(A, "no-such-entry", 0, 9)], shown={0, 1, 2})
    assert missing(answer) == ALL - {0, 1, 2}
    assert unknown(answer) == {"a denied": {0}}
    equal = judged(replies(B, "no-such-entry", 3) + replies(A, "no-such-entry", 3))
    assert unknown(equal) == {"b denied": {3}}
    assert (equal.m, equal.mu) == (1, 2)


def test_listing_proves_no_absence_but_denied_read_does() -> None:
    listed = set(range(9))
    nobody = judge_again(
        LEDGER, [Pair(A, groups(ALL), groups(listed), "ok", 5)], [], [], {A: BookieState("unread")}, 0
    )
    assert nobody.doubts == {doubts.only_in_listing(A)}
    denied = judged(replies(A, "no-such-entry", 9), listed, BookieState("unread"), answered=5)
    assert (missing(denied), denied.doubts) == ({9}, set())
    served = judged(replies(A, "served", 9), listed, BookieState("unread"), answered=5)
    assert (missing(served), unknown(served), served.m, served.mu) == (set(), {}, 0, 0)
    assert not served.unindexed  # a listing's gap is known


def test_misplaced_directory_stays_a_doubt_despite_answer() -> None:
    swapped = BookieState("read", has_misplaced_directory=True, index_time=1_001 * HOUR)
    answer = judged(replies(A, "no-such-ledger", 3), state=swapped)
    assert answer.doubts == {doubts.in_misplaced_directory(A)}
    assert not judged(replies(A, "served", 3), state=swapped).unindexed  # the place explains it


def test_answers_of_foreign_bookie_are_not_believed() -> None:
    answer = judged(replies(A, "served", 3), state=BookieState("unread", is_foreign=True))
    assert unknown(answer) == {"a unread": ALL}


@settings(deadline=None)
@given(ledgers(), st.data())
def test_reads_are_bounded_and_start_with_the_worst_entry(ledger: LedgerFacts, data: st.DataObject) -> None:
    lacking = {}
    for bookie in sorted({member for _, ensemble in ledger.segments for member in ensemble}):
        due = striped(ledger, bookie, 40, judged_only=True)
        lost = data.draw(st.sets(st.sampled_from(sorted(due)))) if due else set()
        if lost:
            lacking[bookie] = lost
    askable = data.draw(st.sets(st.sampled_from([f"bk{n}" for n in range(6)])))
    reads = choose_reads(ledger, [(bookie, groups(lost)) for bookie, lost in lacking.items()], askable)
    assert len({(bookie, entry) for _, bookie, entry in reads}) == len(reads)
    assert {bookie for _, bookie, _ in reads} <= askable
    counts = {
        entry: sum(entry in lost for lost in lacking.values()) for lost in lacking.values() for entry in lost
    }
    for turn, bookie, entry in reads:
        if turn == 0:
            assert counts[entry] == max(counts.values())
            assert bookie in write_set(ledger, entry)
            assert entry in striped(ledger, bookie, 40, judged_only=True)
        else:
            assert entry in lacking[bookie]
    for bookie, lost in lacking.items():
        sampled = {entry for _, who, entry in reads if who == bookie}
        assert len(sampled) <= MAX_SAMPLED_ENTRIES + 1
        if bookie in askable and len(lost) <= MAX_SAMPLED_ENTRIES:
            assert lost <= sampled


@settings(deadline=None)
@given(ledgers(), st.data())
def test_undecided_replica_is_asked_for_one_expected_entry(ledger: LedgerFacts, data: st.DataObject) -> None:
    due = {b: striped(ledger, b, 40, judged_only=True) for b in ("bk0", "bk1", "bk2")}
    undecided = [bookie for bookie, entries in due.items() if entries]
    first = {bookie: min(striped(ledger, bookie, 40, judged_only=False)) for bookie in undecided}
    reads = choose_reads(ledger, [], ["bk0", "bk1"], bookies_with_undecided_replica=undecided)
    assert reads == [(1, bookie, first[bookie]) for bookie in undecided if bookie != "bk2"]
    if due["bk0"]:
        listed = data.draw(
            st.sets(st.sampled_from(sorted(due["bk0"])), min_size=1, max_size=MAX_SAMPLED_ENTRIES)
        )
        reads = choose_reads(ledger, [], ["bk0"], [("bk0", groups(listed))], ["bk0"])
        assert {entry for _, _, entry in reads} == listed | {first["bk0"]}


@settings(deadline=None)
@given(ledgers(), st.data())
def test_answers_for_all_entries_give_the_true_result(ledger: LedgerFacts, data: st.DataObject) -> None:
    """Whatever indexes of read bookies show, served entries are held and the rest are missing."""
    members = sorted({member for _, ensemble in ledger.segments for member in ensemble})
    pairs, answers, truth = [], [], {}
    for bookie in members:
        due = striped(ledger, bookie, 40, judged_only=True)
        if due:
            stored = data.draw(st.sets(st.sampled_from(sorted(due))))
            shown = data.draw(st.sets(st.sampled_from(sorted(stored)))) if stored else set()
            truth[bookie] = due - stored
            if shown != due:
                pairs.append(Pair(bookie, groups(due), groups(shown), "ok"))
            for entry in due:
                answers += replies(bookie, "served" if entry in stored else "no-such-entry", entry)
    states = {bookie: data.draw(st.sampled_from([FRESH, STALE, BookieState("read")])) for bookie in members}
    answer = judge_again(ledger, pairs, answers, members, states, 60_000)
    assert {bookie: entries(entry_groups) for bookie, entry_groups in answer.missing} == {
        bookie: lost for bookie, lost in truth.items() if lost
    }
    assert not answer.unknown
    assert answer.doubts <= {doubts.ledger_not_closed()}
    lost_entries = {entry for lost in truth.values() for entry in lost}
    assert answer.m == max(
        (sum(entry in lost for lost in truth.values()) for entry in lost_entries), default=0
    )
