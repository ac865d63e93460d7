"""Copies of ledgers in a bucket, found by every inventory format and by the contexts in topics' lists."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.audit.offload_scan import check_inventory, inventory_rows
from auditor.errors import UsageError
from auditor.sources.owners.applications import OWNERS
from auditor.tables.offload_objects import offload_objects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR = 3_600_000
UIDS = [f"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4be{digit}" for digit in range(10)]
PATH = "/managed-ledgers/shop/orders/persistent/returns"


def context(id: int, state: str, hours: int | None, **values: Any) -> dict[str, Any]:
    """Return a ledger of the topic's list, offloaded this many hours after time 0."""
    time = None if hours is None else hours * HOUR
    usual = {
        "application": "pulsar", "status": "ok", "path": PATH, "tenant": "shop", "namespace": "orders",
        "topic": "returns", "kind": "data", "ledger_id": id, "offload": state, "offload_uid": UIDS[id],
        "offload_time": time, "borrowed": False,
    }  # fmt: skip
    return {**usual, **values}


CONTEXTS = [
    context(0, "deleted", 90),  # whole
    context(1, "deleted", 10),  # neither object, long ago
    context(2, "complete", 10),  # no index
    context(3, "complete", 89),  # no data, and perhaps too new for the listing
    context(4, "incomplete", 10),  # leftovers of an attempt: it has a context
    context(5, "complete", None),  # nothing, at an unknown time
    context(0, "deleted", 90, path=f"{PATH}-shadow", topic="shadow", borrowed=True),
]
OBJECTS = [
    (f"offload/{UIDS[0]}-ledger-0", 600),
    (f"offload/{UIDS[0]}-ledger-0-index", 100),
    (f"{UIDS[2].upper()}-ledger-2", 50),
    (f"{UIDS[3]}-ledger-3-index", 50),
    (f"{UIDS[4]}-ledger-4", 5),
    (f"{UIDS[6]}-ledger-6", 30),
    (f"{UIDS[6]}-ledger-6-index", 3),
    (f"{UIDS[0]}-ledger-7", 30),  # the UUID of another ledger
    (f"{UIDS[8]}-index", 9),  # of a streaming offload
    ("readme.txt", 9),
    (f"{UIDS[9]}-ledger-99999999999999999999", 9),
]
LATE = "the listing may be older than the copy"
EXPECTED = {
    0: (None, None, 2, 700),
    1: ("offload-object-missing", None, 0, 0),
    2: ("offload-object-missing", None, 1, 50),
    3: ("offload-object-missing", LATE, 1, 50),
    4: (None, None, 1, 5),
    5: ("offload-object-missing", LATE, 0, 0),
    6: ("object-orphan", None, 2, 33),
    7: ("object-orphan", None, 1, 30),
}


def owners(spark: SparkSession, *extra_rows: dict[str, Any]) -> DataFrame:
    rows = [tuple(row.get(name) for name in OWNERS.names) for row in (*CONTEXTS, *extra_rows)]
    return spark.createDataFrame(rows, from_arrow_schema(OWNERS))


def judge_objects(
    spark: SparkSession, listing: DataFrame, *extra_rows: dict[str, Any]
) -> dict[int, tuple[Any, ...]]:
    rows = offload_objects(listing, owners(spark, *extra_rows), 2 * HOUR).collect()
    assert len(rows) == len({row["ledger_id"] for row in rows})
    return {row["ledger_id"]: (row["fault"], row["why"], row["objects"], row["bytes"]) for row in rows}


def csv(head: str | None, line: str) -> str:
    lines = [line.format(name=name, size=size) for name, size in OBJECTS]
    return "\n".join([*([head] if head else []), *lines]) + "\n"


def parquet(path: Path) -> None:
    names, sizes = zip(*OBJECTS, strict=True)
    pq.write_table(pa.table({"bucket": ["b"] * len(names), "Key": names, "Size": sizes}), path)


@pytest.mark.parametrize("form", ["header", "inventory", "two", "packed", "parquet"])
def test_every_inventory_format_gives_expected_offload_rows(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    path = tmp_path / ("list.parquet" if form == "parquet" else "list.csv")
    if form == "header":
        path.write_text(csv("bucket,name,bytes", "b,{name},{size}"))
    elif form == "inventory":
        path.write_text(csv(None, '"b","{name}","{size}","2026-11-22T00:00:00.000Z"'))
    elif form == "two":
        path.write_text(csv(None, "{name},{size}"))
    elif form == "packed":
        path = tmp_path / "list.csv.gz"
        path.write_bytes(gzip.compress(csv("key,size", "{name},{size}").encode()))
    else:
        parquet(path)
    assert judge_objects(spark, inventory_rows(spark, str(path))) == EXPECTED


def test_unreadable_topic_list_may_name_any_orphan_object(spark: SparkSession) -> None:
    listing = spark.createDataFrame(OBJECTS, "name string, bytes bigint")
    unread = {"status": "unreadable", "path": f"{PATH}2", "damage": "cut"}
    results = judge_objects(spark, listing, unread)
    assert results[6] == ("object-orphan", f"{PATH}2: cut", 2, 33)
    assert results[1] == EXPECTED[1], "what is missing from the bucket is missing all the same"


def test_empty_listing_leaves_missing_objects_unconfirmed(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "name string, bytes bigint")
    results = judge_objects(spark, empty)
    assert {fault for fault, *_ in results.values()} == {None, "offload-object-missing"}
    assert {why for fault, why, *_ in results.values() if fault} == {LATE}


def test_invalid_listing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        check_inventory(str(tmp_path / "nothing.csv"))
    (tmp_path / "one.csv").write_text("a\nb\n")
    with pytest.raises(UsageError, match="one column"):
        inventory_rows(spark, str(tmp_path / "one.csv"))
    pq.write_table(pa.table({"size": [1]}), tmp_path / "sizes.parquet")
    with pytest.raises(UsageError, match="no column is named name or key or object"):
        inventory_rows(spark, str(tmp_path / "sizes.parquet"))
