"""Several accounts of one replica are merged."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from auditor.errors import CoverageLimitError
from auditor.tables.accounts import HeldEntries, combine_index_pieces, merge_answer, merge_journal_tail
from tests.tables.rows import availability, index, pack, unpack


def record(entries: set[int] | None = None, state: str = "ok", answered: int | None = None) -> HeldEntries:
    return HeldEntries(pack(entries) if entries is not None else None, state, answered)


def facts(account: HeldEntries) -> tuple[set[int], str, int | None, set[int]]:
    return unpack(account.held), account.index_state, account.answered, unpack(account.listed)


TIME = 9_000
NO_IDS: set[int] = set()

# what the index has, what its bookie answered, whether its disks were read whole, and what comes of it
Facts = tuple[set[int], str, int | None, set[int]]
ANSWERS: dict[str, tuple[HeldEntries | None, HeldEntries, bool, Facts]] = {
    "an answer alone": (None, record({3}, "ok", TIME), False, ({3}, "ok", TIME, NO_IDS)),
    "no answer, and no index": (
        None,
        record(NO_IDS, "unreadable", TIME),
        False,
        (NO_IDS, "unreadable", TIME, NO_IDS),
    ),
    "each has a part": (
        record({0, 1, 2}),
        record({2, 3}, "ok", TIME),
        False,
        ({0, 1, 2, 3}, "ok", TIME, NO_IDS),
    ),
    "both have the same": (record({0, 1}), record({0, 1}, "ok", TIME), False, ({0, 1}, "ok", TIME, NO_IDS)),
    "an answer for a cut index": (
        record({0, 2}, "cut"),
        record({1}, "ok", TIME),
        False,
        ({0, 1, 2}, "ok", TIME, NO_IDS),
    ),
    "no answer: the index stands": (
        record({0}),
        record(NO_IDS, "unreadable", TIME),
        False,
        ({0}, "ok", None, NO_IDS),
    ),
    # An answer of nothing does not speak for an index that says less than all.
    "nothing, and unreadable": (
        record({0}, "unreadable"),
        record(NO_IDS, "ok", TIME),
        False,
        ({0}, "unreadable", None, NO_IDS),
    ),
    "nothing, and cut": (record({0}, "cut"), record(NO_IDS, "ok", TIME), False, ({0}, "cut", None, NO_IDS)),
    "nothing, and limbo": (
        record({0}, "limbo"),
        record(NO_IDS, "ok", TIME),
        False,
        ({0}, "limbo", None, NO_IDS),
    ),
    "nothing, and not indexed": (
        record({0}, "not-indexed"),
        record(NO_IDS, "ok", TIME),
        False,
        ({0}, "not-indexed", None, NO_IDS),
    ),
    # A disk that was read whole says what is absent, and not a listing.
    "whole, and listed beyond": (record({0}), record({1}, "ok", TIME), True, ({0, 1}, "ok", None, {1})),
    "whole, and damaged": (record({0}, "cut"), record({1}, "ok", TIME), True, ({0, 1}, "ok", TIME, NO_IDS)),
    "whole, and no index": (None, record({1}, "ok", TIME), True, ({1}, "ok", None, {1})),
    "whole, and nothing anywhere": (None, record(NO_IDS, "ok", TIME), True, (NO_IDS, "ok", None, NO_IDS)),
    "whole, and listed less": (record({0, 1}), record({0}, "ok", TIME), True, ({0, 1}, "ok", None, NO_IDS)),
    "whole, and listed the same": (
        record({0, 1}),
        record({0, 1}, "ok", TIME),
        True,
        ({0, 1}, "ok", None, NO_IDS),
    ),
    "served, and not indexed": (
        record({0, 1, 2}, "not-indexed"),
        record({1}, "ok", TIME),
        False,
        ({1}, "ok", TIME, NO_IDS),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_entries_in_index_or_bookie_answer_are_held(name: str) -> None:
    index, answer, whole, comes = ANSWERS[name]
    assert facts(merge_answer(index, answer, whole)) == comes


ALL, HEAD, TAIL = set(range(10)), set(range(4)), set(range(4, 10))

# what the index has (None: there is none), what the journal has, what comes of it
TAILS: dict[str, tuple[HeldEntries | None, set[int], tuple[str, set[int]]]] = {
    "all in the journal, no index yet": (None, ALL, ("ok", ALL)),
    "each has a part": (record(HEAD), TAIL, ("ok", ALL)),
    "both have some of it": (record(ALL), HEAD, ("ok", ALL)),
    "neither has the rest": (record(HEAD), {4, 5}, ("ok", set(range(6)))),
    "not in the index of ledgers yet": (record(HEAD, "not-indexed"), TAIL, ("ok", ALL)),
    "a damaged index": (record(None, "unreadable"), HEAD, ("unreadable", HEAD)),
    "an index that is cut": (record(HEAD, "cut"), {4}, ("cut", set(range(5)))),
    "limbo": (record(HEAD, "limbo"), TAIL, ("limbo", ALL)),
}


@pytest.mark.parametrize("name", TAILS)
def test_entries_in_index_or_journal_are_held(name: str) -> None:
    index, tail, comes = TAILS[name]
    held_ids, state, answered, listed = facts(merge_journal_tail(index, pack(tail)))
    assert (state, held_ids, answered, listed) == (*comes, None, NO_IDS)


def test_journal_entries_are_removed_from_listed_entries() -> None:
    listed = HeldEntries(pack({0, 1, 2}), "ok", None, pack({1, 2}))
    assert facts(merge_journal_tail(listed, pack({1}))) == ({0, 1, 2}, "ok", None, {2})
    assert merge_journal_tail(listed, pack({1, 2, 3})).listed is None


def test_union_over_coverage_limit_makes_account_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CoverageLimitError("too irregular")

    monkeypatch.setattr("auditor.tables.accounts.coverage.union", refuse)
    assert facts(merge_journal_tail(record(HEAD), pack(TAIL))) == (HEAD, "cut", None, NO_IDS)
    assert facts(merge_answer(record(HEAD), record(TAIL, "ok", TIME), False)) == (HEAD, "cut", TIME, NO_IDS)


def test_index_pieces_of_one_bookie_are_merged_into_one_row_per_ledger(spark: SparkSession) -> None:
    rows = [
        index(1, "bk1", {0, 1}, path="a/1.idx", mtime=5),
        index(1, "bk1", {1, 2}, path="b/1.idx", mtime=7),
        index(2, "bk1", {0}, path="a/2.idx"),
        index(2, "bk1", {1}, path="b/2.idx", state="cut", reason="inside a page"),
        index(3, "bk1", {0, 1}, state="not-indexed"),
        index(3, "bk1", {4}),
        index(4, "bk1", {0, 2, 4, 6}),
        index(4, "bk1", {0, 2, 4, 6}),
        index(4, "bk1", {9}, scope_id=1),
        index(5, "bk1"),
    ]
    combined_rows = combine_index_pieces(availability(spark, *rows))
    got = sorted(
        (row["bookie_id"], row["scope_id"], row["ledger_id"], row["state"], sorted(unpack(row["groups"])))
        for row in combined_rows.collect()
    )
    assert got == [
        ("bk1", 0, 1, "ok", [0, 1, 2]),
        ("bk1", 0, 2, "cut", [0, 1]),
        ("bk1", 0, 3, "not-indexed", [4]),
        ("bk1", 0, 4, "ok", [0, 2, 4, 6]),
        ("bk1", 0, 5, "ok", []),
        ("bk1", 1, 4, "ok", [9]),
    ]
    [cut] = combined_rows.where("state = 'cut'").collect()
    assert (cut["path"], cut["reason"]) == ("b/2.idx", "inside a page")
    [newest] = combined_rows.where("bookie_id = 'bk1' and ledger_id = 1").collect()
    assert newest["mtime"] == 7
