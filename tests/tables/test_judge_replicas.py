"""One ledger judged from its groups, compared with the same judgement entry by entry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.wire import expand
from auditor.tables.judge_replicas import (
    NO_GROUPS,
    BookieState,
    Groups,
    LedgerFacts,
    Pair,
    groups_of,
)
from auditor.tables.judged import judge_batch
from auditor.tables.judgement import Judgement
from auditor.tables.ledger_class import judge, lacks_whole_replicas
from auditor.tables.past_end import move_past_end_entries
from tests.examples import examples

BOOKIES = [f"bk{number}" for number in range(8)]
LAST = 24


def groups(entries: set[int]) -> Groups:
    ids = np.array(sorted(entries), np.int64)
    return groups_of(fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes())


def entries(encoded: Groups) -> set[int]:
    return set(expand(encoded).tolist())


def striped(ledger: LedgerFacts, bookie: str, upto: int, judged_only: bool) -> set[int]:
    """Return a bookie's entries, found by computing the write set of each entry."""
    entry_ids = set()
    for number, (first, ensemble) in enumerate(ledger.segments):
        is_last = number + 1 == len(ledger.segments)
        after = upto + 1 if is_last else ledger.segments[number + 1][0]
        if ledger.is_closed:
            after = min(after, ledger.last_entry_id + 1)
        elif judged_only:
            after = first if is_last else min(after, ledger.segments[-1][0] - ledger.write_quorum)
        for entry in range(first, min(after, upto + 1)):
            write_set = {(entry + step) % ledger.ensemble_size for step in range(ledger.write_quorum)}
            entry_ids |= {entry} if bookie in {ensemble[place] for place in write_set} else set()
    return entry_ids


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerFacts:
    size = draw(st.integers(1, 7))
    write = draw(st.integers(1, size))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, LAST), max_size=3)))]
    ensembles = [draw(st.permutations(BOOKIES))[:size] for _ in firsts]
    closed = draw(st.booleans())
    return LedgerFacts(
        ledger_id=1,
        is_closed=closed,
        ensemble_size=size,
        write_quorum=write,
        ack_quorum=draw(st.integers(1, write)),
        last_entry_id=draw(st.integers(-1, LAST)) if closed else -1,
        mtime=0,
        segments=list(zip(firsts, ensembles, strict=True)),
        metadata_changes=draw(st.integers(0, 4)),
    )


held_sets = st.dictionaries(st.sampled_from(BOOKIES), st.sets(st.integers(0, LAST + 5)), max_size=6)
readings = st.fixed_dictionaries(
    {bookie: st.sampled_from(["read", "partial", "unread"]) for bookie in BOOKIES}
)
index_states = st.fixed_dictionaries(
    {
        bookie: st.sampled_from(
            ["ok"] * 4 + ["cut", "unreadable", "limbo", "not-indexed", "misplaced", "wrong-directory"]
        )
        for bookie in BOOKIES
    }
)
answered_by = st.sets(st.sampled_from(BOOKIES), max_size=2)


def has_pair(
    ledger: LedgerFacts, expected: set[int], held_entries: set[int] | None, state: str, spoke: bool, read: str
) -> bool:
    """Return whether `auditor.tables.unequal` leaves a pair; ``held_entries`` is None without an index."""
    if held_entries is None and state == "absent":
        return bool(expected)
    if state != "ok" or expected != held_entries or not expected:
        return True
    return spoke and read != "read" and not ledger.is_closed


# An open end: bk1 was read in part, and said itself that it has nothing.
OPEN_END = LedgerFacts(1, False, 2, 2, 1, -1, 0, [(0, BOOKIES[:2])])
ANSWERED = {**dict.fromkeys(BOOKIES, "read"), "bk1": "partial"}
ALL_OK = dict.fromkeys(BOOKIES, "ok")


@settings(max_examples=examples(400), deadline=None)
@given(ledgers(), held_sets, readings, index_states, answered_by)
@example(OPEN_END, {"bk0": {0}, "bk1": set()}, ANSWERED, dict(ALL_OK), {"bk1"})
@example(
    replace(OPEN_END, segments=[(0, BOOKIES[:2]), (3, BOOKIES[:2])]),
    {"bk0": {0, 3}, "bk1": {0}},
    ANSWERED,
    dict(ALL_OK),
    {"bk1"},
)
def test_groups_and_single_entries_give_equal_judgements(
    ledger: LedgerFacts,
    held: dict[str, set[int]],
    reading: dict[str, str],
    found_as: dict[str, str],
    answered: set[str],
) -> None:
    for bookie in BOOKIES:
        if bookie not in held and found_as[bookie] == "ok":
            found_as[bookie] = "absent"
    expected = {bookie: striped(ledger, bookie, LAST, judged_only=True) for bookie in BOOKIES}
    pairs = []
    for bookie in BOOKIES:
        state, held_entries = found_as[bookie], held.get(bookie)
        answer_time = 5 if bookie in answered else None
        said_all = answer_time is not None and state == "ok"
        if has_pair(ledger, expected[bookie], held_entries, state, said_all, reading[bookie]):
            pairs.append(
                Pair(bookie, groups(expected[bookie]), groups(held_entries or set()), state, answer_time)
            )
    states = {bookie: BookieState(reading[bookie], index_time=10**12) for bookie in BOOKIES}
    answer = judge(ledger, pairs, states, grace_ms=0)
    move_past_end_entries(ledger, states, answer)

    # What its bookie does not serve is not there.
    held = {
        bookie: held_entries for bookie, held_entries in held.items() if found_as[bookie] != "not-indexed"
    }
    spoke = {b for b in answered if found_as[b] == "ok"}
    # In limbo it lies there, and is not served either: no copy that counts.
    served = {bookie: held_entries for bookie, held_entries in held.items() if found_as[bookie] != "limbo"}
    sure = {b for b in BOOKIES if reading[b] == "read" and found_as[b] in ("ok", "absent")} | spoke
    lacking = {bookie: expected[bookie] - served.get(bookie, set()) for bookie in BOOKIES}
    members = {bookie for _, ensemble in ledger.segments for bookie in ensemble}
    assert {b: entries(g) for b, g in answer.missing} == {
        b: lacking[b] for b in BOOKIES if b in sure and lacking[b]
    }
    assert {b: entries(g) for b, g, _ in answer.unknown} == {
        b: lacking[b] for b in BOOKIES if b not in sure and lacking[b]
    }
    everywhere = range(LAST + 6)
    assert answer.m == max(sum(e in lacking[b] for b in sure) for e in everywhere)
    assert answer.mu == max(sum(e in lacking[b] for b in BOOKIES) for e in everywhere)
    _assert_class(ledger, answer, [sum(e in lacking[b] for b in sure) for e in everywhere])
    whys = {"cut": "unreadable", "unreadable": "unreadable"}
    for bookie, _, why in answer.unknown:
        assert why == (
            whys.get(found_as[bookie], found_as[bookie]) if reading[bookie] == "read" else "unread"
        )
    strangers = [
        pair.bookie_id
        for pair in pairs
        if pair.bookie_id not in members and pair.index_state != "not-indexed"
    ]
    assert [(copy.bookie_id, coverage.count(copy.held_groups)) for copy in answer.foreign_copies] == [
        (bookie, len(held.get(bookie, ()))) for bookie in strangers
    ]
    _assert_excess(ledger, held, members, answer)
    _assert_lagging(ledger, served, sure, answer)


def _assert_class(ledger: LedgerFacts, answer: Judgement, missing: list[int]) -> None:
    """Check that the worst class present has its entries listed; ``missing`` counts copies by entry."""
    copies_left = [ledger.write_quorum - copies for copies in missing]
    classes = [
        {entry for entry, copies in enumerate(copies_left) if ledger.is_closed and copies <= 0},
        {entry for entry, copies in enumerate(copies_left) if copies < ledger.ack_quorum},
        {entry for entry, copies in enumerate(copies_left) if copies < ledger.write_quorum},
    ]
    assert answer.class_entries is not None
    assert entries(answer.class_entries) == next(filter(None, classes), set())


def _assert_excess(
    ledger: LedgerFacts, entries_by_bookie: dict[str, set[int]], members: set[str], answer: Judgement
) -> None:
    firsts = [first for first, _ in ledger.segments]

    def ensemble_of(entry: int) -> list[str] | None:
        if ledger.is_closed and entry > ledger.last_entry_id:
            return None
        return list(ledger.segments[max(n for n, first in enumerate(firsts) if first <= entry)][1])

    stale, surplus = {}, {}
    for bookie in sorted(members & entries_by_bookie.keys()):
        excess = entries_by_bookie[bookie] - striped(ledger, bookie, LAST + 5, judged_only=False)
        elsewhere = {
            entry
            for entry in excess
            if (ensemble := ensemble_of(entry)) is not None and bookie not in ensemble
        }
        stale[bookie], surplus[bookie] = elsewhere, excess - elsewhere
    assert {b: entries(g) for b, g in answer.stale} == {b: e for b, e in stale.items() if e}
    past = _past_end(ledger, surplus)
    assert {b: entries(g) for b, g in answer.past_end} == {b: e for b, e in past.items() if e}
    assert answer.past_end_last == max((max(e) for e in past.values() if e), default=None)
    surplus = {b: e - past.get(b, set()) for b, e in surplus.items()}
    assert {b: entries(g) for b, g in answer.surplus} == {b: e for b, e in surplus.items() if e}


def _past_end(ledger: LedgerFacts, surplus: dict[str, set[int]]) -> dict[str, set[int]]:
    """Return the run of entries past the end that an ack quorum of their write sets has, entry by entry."""
    past_entries: dict[str, set[int]] = {}
    if not ledger.is_closed or ledger.metadata_changes == len(ledger.segments):
        return past_entries
    for entry in range(ledger.last_entry_id + 1, LAST + 6):
        _, ensemble = max(
            (segment for segment in ledger.segments if segment[0] <= entry), key=lambda segment: segment[0]
        )
        writers = {ensemble[(entry + step) % ledger.ensemble_size] for step in range(ledger.write_quorum)}
        holders = {bookie for bookie in writers if entry in surplus.get(bookie, set())}
        if len(holders) < ledger.ack_quorum:
            break
        for bookie in holders:
            past_entries.setdefault(bookie, set()).add(entry)
    return past_entries


def _assert_lagging(
    ledger: LedgerFacts, entries_by_bookie: dict[str, set[int]], sure: set[str], answer: Judgement
) -> None:
    late: dict[str, set[int]] = {}
    if not ledger.is_closed:
        start, ensemble = ledger.segments[-1]
        for entry in range(start, LAST + 6):
            places = [(entry + step) % ledger.ensemble_size for step in range(ledger.write_quorum)]
            writers = [ensemble[place] for place in places]
            if sum(entry in entries_by_bookie.get(writer, set()) for writer in writers) >= ledger.ack_quorum:
                for writer in writers:
                    if writer in sure and entry not in entries_by_bookie.get(writer, set()):
                        late.setdefault(writer, set()).add(entry)
    assert {b: entries(g) for b, g in answer.lagging} == late


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(ledgers(), st.sets(st.sampled_from(BOOKIES))), max_size=4),
    readings,
)
def test_wholly_missing_replicas_are_judged_in_one_batch(
    gone: list[tuple[LedgerFacts, set[str]]], reading: dict[str, str]
) -> None:
    states = {bookie: BookieState(reading[bookie], index_time=10**12) for bookie in BOOKIES}
    cases = []
    for any_ledger, lost in gone:
        ledger = replace(any_ledger, is_closed=True)
        expected = {bookie: striped(ledger, bookie, LAST, judged_only=True) for bookie in lost}
        pairs = [Pair(b, groups(e), NO_GROUPS, "absent") for b, e in expected.items() if e]
        assert lacks_whole_replicas(ledger, pairs)
        cases.append((ledger, pairs))
    for (ledger, pairs), answer in zip(cases, judge_batch(cases, states, 0), strict=True):
        single = judge(ledger, pairs, states, 0)
        assert (answer.m, answer.mu, answer.doubts) == (single.m, single.mu, single.doubts)
        assert answer.class_entries is not None
        assert single.class_entries is not None
        assert answer.class_entries.tobytes() == single.class_entries.tobytes()
        assert [(b, entries(g)) for b, g in answer.missing] == [(b, entries(g)) for b, g in single.missing]
        assert [(b, w) for b, _, w in answer.unknown] == [(b, w) for b, _, w in single.unknown]


CLOSED = LedgerFacts(7, True, 3, 2, 2, 8, 1_000_000, [(0, BOOKIES[:3])])


@pytest.mark.parametrize(
    ("state", "doubted"),
    [
        pytest.param(BookieState("read", index_time=1_100_000), False, id="an index well after the ledger"),
        pytest.param(BookieState("read", index_time=1_030_000), True, id="an index within the grace period"),
        pytest.param(BookieState("read"), True, id="an index of no known time"),
        pytest.param(BookieState("read", True, 1_100_000), True, id="a disk in another's place"),
    ],
)
def test_loss_is_doubted_if_index_time_or_disk_may_explain_missing_entries(
    state: BookieState, doubted: bool
) -> None:
    pair = Pair("bk0", groups({0, 2}), NO_GROUPS, "absent")
    answer = judge(CLOSED, [pair], {"bk0": state}, grace_ms=60_000)
    assert (answer.m, bool(answer.doubts)) == (1, doubted)


def test_entries_of_foreign_bookie_are_no_copies() -> None:
    pair = Pair("bk0", groups({0, 2}), groups({0, 2}), "ok")
    answer = judge(CLOSED, [pair], {"bk0": BookieState("unread", is_foreign=True)}, grace_ms=0)
    assert (answer.m, answer.mu, answer.missing) == (0, 1, [])


PAST = LedgerFacts(7, True, 3, 2, 2, 8, 1_000_000, [(0, BOOKIES[:3])], metadata_changes=2)
SOUND = {bookie: BookieState("read", index_time=10**12) for bookie in BOOKIES}


def past_end(
    ledger: LedgerFacts, states: dict[str, BookieState], **extra_entries: set[int]
) -> list[tuple[str, set[int]]]:
    pairs = [
        Pair(b, groups(striped(ledger, b, 8, True)), groups(striped(ledger, b, 8, True) | e), "ok")
        for b, e in extra_entries.items()
    ]
    answer = judge(ledger, pairs, states, grace_ms=0)
    move_past_end_entries(ledger, states, answer)
    surplus = {b: entries(g) for b, g in answer.surplus}
    past = {b: entries(g) for b, g in answer.past_end}
    assert {b: surplus.get(b, set()) | past.get(b, set()) for b in extra_entries} == extra_entries
    assert not any(surplus[b] & past[b] for b in surplus.keys() & past.keys())
    return [(b, entries(g)) for b, g in answer.past_end]


@pytest.mark.parametrize(("changes", "behind"), [(None, 2), (1, 0), (2, 0), (3, 2), (4, 2)])
def test_copies_past_end_count_unless_writer_or_takeover_closed_the_ledger(
    changes: int | None, behind: int
) -> None:
    """Re-replication took the bookie out of the ensemble. A writer's close takes 1 change, a takeover 2."""
    copy = Pair("bk9", NO_GROUPS, groups({7, 8, 9, 10}), "ok")
    ledger = replace(PAST, metadata_changes=changes)
    answer = judge(ledger, [copy], SOUND, grace_ms=0)
    move_past_end_entries(ledger, SOUND, answer)
    assert [(foreign_copy.bookie_id, foreign_copy.behind_end) for foreign_copy in answer.foreign_copies] == [
        ("bk9", behind)
    ]


def test_ack_quorum_past_end_is_distinguished_from_leftovers() -> None:
    # Entry 9 belongs on bk0 and bk1, 10 on bk1 and bk2, 11 on bk2 and bk0.
    assert past_end(PAST, SOUND, bk0={9}, bk1={9, 10}) == [("bk0", {9}), ("bk1", {9})]
    assert past_end(PAST, SOUND, bk0={9}, bk2={9}) == []  # bk2 should not have it: one copy
    assert past_end(PAST, SOUND, bk1={10}, bk2={10}) == []  # behind a hole: nobody was told
    assert past_end(replace(PAST, metadata_changes=1), SOUND, bk0={9}, bk1={9}) == []  # its writer closed it
    on_etcd = replace(PAST, metadata_changes=1, mtime=None)  # which keeps no times and counts changes
    assert past_end(on_etcd, SOUND, bk0={9}, bk1={9}) == []
    not_counted = replace(PAST, metadata_changes=None)
    assert past_end(not_counted, SOUND, bk0={9}, bk1={9}) == [("bk0", {9}), ("bk1", {9})]
    assert past_end(replace(PAST, last_entry_id=-1), SOUND, bk0={0}, bk1={0}) == [("bk0", {0}), ("bk1", {0})]


def test_entries_past_end_on_foreign_bookie_do_not_count() -> None:
    states = {**SOUND, "bk0": BookieState("unread", is_foreign=True)}
    assert past_end(PAST, states, bk1={9}) == []
    pairs = [
        Pair(b, groups(striped(PAST, b, 8, True)), groups(striped(PAST, b, 8, True) | {9}), "ok")
        for b in ("bk0", "bk1")
    ]
    answer = judge(PAST, pairs, states, grace_ms=0)
    move_past_end_entries(PAST, states, answer)
    assert answer.past_end == []
    assert [bookie for bookie, _ in answer.surplus] == ["bk1"]


def test_foreign_bookie_has_no_copies_and_no_stale_surplus_or_lagging_entries() -> None:
    """This holds for copies outside the ensembles, copies of another segment, and copies of an open end."""
    stranger = Pair("bk9", NO_GROUPS, groups({0, 1, 2}), "ok")
    states = {
        **SOUND,
        "bk9": BookieState("unread", is_foreign=True),
        "bk2": BookieState("unread", is_foreign=True),
    }
    assert judge(CLOSED, [stranger], states, grace_ms=0).foreign_copies == []
    [copy] = judge(CLOSED, [stranger], SOUND, grace_ms=0).foreign_copies
    assert (copy.bookie_id, coverage.count(copy.held_groups), copy.behind_end) == ("bk9", 3, 0)
    member = Pair("bk2", NO_GROUPS, groups({0, 1, 2, 50}), "ok")
    answer = judge(CLOSED, [member], states, grace_ms=0)
    assert (answer.stale, answer.surplus, answer.missing) == ([], [], [])
    open_end = replace(CLOSED, is_closed=False)
    assert judge(open_end, [member], states, grace_ms=0).lagging == []


@pytest.mark.parametrize("state", ["unreadable", "cut", "limbo", "not-indexed", "absent"])
def test_incomplete_index_gives_no_entries_past_end(state: str) -> None:
    """Entry 9 belongs on bk0 and bk1. One of them shows it; the other's index is unknown or incomplete."""
    shown = groups(striped(PAST, "bk1", 8, True) | {9})
    silent = Pair("bk0", groups(striped(PAST, "bk0", 8, True)), NO_GROUPS, state)
    for states in (SOUND, {**SOUND, "bk0": BookieState("unread")}, {**SOUND, "bk0": BookieState("partial")}):
        answer = judge(
            PAST,
            [silent, Pair("bk1", groups(striped(PAST, "bk1", 8, True)), shown, "ok")],
            states,
            grace_ms=0,
        )
        move_past_end_entries(PAST, states, answer)
        assert (answer.past_end, answer.past_end_last) == ([], None)
        assert [(b, entries(g)) for b, g in answer.surplus] == [("bk1", {9})]


def test_entries_past_end_in_cut_index_count() -> None:
    states = {**SOUND, "bk0": BookieState("partial")}
    shown = {b: groups(striped(PAST, b, 8, True) | {9}) for b in ("bk0", "bk1")}
    pairs = [
        Pair(b, groups(striped(PAST, b, 8, True)), shown_groups, "cut" if b == "bk0" else "ok")
        for b, shown_groups in shown.items()
    ]
    answer = judge(PAST, pairs, states, grace_ms=0)
    move_past_end_entries(PAST, states, answer)
    assert [(b, entries(g)) for b, g in answer.past_end] == [("bk0", {9}), ("bk1", {9})]
