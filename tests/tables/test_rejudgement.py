"""Which bookie is asked for which entry, and the table judged with the answers, through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.audit.comparison import bookies_taking_reads
from auditor.sources.bookies.rpc.reads import WITNESS
from auditor.tables.judge_replicas import BookieState
from auditor.tables.judged import JUDGED, judge_ledgers
from auditor.tables.rejudgement import MAX_ANSWERS_KEPT, READ_LIMIT_REASON, rejudge, select_reads
from auditor.tables.unequal import BookieTrust
from tests.tables.files import pairs_of
from tests.tables.rows import index, ledger, ledgers, unpack

BOOKIES = ("a", "b", "c")
ALL = set(range(10))
STATES = {bookie: BookieState("read", index_time=10**12) for bookie in BOOKIES}


def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Return tables: by the indexes, ledger 1 is whole, 2 lacks a copy, 3 two (below ack quorum), 4 all."""
    rows = [ledger(n, dict.fromkeys(BOOKIES, ALL), ack_quorum=2) for n in (1, 2, 3, 4)]
    lacking = {2: {"a"}, 3: {"a", "b"}, 4: {"a", "b", "c"}}
    index_rows = [
        index(n, bookie, ALL - {4, 5} if bookie in lacking.get(n, ()) else ALL)
        for n in (1, 2, 3, 4)
        for bookie in BOOKIES
    ]
    metadata, pairs = ledgers(spark, *rows), pairs_of(spark, rows, index_rows)
    return metadata, pairs, judge_ledgers(metadata, pairs, STATES, 0)


def answer_frame(spark: SparkSession, *rows: tuple[int, str, int, str]) -> DataFrame:
    full = [
        (0, ledger_id, entry, bookie, answer, "silence" if answer in ("unknown", "refused") else None, 5, 1)
        for ledger_id, bookie, entry, answer in rows
    ]
    return spark.createDataFrame(full, from_arrow_schema(WITNESS))


def read_keys(reads: DataFrame) -> list[tuple[int, str, int]]:
    rows = sorted(reads.collect(), key=lambda row: (row["bookie_id"], row["place"]))
    return [(row["ledger_id"], row["bookie_id"], row["entry_id"]) for row in rows]


def test_worst_entries_of_worst_ledgers_are_read_first(spark: SparkSession) -> None:
    metadata, _, by_index = tables(spark)
    everything = read_keys(select_reads(metadata, by_index, BOOKIES, 1000))
    of_a = [(ledger_id, entry) for ledger_id, bookie, entry in everything if bookie == "a"]
    assert of_a == [(4, 4), (3, 4), (2, 4), (4, 5), (3, 5), (2, 5)]
    # Who holds the worst entry by its index is asked as well.
    assert [(ledger_id, entry) for ledger_id, bookie, entry in everything if bookie == "c"] == [
        (4, 4),
        (3, 4),
        (2, 4),
        (4, 5),
    ]
    # Of ledger 2 bookie b lacks nothing: where a cannot be asked, there is nothing to find out.
    of_b = [read_key for read_key in everything if read_key[1] == "b" and read_key[0] != 2]
    assert read_keys(select_reads(metadata, by_index, ["b"], 1000)) == of_b
    assert sorted(read_keys(select_reads(metadata, by_index, BOOKIES, 3))) == [
        (4, "a", 4),
        (4, "b", 4),
        (4, "c", 4),
    ]
    assert len(read_keys(select_reads(metadata, by_index, ["a"], 4))) == 2  # half of all for one bookie
    assert len(read_keys(select_reads(metadata, by_index, ["a"], 1))) == 1


def test_listed_entries_and_undecided_whole_replicas_are_read_last(spark: SparkSession) -> None:
    rows = [ledger(n, dict.fromkeys(BOOKIES, ALL), ack_quorum=2) for n in range(1, 7)]
    metadata = ledgers(spark, *rows)
    states = {2: "limbo", 3: "misplaced", 4: "unreadable", 5: "wrong-directory"}
    lacking = {(1, "a"): ALL - {8, 9}, (6, "b"): ALL - {4}} | {(n, "a"): set() for n in (3, 4, 5)}
    index_rows = [
        index(n, bookie, lacking.get((n, bookie), ALL), state=states.get(n, "ok") if bookie == "a" else "ok")
        for n in range(1, 7)
        for bookie in BOOKIES
    ]
    listed = [index(1, "a", ALL, storage="rpc", answered=1)]
    pairs = pairs_of(spark, rows, index_rows, listed, BookieTrust(read_bookies=frozenset({"a"})))
    by_index = judge_ledgers(metadata, pairs, STATES, 0)
    keys = read_keys(select_reads(metadata, by_index, BOOKIES, 1000))
    # A damaged index answers from the damage, and of a wrong directory the bookie's finding says all.
    assert [(n, entry) for n, bookie, entry in keys if bookie == "a"] == [
        (6, 4),
        (1, 8),
        (2, 0),
        (3, 0),
        (1, 9),
    ]
    assert [(n, bookie) for n, bookie, _ in keys if bookie != "a"] == [(6, "b"), (6, "c")]
    assert read_keys(select_reads(metadata, by_index, ["c"], 1000)) == []


def rejudged_rows(
    spark: SparkSession,
    *rows: tuple[int, str, int, str],
    askable: tuple[str, ...] = BOOKIES,
    states: Mapping[str, BookieState] = STATES,
) -> dict[int, dict[str, Any]]:
    metadata, pairs, by_index = tables(spark)
    answers = answer_frame(spark, *rows)
    bookies = bookies_taking_reads(answers, states, askable)
    judgements = rejudge(metadata, pairs, by_index, answers, states, bookies, 0)
    assert judgements.schema == from_arrow_schema(JUDGED)
    return {row["ledger_id"]: row.asDict(recursive=True) for row in judgements.collect()}


def test_answers_change_only_ledgers_that_were_asked_about(spark: SparkSession) -> None:
    rows = rejudged_rows(
        spark,
        *((4, bookie, entry, "served") for bookie in BOOKIES for entry in (4, 5)),
        *((3, bookie, 4, "no-such-entry") for bookie in "ab"),
        (3, "c", 4, "served"),
    )
    assert rows.keys() == {2, 3, 4}
    assert (rows[4]["m"], rows[4]["mu"], rows[4]["missing"], rows[4]["doubts"]) == (0, 0, [], [])
    assert [(part["bookie_id"], unpack(part["groups"])) for part in rows[4]["unindexed"]] == [
        (bookie, {4, 5}) for bookie in BOOKIES
    ]
    assert (rows[3]["m"], rows[3]["doubts"]) == (2, [])
    assert [(part["bookie_id"], unpack(part["groups"])) for part in rows[3]["missing"]] == [
        ("a", {4, 5}),
        ("b", {4, 5}),
    ]
    assert [(answer["bookie_id"], answer["entry_id"], answer["answer"]) for answer in rows[3]["witness"]] == [
        ("a", 4, "no-such-entry"),
        ("b", 4, "no-such-entry"),
        ("c", 4, "served"),
    ]
    assert len(rows[4]["witness"]) == 6 <= MAX_ANSWERS_KEPT
    assert (rows[2]["m"], rows[2]["witness"]) == (1, [])
    assert rows[2]["doubts"] == [f"the ledger's bookies were not asked for entries: {READ_LIMIT_REASON}"]


def test_ledger_without_askable_bookies_is_judged_by_indexes(spark: SparkSession) -> None:
    rows = rejudged_rows(spark, (4, "c", 4, "unknown"), askable=("c",))
    assert rows[4]["doubts"] == ["c did not respond: silence"]
    assert (rows[3]["doubts"], rows[2]["doubts"]) == ([], [])


def test_bookie_that_refuses_reads_adds_no_doubt(spark: SparkSession) -> None:
    """It also adds none in ledgers that it was not asked about; the limit on reads has no effect there."""
    states = {name: replace(state, journal_read=True) for name, state in STATES.items()}
    rows = rejudged_rows(spark, (4, "a", 4, "refused"), (4, "b", 4, "no-such-entry"), states=states)
    # b and c take reads: of c nobody knows in ledger 4, of b in ledger 3.
    assert rows[4]["doubts"] == [f"c did not respond: {READ_LIMIT_REASON}"]
    assert rows[3]["doubts"] == [f"the ledger's bookies were not asked for entries: {READ_LIMIT_REASON}"]
    assert rows[2]["doubts"] == []
    assert [part["bookie_id"] for part in rows[2]["missing"]] == ["a"]
    unread = rejudged_rows(spark, (4, "a", 4, "refused"))
    reasons = {"a": "silence", "b": READ_LIMIT_REASON, "c": READ_LIMIT_REASON}
    assert unread[4]["doubts"] == [f"{name} did not respond: {why}" for name, why in reasons.items()]
    assert unread[2]["doubts"] == [f"the ledger's bookies were not asked for entries: {READ_LIMIT_REASON}"]
