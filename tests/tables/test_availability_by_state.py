"""Index rows read by state: the rows are equal, and no table is read for a state that does not occur."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from auditor.tables.index_counts import IndexFileFacts, derive_facts, replicas_in_pieces, union_by_state
from tests.tables.rows import Row, availability, index

WHOLE = [index(number, "bk1", {0}, page_bytes=8192, path=f"/bk1/{number}") for number in range(9)]
SHORT = index(9, "bk1", {0, 1}, page_bytes=512, path="/bk1/9")
ODD = [
    index(10, "bk2", {2}, state="not-indexed", storage="rocksdb", reason="not listed"),
    index(11, "bk2", {3}, state="limbo", storage="rocksdb"),
    index(12, "bk2", state="unreadable", path="/bk2/12", reason="bad magic", offset=0),
    index(13, "bk3", {4}, state="cut", path="/bk3/13", page_bytes=8191, offset=9208),
    index(14, "bk3", {4}, path="/bk3/14", page_bytes=1024),
    index(15, "bk3", {4}, path="/bk3/15", page_bytes=100),
    index(None, "bk3", state="stray", path="/bk3/notes.txt"),
    index(None, "bk3", state="gap", path="/bk3/0", reason="not listed"),
    index(None, "bk2", state="damaged", path="/bk2/ledgers", reason="a log is missing"),
]


def shapes_of(rows: list[Row]) -> IndexFileFacts:
    lengths = [row.get("page_bytes") for row in rows]
    powers = [None if length is None else min(length & -length, 8192) for length in lengths]
    return derive_facts(
        (row["bookie_id"], row["state"], power, 1) for row, power in zip(rows, powers, strict=True)
    )


def as_cut(row: Row, shapes: IndexFileFacts) -> Row:
    """Return the row of an ok file that ends inside a page as the row of a cut file."""
    length, page = row.get("page_bytes"), shapes.page_size_by_bookie.get(row["bookie_id"], 512)
    if row["state"] != "ok" or length is None or length % page == 0:
        return row
    return {**row, "state": "cut", "reason": "the file ends inside a page", "offset": length + 1024}


def sorted_rows(frame: DataFrame) -> list[str]:
    return sorted(str(row.asDict()) for row in frame.collect())


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="nothing"),
        pytest.param(WHOLE, id="all is well"),
        pytest.param([*WHOLE, *ODD[:3]], id="damage and no file that ends inside a page"),
        pytest.param([*WHOLE, SHORT], id="one cut file"),
        pytest.param([*WHOLE, SHORT, *ODD], id="everything"),
    ],
)
def test_union_by_state_equals_rows_with_short_files_marked_cut(spark: SparkSession, rows: list[Row]) -> None:
    shapes, frame = shapes_of(rows), availability(spark, *rows)
    assert sorted_rows(union_by_state(frame, shapes)) == sorted_rows(
        availability(spark, *(as_cut(row, shapes) for row in rows))
    )


def test_filter_by_absent_state_reads_no_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = [*WHOLE, ODD[1]]
    availability(spark, *rows).write.parquet(str(tmp_path / "table"))
    frame = union_by_state(spark.read.parquet(str(tmp_path / "table")), shapes_of(rows))
    assert frame.where("state in ('cut', 'unreadable')").inputFiles() == []
    assert frame.where("state = 'not-indexed'").inputFiles() == []
    assert frame.where("state = 'limbo'").inputFiles() != []


def test_replica_of_bookie_with_split_index_is_one_row(spark: SparkSession) -> None:
    other_rows = [index(1, "bk2", {1}), index(None, "bk1", state="gap", path="/bk1")]
    rows = [*other_rows, index(1, "bk1", {0}, page_bytes=512), index(1, "bk1", {1}, page_bytes=8192)]
    shapes = IndexFileFacts({"bk1": 8192}, frozenset({"bk1"}), frozenset({"ok", "gap"}))
    frame = availability(spark, *rows)
    pieces = replicas_in_pieces(frame, shapes, ["bk1"])
    assert sorted(row["state"] for row in pieces.collect()) == ["cut", "ok"]
    whole = index(1, "bk1", {0, 1}, state="cut", page_bytes=512)
    union = union_by_state(frame, shapes, availability(spark, whole), ["bk1"])
    assert sorted_rows(union) == sorted_rows(availability(spark, *other_rows, whole))
