"""The ids in use that are at or above the next id of the id generators."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from auditor.model.ledger_id import LayoutKind
from auditor.tables.cluster_state import IdRange, find_id_ranges
from auditor.tables.id_generators import id_generators
from tests.tables.test_id_generator import nodes

LEDGERS = "scope_id long, ledger_id long, status string, ctime long, custom_metadata map<string, binary>"
UNDRAWN = "bookie_id string, undrawn long, highest long"
PULSAR = {"application": bytearray(b"pulsar")}
SCAN_TIME = 1_000
MAX_ID = 2**63 - 1


def generators(
    spark: SparkSession,
    listed: list[Any],
    held_rows: list[Any],
    ids: tuple[IdRange, ...] = (IdRange(0, MAX_ID, 70),),
    layout: LayoutKind = LayoutKind.HIERARCHICAL,
) -> list[dict[str, Any]]:
    ledgers, undrawn = spark.createDataFrame(listed, LEDGERS), spark.createDataFrame(held_rows, UNDRAWN)
    return [row.asDict() for row in id_generators(ledgers, undrawn, ids, layout, SCAN_TIME).collect()]


def test_ids_at_or_above_next_generated_id_are_counted(spark: SparkSession) -> None:
    listed = [
        (0, 69, "ok", 5, PULSAR),
        (0, 70, "ok", 5, None),
        (0, 90, "unreadable", None, None),  # a store without times
        (0, 91, "ok", 5, PULSAR),
        (0, 92, "ok", SCAN_TIME, PULSAR),  # created while the store was read
        (0, 93, "misplaced", 5, PULSAR),
        (1, 94, "ok", 5, PULSAR),  # of a scope without a generator
        (0, 2**31, "ok", 5, None),  # no short generator gives this out
    ]
    [row] = generators(spark, listed, [("a", 2, 80), ("b", 5, 75)])
    assert row == {
        "low": 0, "high": 2**31 - 1, "next": 70, "listed": 3, "listed_highest": 91, "drawn": 1, "chosen": 1,
        "held": 5, "held_highest": 80,
    }  # fmt: skip


def test_generator_beyond_31_bits_covers_the_whole_id_range(spark: SparkSession) -> None:
    ids = (IdRange(0, MAX_ID, 2 << 32 | 3),)
    [row] = generators(spark, [(0, 2 << 32 | 9, "ok", 5, None), (0, 2**31, "ok", 5, None)], [], ids)
    assert (row["high"], row["listed"], row["chosen"]) == (MAX_ID, 1, 0)


def test_every_bucket_of_etcd_is_a_generator(spark: SparkSession) -> None:
    ids = find_id_ranges(nodes(buckets__003=2), LayoutKind.ETCD)
    rows = generators(
        spark, [(0, (3 << 56) + 3, "ok", None, None)], [("a", 1, (5 << 56) + 1)], ids, LayoutKind.ETCD
    )
    assert len(rows) == 128
    assert [row["low"] >> 56 for row in rows if row["listed"] or row["held"]] == [3, 5]
