"""The joins of expected and held entries, by scope and by each state of an index."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from auditor.audit.space_scan import ids_issued_since
from auditor.spark import functions as F
from auditor.tables.cluster_state import IdRange
from auditor.tables.judge_replicas import BookieState
from auditor.tables.judged import judge_ledgers
from auditor.tables.marks import add_scope_to_marks, marks_of_first_scan
from auditor.tables.orphans import (
    RecentIds,
    count_holdings,
    find_over_replicated,
    find_vanished_ranges,
    orphans,
)
from auditor.tables.scans import doubtful_ids, find_moves
from auditor.tables.unequal import BookieTrust
from auditor.tables.verdicts import verdicts_of_judged
from tests.checks.tables_builder import tables
from tests.tables.files import counts_of, pairs_of
from tests.tables.rows import Row, availability, index, ledger, ledgers, unpack

SCAN = 1_000_000
READ = {name: BookieState("read", index_time=SCAN) for name in ("bk1", "bk2", "bk3")}


def judged_of(spark: SparkSession, metadata: list[Row], indexes: list[Row]) -> dict[tuple[int, int], Any]:
    pairs = pairs_of(spark, metadata, indexes)
    rows = judge_ledgers(ledgers(spark, *metadata), pairs, READ, 0).collect()
    return {(row["scope_id"], row["ledger_id"]): row for row in rows}


def orphans_of(
    spark: SparkSession,
    metadata: list[Row],
    indexes: list[Row],
    again: list[Row] | None = None,
    **options: Any,
) -> list[Any]:
    pairs, rows = pairs_of(spark, metadata, indexes), availability(spark, *indexes)
    first = ledgers(spark, *metadata)
    second = None if again is None else ledgers(spark, *again)
    doubtful = doubtful_ids(first, second)
    since = None if second is None else find_moves(first, second, doubtful)
    times = options.get("index_times", {"bk1": SCAN, "bk2": SCAN})
    orphan_rows = orphans(pairs, rows, first, second, since, SCAN, times, doubtful).collect()
    return sorted(orphan_rows, key=lambda row: (row["scope_id"], row["ledger_id"], row["bookie_id"]))


def test_ledgers_of_two_scopes_are_not_joined(spark: SparkSession) -> None:
    replicas = {"bk1": {0, 1}, "bk2": {0, 1}}
    metadata = [ledger(2, replicas), ledger(2, replicas, scope_id=1, version=2**40)]
    indexes = [
        index(2, "bk1", {0, 1}),
        index(2, "bk2", {0, 1}),
        index(2, "bk1", {0}, scope_id=1),
        index(2, "bk3", {5}, scope_id=1),
        index(2, "bk1", {7}, scope_id=2),
    ]
    pairs = pairs_of(spark, metadata, indexes)
    assert {(row["scope_id"], row["bookie_id"], row["index_state"]) for row in pairs.collect()} == {
        (1, "bk1", "ok"),
        (1, "bk2", "absent"),
        (1, "bk3", "ok"),
        (2, "bk1", "ok"),
    }
    frame = ledgers(spark, *metadata)
    answers = judge_ledgers(frame, pairs, READ, 0)
    [row] = answers.collect()
    assert (row["scope_id"], row["ledger_id"], row["version"], row["m"]) == (1, 2, 2**40, 2)
    [judged] = verdicts_of_judged(answers).collect()
    assert (judged["scope_id"], judged["class"]) == (1, "entry-lost")
    orphan_rows = orphans_of(spark, metadata, indexes)
    assert [(row["scope_id"], row["ledger_id"], row["bookie_id"]) for row in orphan_rows] == [(2, 2, "bk1")]
    bare = tables(spark)
    marks = add_scope_to_marks(spark.createDataFrame([(2,)], "ledger_id long"))
    [surplus] = find_over_replicated(
        answers, frame, marks, add_scope_to_marks(bare.locks.drop("scope_id")), bare.bookies
    ).collect()
    assert (surplus["scope_id"], surplus["bookie_id"], surplus["marked"]) == (1, "bk3", False)


HOLE = {"status": "gap", "undecidable": True, "path": "/r/00", "damage": "refused", "low": 0, "high": 9}


def test_orphans_explained_by_a_gap_have_the_reason(spark: SparkSession) -> None:
    indexes = [index(5, "bk1", {0}), index(50, "bk1", {0}), index(5, "bk1", {0}, scope_id=1)]
    scoped = orphans_of(spark, [{**HOLE, "scope_id": 1}], indexes)
    why = "/r/00: refused"
    assert [(row["scope_id"], row["ledger_id"], row["doubt"]) for row in scoped] == [
        (0, 5, None), (0, 50, None), (1, 5, why),
    ]  # fmt: skip
    anywhere = orphans_of(spark, [HOLE], indexes)  # nobody knows of which scope it is
    assert [row["doubt"] for row in anywhere] == [why, None, why]


def test_orphan_in_gap_of_second_scan_has_a_doubt(spark: SparkSession) -> None:
    metadata = [ledger(id, {"bk1": {0}}) for id in (5, 50)]
    indexes = [index(id, "bk1", {0}) for id in (5, 50)]
    orphan_rows = orphans_of(spark, metadata, indexes, again=[HOLE])
    assert [(row["ledger_id"], row["in_m0"], row["doubt"]) for row in orphan_rows] == [
        (5, True, "/r/00: refused"), (50, True, None),
    ]  # fmt: skip
    # What the first scan could not list, and the second did not either, is the second's matter.
    orphan_rows = orphans_of(spark, [HOLE, *metadata], indexes, again=[])
    assert [row["doubt"] for row in orphan_rows] == [None, None]


def test_orphan_with_id_only_in_malformed_name_is_in_doubt(spark: SparkSession) -> None:
    stray = {"status": "misplaced", "ledger_id": 5, "path": "/r/00/0000/X5"}
    orphan_rows = orphans_of(spark, [stray], [index(id, "bk1", {0}) for id in (5, 6)])
    assert [row["doubt"] for row in orphan_rows] == ["/r/00/0000/X5: not at the path of a ledger", None]


def test_marks_of_new_ledgers_are_matched_by_scope(spark: SparkSession) -> None:
    marks = add_scope_to_marks(spark.createDataFrame([(1,), (2,)], "ledger_id long"))
    first = ledgers(spark, ledger(1, {"bk1": {0}}))
    second = ledgers(spark, ledger(1, {"bk1": {0}}), ledger(2, {"bk1": {0}}, scope_id=1))
    assert [
        row["ledger_id"]
        for row in marks_of_first_scan(marks, find_moves(first, second)).orderBy("ledger_id").collect()
    ] == [1, 2]
    second = ledgers(spark, ledger(1, {"bk1": {0}}), ledger(2, {"bk1": {0}}))
    assert [row["ledger_id"] for row in marks_of_first_scan(marks, find_moves(first, second)).collect()] == [
        1
    ]


def test_entries_in_cut_index_are_held_and_other_entries_unknown(spark: SparkSession) -> None:
    replicas = {"bk1": {0, 1, 2}, "bk2": {0, 1, 2}}
    metadata = [ledger(1, replicas), ledger(2, replicas)]
    indexes = [
        index(1, "bk1", {0, 1, 2}, state="cut"),
        index(1, "bk2", {0, 1, 2}),
        index(2, "bk1", {0}, state="cut"),
        index(2, "bk2", {0, 1}),
    ]
    rows = judged_of(spark, metadata, indexes)
    whole, part = rows[0, 1], rows[0, 2]
    assert (whole["m"], whole["mu"], whole["unknown"]) == (0, 0, [])
    assert (part["m"], part["mu"]) == (1, 2)
    assert [(u["bookie_id"], u["count"], u["why"]) for u in part["unknown"]] == [("bk1", 2, "unreadable")]
    assert [(entry["bookie_id"], unpack(entry["groups"])) for entry in part["missing"]] == [("bk2", {2})]


def test_limbo_copies_are_unknown_and_surplus_entries_are_still_found(spark: SparkSession) -> None:
    replicas = {"bk1": {0, 1, 2}, "bk2": {0, 1, 2}}
    indexes = [index(1, "bk1", {0, 1, 2, 7}, state="limbo"), index(1, "bk2", {0, 1, 2})]
    row = judged_of(spark, [ledger(1, replicas)], indexes)[0, 1]
    assert (row["m"], row["mu"], row["missing"]) == (0, 1, [])
    assert [(u["bookie_id"], u["count"], u["why"]) for u in row["unknown"]] == [("bk1", 3, "limbo")]
    assert [(entry["bookie_id"], unpack(entry["groups"])) for entry in row["surplus"]] == [("bk1", {7})]


def test_open_ledger_has_no_lagging_member_in_limbo(spark: SparkSession) -> None:
    """The data integrity check puts such ledgers into limbo: open, with the bookie in the last ensemble."""
    open_ledger = ledger(
        1,
        {"bk1": {0, 1}, "bk2": {0, 1}},
        state="OPEN",
        last_entry_id=-1,
        ack_quorum=1,
        segments=[
            {"first_entry_id": 0, "ensemble": ["bk1", "bk2"]},
            {"first_entry_id": 2, "ensemble": ["bk2", "bk1"]},
        ],
    )
    ahead = index(1, "bk2", {0, 1, 2, 3})
    rows = judged_of(spark, [open_ledger], [ahead, index(1, "bk1", {0, 1}, state="limbo")])
    assert rows[0, 1]["lagging"] == []
    rows = judged_of(spark, [open_ledger], [ahead, index(1, "bk1", {0, 1})])
    assert [entry["bookie_id"] for entry in rows[0, 1]["lagging"]] == ["bk1"]


def test_bookie_answer_for_open_ledger_is_complete_if_disks_were_partly_read(spark: SparkSession) -> None:
    segments = [
        {"first_entry_id": 0, "ensemble": ["bk1", "bk2"]},
        {"first_entry_id": 2, "ensemble": ["bk2", "bk1"]},
    ]
    replicas = {"bk1": {0, 1}, "bk2": {0, 1}}
    end = {"state": "OPEN", "last_entry_id": -1, "ack_quorum": 1, "segments": segments}
    metadata = [ledger(1, replicas, **end), ledger(2, replicas, **end), ledger(3, replicas)]
    answers = [index(number, "bk1", {0, 1}, answered=SCAN) for number in (1, 3)]
    indexes = [index(2, "bk1", {0, 1})]
    indexes += [index(number, "bk2", {0, 1, 2}) for number in (1, 2)] + [index(3, "bk2", {0, 1})]
    pairs = pairs_of(spark, metadata, indexes, answers, BookieTrust(part_read_bookies=frozenset({"bk1"})))
    same = pairs.where("expected <=> held").collect()
    assert [(row["ledger_id"], row["bookie_id"]) for row in same] == [(1, "bk1")]
    states = READ | {"bk1": BookieState("partial", index_time=SCAN)}
    judged = judge_ledgers(ledgers(spark, *metadata), pairs, states, 0).collect()
    lagging = {
        row["ledger_id"]: [(e["bookie_id"], unpack(e["groups"])) for e in row["lagging"]] for row in judged
    }
    assert lagging == {1: [("bk1", {2})], 2: []}


def test_copies_of_unindexed_ledger_are_unknown(spark: SparkSession) -> None:
    replicas = {"bk1": {0, 1}, "bk2": {0, 1}}
    metadata = [ledger(1, replicas), ledger(2, {"bk2": {0, 1}})]
    indexes = [
        index(1, "bk1", {0, 1, 9}, state="not-indexed"),  # 9 lies past the end
        index(1, "bk2", {0, 1}),
        index(2, "bk1", {0, 1}, state="not-indexed"),  # in no ensemble
        index(2, "bk2", {0, 1}),
        index(3, "bk1", {0}, state="not-indexed"),  # in no metadata
    ]
    rows = judged_of(spark, metadata, indexes)
    member_row, elsewhere = rows[0, 1], rows[0, 2]
    assert (member_row["m"], member_row["mu"], member_row["surplus"], member_row["stale"]) == (0, 1, [], [])
    assert [(u["bookie_id"], u["count"], u["why"]) for u in member_row["unknown"]] == [
        ("bk1", 2, "not-indexed")
    ]
    assert (elsewhere["foreign"], elsewhere["unknown"]) == ([], [])
    assert orphans_of(spark, metadata, indexes) == []
    deleted = orphans_of(spark, metadata, indexes, again=[])
    assert [(row["ledger_id"], row["bookie_id"]) for row in deleted] == [(1, "bk2"), (2, "bk2")]
    orphan_rows = orphans(pairs_of(spark, metadata, indexes), availability(spark, *indexes),
                   ledgers(spark, *metadata), None, None, SCAN, {})  # fmt: skip
    [counted] = count_holdings(counts_of(spark, indexes), orphan_rows).collect()
    assert (counted["bookie_id"], counted["ledgers"], counted["orphans"]) == ("bk2", 2, 0)


def test_a_ledger_in_limbo_without_metadata_is_an_orphan(spark: SparkSession) -> None:
    """Limbo means that entries may be missing; the collector treats the ledger like any other."""
    indexes = [index(7, "bk1", {0}, state="limbo")]
    [row] = orphans_of(spark, [], indexes)
    assert (row["ledger_id"], unpack(row["groups"])) == (7, {0})
    [counted] = count_holdings(counts_of(spark, indexes), _frame_of(spark, indexes)).collect()
    assert (counted["ledgers"], counted["orphans"]) == (1, 1)


def test_orphans_without_doubt_in_two_runs_are_lasting(spark: SparkSession) -> None:
    columns = "bookie_id string, scope_id long, ledger_id long, doubt string"
    flags = {"in_m0": F.lit(False), "newer_than_scan": F.lit(False)}
    current_rows = [
        ("bk1", 0, 1, None),
        ("bk1", 0, 2, "cut"),
        ("bk1", 0, 3, None),
        ("bk1", 1, 4, None),
        ("bk2", 0, 1, None),
    ]
    then = [
        ("bk1", 0, 1, "cut"),
        ("bk1", 0, 2, None),
        ("bk1", 0, 4, None),
        ("bk1", 1, 4, None),
        ("bk3", 0, 1, None),
    ]
    indexes = [index(number, name, {0}) for number in range(5) for name in ("bk1", "bk2", "bk3")]
    held_now, orphan_frame = (
        counts_of(spark, indexes),
        spark.createDataFrame(current_rows, columns).withColumns(flags),
    )
    counted = count_holdings(held_now, orphan_frame, spark.createDataFrame(then, columns)).collect()
    assert {row["bookie_id"]: (row["orphans"], row["in_doubt"], row["lasting"]) for row in counted} == {
        "bk1": (4, 1, 2),
        "bk2": (1, 0, 0),
        "bk3": (0, 0, 0),
    }
    assert {row["lasting"] for row in count_holdings(held_now, orphan_frame).collect()} == {0}


def test_recently_listed_or_issued_orphans_are_counted_as_recent(spark: SparkSession) -> None:
    columns = "bookie_id string, scope_id long, ledger_id long, doubt string"
    ids = [(0, 1, None), (0, 2, None), (0, 5, None), (0, 6, "cut"), (0, 9, None), (1, 5, None)]
    orphan_frame = spark.createDataFrame([("bk1", *id_row) for id_row in ids], columns)
    orphan_frame = orphan_frame.withColumns({"in_m0": F.lit(False), "newer_than_scan": F.lit(False)})
    held_now = counts_of(spark, [index(number, "bk1", {0}) for number in range(10)])
    listed = spark.createDataFrame([(0, 1), (0, 3)], "scope_id long, ledger_id long")

    def recent(lately: RecentIds) -> int:
        [row] = count_holdings(held_now, orphan_frame, None, lately).collect()
        assert (row["orphans"], row["in_doubt"], row["lasting"]) == (6, 1, 0)
        count: int = row["recent"]
        return count

    assert recent(RecentIds()) == 0
    assert recent(RecentIds(listed)) == 1
    # 6 is in doubt, 9 was not given out yet, and other scopes have no generator.
    assert recent(RecentIds(listed, (5, 9))) == 2
    assert recent(RecentIds(None, (0, 9))) == 3


def test_range_with_mostly_recent_ids_has_not_vanished(spark: SparkSession) -> None:
    index_rows = [index(number, "bk1", {0}) for number in range(150)]
    frame = availability(spark, *index_rows)
    lost = orphans(pairs_of(spark, [], index_rows), frame, ledgers(spark), None, None, SCAN, {})
    assert find_vanished_ranges(frame, lost, RecentIds(None, (99, 1000))).collect() == []
    [row] = find_vanished_ranges(frame, lost, RecentIds(None, (100, 1000))).collect()
    assert row["ledgers"] == 150


@pytest.mark.parametrize(
    ("ctimes", "begun", "following", "drawn"),
    [
        # Ledgers 10, 20 ... of these times; the interval begins at 100.
        ([50, 60, 150, 160], 1, 41, (30, 41)),
        ([50, 150, 60, 160], 1, 41, (40, 41)),  # a small one was chosen by hand
        ([150, 160], 1, 21, (10, 21)),  # nothing says more of a store that lists no older one
        ([150, 160], 120, 21, (0, 21)),  # the store itself is younger
        ([50, 60], 1, 21, None),
        ([50, 150], 1, 20, None),  # a tree that was copied: its generator is behind
        ([], 120, 21, None),
    ],
)
def test_recently_issued_ids_are_above_all_older_ids(
    spark: SparkSession, ctimes: list[int], begun: int, following: int, drawn: tuple[int, int] | None
) -> None:
    rows = [ledger(10 * (n + 1), {"bk1": {0}}, ctime=ctime) for n, ctime in enumerate(ctimes)]
    ids = IdRange(0, 2**63 - 1, following)
    assert ids_issued_since(ledgers(spark, *rows), ids, begun, 100) == drawn
    gap: Row = {"status": "gap", "path": "00"}
    assert ids_issued_since(ledgers(spark, *rows, gap), ids, begun, 100) is None


def _frame_of(spark: SparkSession, indexes: list[Row]) -> DataFrame:
    rows = availability(spark, *indexes)
    return orphans(pairs_of(spark, [], indexes), rows, ledgers(spark), None, None, SCAN, {})


def test_vanished_ranges_are_found_by_scope(spark: SparkSession) -> None:
    live_rows = [index(n, "bk1", {0}) for n in range(100)]
    orphan_rows = [index(n, "bk1", {0}, scope_id=1) for n in range(100)]
    metadata = [ledger(n, {"bk1": {0}}) for n in range(100)]
    frame = availability(spark, *live_rows, *orphan_rows)
    lost = orphans(
        pairs_of(spark, metadata, [*live_rows, *orphan_rows]),
        frame,
        ledgers(spark, *metadata),
        None,
        None,
        SCAN,
        {},
    )
    [row] = find_vanished_ranges(frame, lost).collect()
    assert (row["bookie_id"], row["scope_id"], row["low"], row["ledgers"]) == ("bk1", 1, 0, 100)


@pytest.mark.parametrize(
    ("first", "low", "high"),
    [
        pytest.param(-100, -10_000, -1, id="below zero"),
        pytest.param(-(2**63), -(2**63), -(2**63) + 5_807, id="the least ids"),
        pytest.param(2**63 - 100, 2**63 - 5_808, 2**63 - 1, id="the greatest ids"),
    ],
)
def test_vanished_range_ends_at_zero_and_at_id_limits(
    spark: SparkSession, first: int, low: int, high: int
) -> None:
    orphan_rows = [index(first + n, "bk1", {0}, scope_id=-1) for n in range(100)]
    near = [index(n, "bk1", {0}, scope_id=-1) for n in (0, -10_001)]
    metadata = [ledger(row["ledger_id"], {"bk1": {0}}, scope_id=-1) for row in near]
    frame = availability(spark, *orphan_rows, *near)
    lost = orphans(
        pairs_of(spark, metadata, [*orphan_rows, *near]),
        frame,
        ledgers(spark, *metadata),
        None,
        None,
        SCAN,
        {},
    )
    [row] = find_vanished_ranges(frame, lost).collect()
    assert (row["scope_id"], row["low"], row["high"], row["ledgers"]) == (-1, low, high, 100)


def test_bookie_that_answers_with_no_entries_holds_no_orphan(spark: SparkSession) -> None:
    metadata = [ledger(1, {"bk1": {0}, "bk2": {0}})]
    indexes = [index(1, "bk1", storage="rpc", answered=5), index(1, "bk2", {0}, storage="rpc", answered=5)]
    assert [row["bookie_id"] for row in orphans_of(spark, metadata, indexes, again=[])] == ["bk2"]


@pytest.mark.parametrize(
    ("index_time", "doubted"),
    [
        pytest.param(SCAN, [], id="an index as old as the scan"),
        pytest.param(SCAN + 1, [11], id="a newer index"),
        pytest.param(None, [11], id="an index of no known time"),
    ],
)
def test_an_orphan_of_a_rocksdb_index_may_be_younger_than_a_saved_scan(
    spark: SparkSession, index_time: int | None, doubted: list[int]
) -> None:
    metadata = [ledger(10, {"bk1": {0}}), ledger(99, {"bk1": {0}}, scope_id=1)]
    indexes = [index(n, "bk1", {0}, storage="rocksdb") for n in (3, 10, 11)]
    indexes += [index(99, "bk1", {0}, storage="rocksdb", scope_id=1), index(12, "bk1", {0})]
    orphan_rows = orphans_of(spark, metadata, indexes, index_times={"bk1": index_time})
    assert [row["ledger_id"] for row in orphan_rows] == [3, 11, 12]
    assert [row["ledger_id"] for row in orphan_rows if row["newer_than_scan"]] == doubted
    # A live store is scanned after the bookies are read.
    live = orphans_of(spark, metadata, indexes, again=metadata, index_times={"bk1": index_time})
    assert not any(row["newer_than_scan"] for row in live)


def test_every_orphan_may_be_younger_than_an_empty_scan(spark: SparkSession) -> None:
    rows = [index(0, "bk1", {0}, storage="rocksdb"), index(-9, "bk1", {0}, storage="rocksdb", scope_id=1)]
    orphan_rows = orphans_of(spark, [], rows, index_times={"bk1": None})
    assert [row["newer_than_scan"] for row in orphan_rows] == [True, True]


def test_listing_is_dated_by_its_answer_and_does_not_prove_absence(spark: SparkSession) -> None:
    metadata = [ledger(1, {"bk1": {0, 1}}, mtime=SCAN + 5)]
    [late] = judged_of(spark, metadata, [index(1, "bk1", {0})]).values()
    assert late["doubts"] == [
        "the index of bk1 was written shortly after the ledger changed, so it may lack the last entries"
    ]
    listing = index(1, "bk1", {0}, storage="rpc", answered=SCAN + 9)
    [answered] = judged_of(spark, metadata, [listing]).values()
    doubts = ["a listing from bk1 proves which entries exist, but not that other entries are missing"]
    assert (answered["m"], answered["doubts"]) == (1, doubts)


def test_store_without_times_adds_no_doubt(spark: SparkSession) -> None:
    [row] = judged_of(
        spark, [ledger(1, {"bk1": {0, 1}}, mtime=None, ctime=None)], [index(1, "bk1", {0})]
    ).values()
    assert (row["m"], row["mtime"], row["doubts"]) == (1, None, [])


def test_recent_and_owned_orphans_are_not_unexplained(spark: SparkSession) -> None:
    columns = "bookie_id string, scope_id long, ledger_id long, in_m0 boolean, newer_than_scan boolean"
    rows = [("bk1", 0, 1, False, False), ("bk1", 0, 2, True, False), ("bk1", 0, 3, False, True)]
    rows += [("bk1", 0, number, False, False) for number in (4, 5, 6)]
    orphan_rows = spark.createDataFrame(rows, columns).withColumn("doubt", F.lit(None).cast("string"))
    counts = counts_of(spark, [index(number, "bk1", {0}) for number in range(10)])
    listed = spark.createDataFrame([(0, 4)], "scope_id long, ledger_id long")
    owned = spark.createDataFrame([(0, 1), (0, 9)], "scope_id long, ledger_id long")

    def unexplained(lately: RecentIds | None = None, owners: DataFrame | None = None) -> int:
        [row] = count_holdings(counts, orphan_rows, None, lately, owners).collect()
        number: int = row["unexplained"]
        return number

    assert unexplained() == 4
    assert unexplained(RecentIds(listed)) == 3
    assert unexplained(None, owned) == 1  # the owner still names ledger 1 alone
