"""Several accounts of one replica are put together."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from auditor.errors import CoverageLimitError
from auditor.tables.accounts import HeldEntries, combine_index_pieces, merge_answer, merge_journal_tail
from tests.tables.rows import availability, index, pack, unpack


def said(entries: set[int] | None = None, state: str = "ok", answered: int | None = None) -> HeldEntries:
    return HeldEntries(pack(entries) if entries is not None else None, state, answered)


def told(account: HeldEntries) -> tuple[set[int], str, int | None, set[int]]:
    return unpack(account.held), account.index_state, account.answered, unpack(account.listed)


ASKED = 9_000
NONE: set[int] = set()

# what the index has, what its bookie answered, whether its disks were read whole, and what comes of it
Told = tuple[set[int], str, int | None, set[int]]
ANSWERS: dict[str, tuple[HeldEntries | None, HeldEntries, bool, Told]] = {
    "an answer alone": (None, said({3}, "ok", ASKED), False, ({3}, "ok", ASKED, NONE)),
    "no answer, and no index": (
        None,
        said(NONE, "unreadable", ASKED),
        False,
        (NONE, "unreadable", ASKED, NONE),
    ),
    "each has a part": (said({0, 1, 2}), said({2, 3}, "ok", ASKED), False, ({0, 1, 2, 3}, "ok", ASKED, NONE)),
    "both have the same": (said({0, 1}), said({0, 1}, "ok", ASKED), False, ({0, 1}, "ok", ASKED, NONE)),
    "an answer for a cut index": (
        said({0, 2}, "cut"),
        said({1}, "ok", ASKED),
        False,
        ({0, 1, 2}, "ok", ASKED, NONE),
    ),
    "no answer: the index stands": (
        said({0}),
        said(NONE, "unreadable", ASKED),
        False,
        ({0}, "ok", None, NONE),
    ),
    # An answer of nothing does not speak for an index that says less than all.
    "nothing, and unreadable": (
        said({0}, "unreadable"),
        said(NONE, "ok", ASKED),
        False,
        ({0}, "unreadable", None, NONE),
    ),
    "nothing, and cut": (said({0}, "cut"), said(NONE, "ok", ASKED), False, ({0}, "cut", None, NONE)),
    "nothing, and limbo": (said({0}, "limbo"), said(NONE, "ok", ASKED), False, ({0}, "limbo", None, NONE)),
    "nothing, and not indexed": (
        said({0}, "not-indexed"),
        said(NONE, "ok", ASKED),
        False,
        ({0}, "not-indexed", None, NONE),
    ),
    # A disk that was read whole says what is absent, and not a listing.
    "whole, and listed beyond": (said({0}), said({1}, "ok", ASKED), True, ({0, 1}, "ok", None, {1})),
    "whole, and damaged": (said({0}, "cut"), said({1}, "ok", ASKED), True, ({0, 1}, "ok", ASKED, NONE)),
    "whole, and no index": (None, said({1}, "ok", ASKED), True, ({1}, "ok", None, {1})),
    "whole, and nothing anywhere": (None, said(NONE, "ok", ASKED), True, (NONE, "ok", None, NONE)),
    "whole, and listed less": (said({0, 1}), said({0}, "ok", ASKED), True, ({0, 1}, "ok", None, NONE)),
    "whole, and listed the same": (said({0, 1}), said({0, 1}, "ok", ASKED), True, ({0, 1}, "ok", None, NONE)),
    "served, and not indexed": (
        said({0, 1, 2}, "not-indexed"),
        said({1}, "ok", ASKED),
        False,
        ({1}, "ok", ASKED, NONE),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_either_an_index_or_its_bookie_shows_is_held(name: str) -> None:
    index, answer, whole, comes = ANSWERS[name]
    assert told(merge_answer(index, answer, whole)) == comes


ALL, HEAD, REST = set(range(10)), set(range(4)), set(range(4, 10))

# what the index has (None: there is none), what the journal has, what comes of it
TAILS: dict[str, tuple[HeldEntries | None, set[int], tuple[str, set[int]]]] = {
    "all in the journal, no index yet": (None, ALL, ("ok", ALL)),
    "each has a part": (said(HEAD), REST, ("ok", ALL)),
    "both have some of it": (said(ALL), HEAD, ("ok", ALL)),
    "neither has the rest": (said(HEAD), {4, 5}, ("ok", set(range(6)))),
    "not in the index of ledgers yet": (said(HEAD, "not-indexed"), REST, ("ok", ALL)),
    "a damaged index": (said(None, "unreadable"), HEAD, ("unreadable", HEAD)),
    "an index that is cut": (said(HEAD, "cut"), {4}, ("cut", set(range(5)))),
    "limbo": (said(HEAD, "limbo"), REST, ("limbo", ALL)),
}


@pytest.mark.parametrize("name", TAILS)
def test_what_either_an_index_or_a_journal_shows_is_held(name: str) -> None:
    index, tail, comes = TAILS[name]
    held, state, answered, listed = told(merge_journal_tail(index, pack(tail)))
    assert (state, held, answered, listed) == (*comes, None, NONE)


def test_what_the_journal_has_the_disk_does_not_lack() -> None:
    listed = HeldEntries(pack({0, 1, 2}), "ok", None, pack({1, 2}))
    assert told(merge_journal_tail(listed, pack({1}))) == ({0, 1, 2}, "ok", None, {2})
    assert merge_journal_tail(listed, pack({1, 2, 3})).listed is None


def test_more_than_can_be_put_together_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CoverageLimitError("too irregular")

    monkeypatch.setattr("auditor.tables.accounts.coverage.union", refuse)
    assert told(merge_journal_tail(said(HEAD), pack(REST))) == (HEAD, "cut", None, NONE)
    assert told(merge_answer(said(HEAD), said(REST, "ok", ASKED), False)) == (HEAD, "cut", ASKED, NONE)


def test_pieces_of_one_bookies_index_become_one_row_a_ledger(spark: SparkSession) -> None:
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
    found = combine_index_pieces(availability(spark, *rows))
    got = sorted(
        (row["bookie_id"], row["scope_id"], row["ledger_id"], row["state"], sorted(unpack(row["groups"])))
        for row in found.collect()
    )
    assert got == [
        ("bk1", 0, 1, "ok", [0, 1, 2]),
        ("bk1", 0, 2, "cut", [0, 1]),
        ("bk1", 0, 3, "not-indexed", [4]),
        ("bk1", 0, 4, "ok", [0, 2, 4, 6]),
        ("bk1", 0, 5, "ok", []),
        ("bk1", 1, 4, "ok", [9]),
    ]
    [cut] = found.where("state = 'cut'").collect()
    assert (cut["path"], cut["reason"]) == ("b/2.idx", "inside a page")
    [newest] = found.where("bookie_id = 'bk1' and ledger_id = 1").collect()
    assert newest["mtime"] == 7
