"""What bookies' own answers change in a judgement: case by case, and against entries one by one."""

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


def said(bookie: str, answer: str, *asked: int, reason: str | None = None) -> list[dict[str, Any]]:
    return [{"bookie_id": bookie, "entry_id": entry, "answer": answer, "reason": reason} for entry in asked]


def judged(
    answers: list[dict[str, Any]],
    held: set[int] | None = None,
    state: BookieState = FRESH,
    index: str = "ok",
    answered: int | None = None,
    ledger: LedgerFacts = LEDGER,
) -> Judgement:
    """Bookie a lacks what it does not hold, b holds all."""
    pair = Pair(A, groups(ALL), groups(held or set()), index, answered)
    return judge_again(ledger, [pair], answers, [A, B], {A: state, B: FRESH}, 60_000)


def missing(answer: Judgement) -> set[int]:
    return {entry for bookie, found in answer.missing for entry in entries(found) if bookie == A}


def unknown(answer: Judgement) -> dict[str, set[int]]:
    return {f"{bookie} {why}": entries(found) for bookie, found, why in answer.unknown}


def test_what_a_bookie_serves_is_held_and_its_index_speaks_for_nothing_more() -> None:
    answer = judged(said(A, "served", 3))
    assert missing(answer) == set()
    assert unknown(answer) == {"a index-incomplete": ALL - {3}}
    assert [(bookie, entries(found)) for bookie, found in answer.unindexed] == [(A, {3})]
    assert (answer.m, answer.mu, answer.doubts) == (0, 1, set())


def test_a_small_ledger_is_decided_whole() -> None:
    answer = judged([*said(A, "served", *range(5)), *said(A, "no-such-entry", *range(5, 10))])
    assert missing(answer) == set(range(5, 10))
    assert unknown(answer) == {}
    assert (answer.m, answer.doubts) == (1, set())


def test_what_a_bookie_denies_is_missing_and_the_index_stands() -> None:
    answer = judged(said(A, "no-such-entry", 3))
    assert missing(answer) == ALL
    assert answer.doubts == set()
    assert not answer.unindexed


def test_the_age_of_an_index_is_no_doubt_in_what_was_asked_and_leaves_the_rest_unknown() -> None:
    answer = judged(said(A, "no-such-entry", 0, 3), state=STALE)
    assert missing(answer) == {0, 3}
    assert unknown(answer) == {"a not-asked": ALL - {0, 3}}
    assert (answer.m, answer.mu, answer.doubts) == (1, 1, set())


@pytest.mark.parametrize("state", [STALE, FRESH, BookieState("read")])
def test_a_bookie_without_the_ledger_has_none_of_it(state: BookieState) -> None:
    answer = judged(said(A, "no-such-ledger", 3), state=state)
    assert missing(answer) == ALL
    assert (unknown(answer), answer.doubts) == ({}, set())


def test_a_stale_index_that_is_contradicted_is_no_finding_on_its_bookie() -> None:
    answer = judged(said(A, "served", 3), state=STALE)
    assert not answer.unindexed
    assert unknown(answer) == {"a index-incomplete": ALL - {3}}


@pytest.mark.parametrize("answers", [[], said(A, "unknown", 3, reason="silence"), said(B, "served", 3)])
def test_a_bookie_that_was_not_heard_leaves_a_doubt(answers: list[dict[str, Any]]) -> None:
    answer = judged(answers)
    assert missing(answer) == ALL
    reason = "silence" if answers and answers[0]["reason"] else READ_LIMIT_REASON
    assert answer.doubts == {doubts.reads_unanswered(A, reason)}


REFUSAL = "not authorised: the bookie wants its clients to authenticate: EUA (502)"


def test_a_refused_read_leaves_no_doubt_if_the_journal_was_read() -> None:
    refused = said(A, "refused", 3, reason=REFUSAL)
    without_witness = judge(LEDGER, [Pair(A, groups(ALL), groups(set()), "ok")], {A: FRESH, B: FRESH}, 60_000)
    sure = judged(refused, state=replace(FRESH, journal_read=True))
    assert (missing(sure), sure.doubts) == (missing(without_witness), without_witness.doubts) == (ALL, set())
    assert judged(refused).doubts == {doubts.reads_unanswered(A, REFUSAL)}


def test_a_refused_read_does_not_make_an_old_index_new() -> None:
    answer = judged(said(A, "refused", 3, reason=REFUSAL), state=replace(STALE, journal_read=True))
    assert (missing(answer), answer.doubts) == (ALL, {doubts.index_too_old(A)})


def test_a_bookie_that_both_refused_and_was_silent_leaves_a_doubt() -> None:
    answers = [*said(A, "refused", 3, reason=REFUSAL), *said(A, "unknown", 4, reason="silence")]
    answer = judged(answers, state=replace(FRESH, journal_read=True))
    assert answer.doubts == {doubts.reads_unanswered(A, "silence")}


def test_what_was_served_before_a_refusal_is_held() -> None:
    answers = [*said(A, "served", 2), *said(A, "refused", 3, reason=REFUSAL)]
    answer = judged(answers, state=replace(FRESH, journal_read=True))
    assert (missing(answer), unknown(answer)) == (set(), {"a index-incomplete": ALL - {2}})


def test_a_bookie_that_nobody_registered_is_judged_by_its_index() -> None:
    pair = Pair(A, groups(ALL), groups(set()), "absent")
    answer = judge_again(LEDGER, [pair], said(B, "served", 3), [B], {A: FRESH, B: FRESH}, 60_000)
    assert (missing(answer), answer.doubts) == (ALL, set())


@pytest.mark.parametrize("answer", ["no-such-entry", "no-such-ledger"])
@pytest.mark.parametrize("index", ["cut", "unreadable", "limbo", "not-indexed", "wrong-directory"])
def test_a_damaged_index_is_not_trusted_in_what_its_bookie_denies(answer: str, index: str) -> None:
    found = judged(said(A, answer, 3), index=index)
    assert missing(found) == set()
    assert set().union(*unknown(found).values()) == ALL


def test_a_damaged_index_does_not_hide_what_is_served() -> None:
    found = judged(said(A, "served", 3), held={0, 1}, index="cut")
    assert unknown(found) == {"a unreadable": ALL - {0, 1, 3}}
    assert not found.unindexed


def test_all_copies_in_limbo_are_unknown_until_the_bookie_serves_one() -> None:
    """4.17.2 answers each read of them with EUNKNOWNLEDGERSTATE, whatever its locations show."""
    refused = judged(said(A, "unknown", 0, reason="EUNKNOWNLEDGERSTATE"), held=ALL, index="limbo")
    for answer in (refused, judged([], held=ALL, index="limbo")):
        assert unknown(answer) == {"a limbo": ALL}
        assert (missing(answer), answer.m, answer.mu) == (set(), 0, 1)
    healed = judged(said(A, "served", 0), held=ALL, index="limbo")
    assert (unknown(healed), missing(healed)) == ({}, set())
    in_part = judged(said(A, "served", 0), held={1}, index="limbo")
    assert unknown(in_part) == {"a limbo": ALL - {0, 1}}


def test_where_a_bookie_does_not_look_for_an_index_its_word_decides() -> None:
    assert unknown(judged([], index="misplaced")) == {"a misplaced": ALL}
    denied = judged(said(A, "no-such-ledger", 0), index="misplaced")
    assert (missing(denied), unknown(denied), denied.doubts) == (ALL, {}, set())
    still_open = judged(said(A, "served", 0), index="misplaced")
    assert (missing(still_open), unknown(still_open)) == (set(), {"a misplaced": ALL - {0}})
    assert not still_open.unindexed


def test_what_only_a_listing_has_is_held_and_asked_for() -> None:
    def by(answers: list[dict[str, Any]] | None, state: BookieState = FRESH) -> Judgement:
        pair = Pair(A, groups(ALL), groups(ALL), "ok", listed_groups=groups({8, 9}))
        return judge_again(
            LEDGER, [pair], answers or [], [A, B] if answers is not None else [], {A: state}, 0
        )

    def of(found: list[tuple[str, Any]]) -> dict[str, set[int]]:
        return {bookie: entries(some) for bookie, some in found}

    unasked, silent = by(None), by(said(A, "unknown", 8, 9, reason="silence"))
    for answer in (unasked, silent, by([])):
        assert (of(answer.listed), answer.unindexed, answer.m, answer.mu) == ({A: {8, 9}}, [], 0, 0)
    served = by(said(A, "served", 8, 9))
    assert (served.listed, of(served.unindexed), served.m, served.mu) == ([], {A: {8, 9}}, 0, 0)
    half = by(said(A, "served", 8))
    assert (of(half.listed), of(half.unindexed)) == ({A: {9}}, {A: {8}})
    denied = by(said(A, "no-such-entry", 8))
    assert (of(denied.listed), denied.unindexed, unknown(denied)) == ({A: {9}}, [], {"a denied": {8}})
    for state in (STALE, BookieState("read"), replace(FRESH, has_misplaced_directory=True)):
        answer = by(said(A, "served", 8, 9), state)
        assert (answer.listed, answer.unindexed, answer.m, answer.mu) == ([], [], 0, 0)


def test_a_bookie_that_was_not_read_is_known_as_far_as_it_was_asked() -> None:
    answers = [*said(A, "served", 3), *said(A, "no-such-entry", 4)]
    answer = judged(answers, state=BookieState("unread"), index="absent")
    assert missing(answer) == {4}
    assert unknown(answer) == {"a unread": ALL - {3, 4}}
    assert answer.doubts == set()


def test_what_an_index_shows_and_its_bookie_denies_is_unknown() -> None:
    answer = judged([*said(A, "no-such-entry", 0, 9)], held={0, 1, 2})
    assert missing(answer) == ALL - {0, 1, 2}
    assert unknown(answer) == {"a denied": {0}}
    equal = judged(said(B, "no-such-entry", 3) + said(A, "no-such-entry", 3))
    assert unknown(equal) == {"b denied": {3}}
    assert (equal.m, equal.mu) == (1, 2)


def test_a_listing_proves_no_absence_and_the_bookies_word_does() -> None:
    listed = set(range(9))
    nobody = judge_again(
        LEDGER, [Pair(A, groups(ALL), groups(listed), "ok", 5)], [], [], {A: BookieState("unread")}, 0
    )
    assert nobody.doubts == {doubts.only_in_listing(A)}
    heard = judged(said(A, "no-such-entry", 9), listed, BookieState("unread"), answered=5)
    assert (missing(heard), heard.doubts) == ({9}, set())
    served = judged(said(A, "served", 9), listed, BookieState("unread"), answered=5)
    assert (missing(served), unknown(served), served.m, served.mu) == (set(), {}, 0, 0)
    assert not served.unindexed  # a listing's gap is known


def test_what_a_bookies_word_does_not_dispel_stays_a_doubt() -> None:
    swapped = BookieState("read", has_misplaced_directory=True, index_time=1_001 * HOUR)
    answer = judged(said(A, "no-such-ledger", 3), state=swapped)
    assert answer.doubts == {doubts.in_misplaced_directory(A)}
    assert not judged(said(A, "served", 3), state=swapped).unindexed  # the place explains it


def test_another_clusters_bookie_is_not_believed() -> None:
    answer = judged(said(A, "served", 3), state=BookieState("unread", is_foreign=True))
    assert unknown(answer) == {"a unread": ALL}


@settings(deadline=None)
@given(ledgers(), st.data())
def test_questions_are_bounded_and_begin_with_the_worst_entry(
    ledger: LedgerFacts, data: st.DataObject
) -> None:
    lacking = {}
    for bookie in sorted({member for _, ensemble in ledger.segments for member in ensemble}):
        due = striped(ledger, bookie, 40, judged_only=True)
        lost = data.draw(st.sets(st.sampled_from(sorted(due)))) if due else set()
        if lost:
            lacking[bookie] = lost
    askable = data.draw(st.sets(st.sampled_from([f"bk{n}" for n in range(6)])))
    asked = choose_reads(ledger, [(bookie, groups(lost)) for bookie, lost in lacking.items()], askable)
    assert len({(bookie, entry) for _, bookie, entry in asked}) == len(asked)
    assert {bookie for _, bookie, _ in asked} <= askable
    counts = {
        entry: sum(entry in lost for lost in lacking.values()) for lost in lacking.values() for entry in lost
    }
    for turn, bookie, entry in asked:
        if turn == 0:
            assert counts[entry] == max(counts.values())
            assert bookie in write_set(ledger, entry)
            assert entry in striped(ledger, bookie, 40, judged_only=True)
        else:
            assert entry in lacking[bookie]
    for bookie, lost in lacking.items():
        sampled = {entry for _, who, entry in asked if who == bookie}
        assert len(sampled) <= MAX_SAMPLED_ENTRIES + 1
        if bookie in askable and len(lost) <= MAX_SAMPLED_ENTRIES:
            assert lost <= sampled


@settings(deadline=None)
@given(ledgers(), st.data())
def test_one_entry_that_should_be_there_is_asked_of_a_replica_that_is_undecided(
    ledger: LedgerFacts, data: st.DataObject
) -> None:
    due = {b: striped(ledger, b, 40, judged_only=True) for b in ("bk0", "bk1", "bk2")}
    undecided = [bookie for bookie, entries in due.items() if entries]
    first = {bookie: min(striped(ledger, bookie, 40, judged_only=False)) for bookie in undecided}
    asked = choose_reads(ledger, [], ["bk0", "bk1"], bookies_with_undecided_replica=undecided)
    assert asked == [(1, bookie, first[bookie]) for bookie in undecided if bookie != "bk2"]
    if due["bk0"]:
        listed = data.draw(
            st.sets(st.sampled_from(sorted(due["bk0"])), min_size=1, max_size=MAX_SAMPLED_ENTRIES)
        )
        asked = choose_reads(ledger, [], ["bk0"], [("bk0", groups(listed))], ["bk0"])
        assert {entry for _, _, entry in asked} == listed | {first["bk0"]}


@settings(deadline=None)
@given(ledgers(), st.data())
def test_if_all_is_asked_the_truth_comes_out(ledger: LedgerFacts, data: st.DataObject) -> None:
    """Whatever indexes say of read bookies: what bookies serve is held and the rest is missing."""
    members = sorted({member for _, ensemble in ledger.segments for member in ensemble})
    pairs, answers, truth = [], [], {}
    for bookie in members:
        due = striped(ledger, bookie, 40, judged_only=True)
        if due:
            there = data.draw(st.sets(st.sampled_from(sorted(due))))
            shown = data.draw(st.sets(st.sampled_from(sorted(there)))) if there else set()
            truth[bookie] = due - there
            if shown != due:
                pairs.append(Pair(bookie, groups(due), groups(shown), "ok"))
            for entry in due:
                answers += said(bookie, "served" if entry in there else "no-such-entry", entry)
    states = {bookie: data.draw(st.sampled_from([FRESH, STALE, BookieState("read")])) for bookie in members}
    answer = judge_again(ledger, pairs, answers, members, states, 60_000)
    assert {bookie: entries(found) for bookie, found in answer.missing} == {
        bookie: lost for bookie, lost in truth.items() if lost
    }
    assert not answer.unknown
    assert answer.doubts <= {doubts.ledger_not_closed()}
    every = {entry for lost in truth.values() for entry in lost}
    assert answer.m == max((sum(entry in lost for lost in truth.values()) for entry in every), default=0)
