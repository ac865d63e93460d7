"""Several accounts of one replica are put together."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from auditor.tables.answers import combine_pieces, merge_answers
from tests.tables.rows import availability, index, pack, unpack

ASKED: dict[str, Any] = {"storage": "rpc", "answered": 9_000}


def by_ledger(frame: DataFrame) -> dict[int, Row]:
    rows = frame.collect()
    found = {row["ledger_id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_pair_that_one_side_alone_has_keeps_that_row(spark: SparkSession) -> None:
    held = availability(spark, index(1, "bk1", {0, 1}, path="1.idx", mtime=5))
    answers = availability(spark, index(2, "bk1", {3}, **ASKED), index(3, "bk1", state="unreadable", **ASKED))
    both = merge_answers(held, answers)
    assert both.columns == [*held.columns, "listed"]
    assert {row["listed"] for row in both.collect()} == {None}
    assert set(both.drop("listed").collect()) == {*held.collect(), *answers.collect()}


def test_what_either_a_file_or_its_bookie_shows_is_held(spark: SparkSession) -> None:
    held = availability(
        spark,
        index(1, "bk1", {0, 1, 2}, path="1.idx"),
        index(2, "bk1", {0, 2, 4}, state="cut", reason="inside a page", offset=1030),
        index(3, "bk1", {0}, path="3.idx"),
        index(4, "bk1", {0, 1}),
        index(4, "bk2", {7}),
        index(4, "bk1", {8}, scope_id=1),
    )
    answers = availability(
        spark,
        index(1, "bk1", {2, 3}, **ASKED),
        index(2, "bk1", {1, 3, 5}, **ASKED),
        index(3, "bk1", state="unreadable", reason="no answer", **ASKED),
        index(4, "bk1", {0, 1}, **ASKED),
    )
    rows = {
        (row["scope_id"], row["ledger_id"], row["bookie_id"]): row
        for row in merge_answers(held, answers).collect()
    }
    assert len(rows) == 6
    one, two, three = (rows[0, number, "bk1"] for number in (1, 2, 3))
    assert (one["groups"], one["state"], one["answered"]) == (pack({0, 1, 2, 3}), "ok", 9_000)
    assert (one["path"], one["storage"]) == ("1.idx", "idx")
    assert (two["groups"], two["state"], two["reason"], two["offset"]) == (
        pack(set(range(6))),
        "ok",
        None,
        None,
    )
    # No answer says nothing: the file's word stands, and is as old as it was.
    assert (three["groups"], three["state"], three["answered"]) == (pack({0}), "ok", None)
    assert (rows[0, 4, "bk1"]["groups"], rows[0, 4, "bk1"]["answered"]) == (pack({0, 1}), 9_000)
    assert rows[0, 4, "bk2"]["answered"] is rows[1, 4, "bk1"]["answered"] is None


def test_an_answer_of_nothing_does_not_speak_for_an_index_that_says_less_than_all(
    spark: SparkSession,
) -> None:
    states = ["unreadable", "cut", "limbo", "not-indexed"]
    held = availability(spark, *(index(n, "bk1", {n}, state=state) for n, state in enumerate(states)))
    empty = availability(spark, *(index(n, "bk1", **ASKED) for n in range(len(states))))
    rows = by_ledger(merge_answers(held, empty))
    assert [(rows[n]["state"], unpack(rows[n]["groups"]), rows[n]["answered"]) for n in range(4)] == [
        (state, {n}, None) for n, state in enumerate(states)
    ]


def test_a_disk_that_was_read_whole_says_what_is_absent_and_not_a_listing(spark: SparkSession) -> None:
    files = [index(1, "bk1", {0}), index(2, "bk1", {0}, state="cut"), index(3, "bk2", {0}), index(4, "bk1")]
    listed = [(1, "bk1"), (2, "bk1"), (3, "bk2"), (5, "bk1")]
    answers = availability(spark, *(index(ledger, bookie, {1}, **ASKED) for ledger, bookie in listed))
    rows = by_ledger(merge_answers(availability(spark, *files), answers, ["bk1"]))
    assert {ledger: row["answered"] for ledger, row in rows.items()} == {
        1: None,  # the file says what is absent
        2: 9_000,  # it is damaged: the listing says it
        3: 9_000,  # its bookie was not read whole
        4: None,
        5: None,  # no file on a bookie that was read
    }
    assert unpack(rows[1]["groups"]) == {0, 1}
    # What the disk lacks, which is the listing's alone there: it is asked for.
    assert {ledger: unpack(row["listed"]) for ledger, row in rows.items() if row["listed"]} == {
        1: {1},
        5: {1},
    }


def test_a_listing_that_shows_no_more_than_the_disk_adds_nothing(spark: SparkSession) -> None:
    files = [index(1, "bk1", {0, 1}), index(2, "bk1", {0, 1})]
    answers = [index(1, "bk1", {0}, **ASKED), index(2, "bk1", {0, 1}, **ASKED)]
    rows = merge_answers(availability(spark, *files), availability(spark, *answers), ["bk1"]).collect()
    assert [(unpack(row["groups"]), row["listed"]) for row in rows] == [({0, 1}, None)] * 2


def test_what_a_bookie_serves_of_a_ledger_that_is_not_indexed_it_said_itself(spark: SparkSession) -> None:
    held = availability(spark, index(1, "bk1", {0, 1, 2}, state="not-indexed"))
    [row] = merge_answers(held, availability(spark, index(1, "bk1", {1}, **ASKED))).collect()
    assert (row["state"], unpack(row["groups"]), row["answered"]) == ("ok", {1}, 9_000)


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
        index(None, "bk1", state="gap", path="ledgers1", scope_id=None),
        index(None, "bk1", state="stray", path="note.txt", scope_id=None),
    ]
    twice = [index(1, "bk2", {0}), index(1, "bk2", {1})]
    found = combine_pieces(availability(spark, *rows, *twice), ["bk1"])
    got = sorted(
        (row["bookie_id"], row["scope_id"], row["ledger_id"], row["state"], sorted(unpack(row["groups"])))
        for row in found.where("ledger_id is not null").collect()
    )
    assert got == [
        ("bk1", 0, 1, "ok", [0, 1, 2]),
        ("bk1", 0, 2, "cut", [0, 1]),
        ("bk1", 0, 3, "not-indexed", [4]),
        ("bk1", 0, 4, "ok", [0, 2, 4, 6]),
        ("bk1", 0, 5, "ok", []),
        ("bk1", 1, 4, "ok", [9]),
        # Not asked for: a bookie whose index came in one piece is not shuffled.
        ("bk2", 0, 1, "ok", [0]),
        ("bk2", 0, 1, "ok", [1]),
    ]
    assert {row["state"] for row in found.where("ledger_id is null").collect()} == {"gap", "stray"}
    [cut] = found.where("state = 'cut'").collect()
    assert (cut["path"], cut["reason"]) == ("b/2.idx", "inside a page")
    [newest] = found.where("bookie_id = 'bk1' and ledger_id = 1").collect()
    assert newest["mtime"] == 7


def test_nothing_is_done_where_no_bookie_came_in_pieces(spark: SparkSession) -> None:
    rows = availability(spark, index(1, "bk1", {0}))
    assert combine_pieces(rows, []) is rows
