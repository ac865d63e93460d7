from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart, plan_parts
from auditor.spark.part_tables import PartTable
from tests.sources.bookie_corpora import unpack_bookies


def rows(planned: list[IndexPart]) -> list[tuple[Any, ...]]:
    """Return all rows of some parts, without stamps. Files get stamps only some time after a write."""
    batches = [batch.drop_columns(["stamp"]) for part in planned for batch in read_part(part)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_spark_rows_equal_the_rows_of_the_parts(spark: SparkSession, tmp_path: Path) -> None:
    place = unpack_bookies("interleaved-hier", tmp_path) / "127.0.101.3_3181"
    directories = [
        IndexDirectory.from_version(str(place / name), (place / name / "current" / "VERSION").read_bytes())
        for name in ("ledgers0", "ledgers1")
    ]
    planned = plan_parts([("127.0.101.3:3181", directories)], part_count=3)
    table = PartTable.from_parts(spark, SCHEMA, read_part, planned).frame()
    expected = rows(planned)
    assert len(planned) == 3
    assert sorted(map(tuple, table.drop("stamp").collect())) == sorted(expected)
    assert table.columns == SCHEMA.names
    assert all(field.metadata["comment"] for field in table.schema)


def test_spark_reads_rocksdb_databases(spark: SparkSession, tmp_path: Path) -> None:
    place = unpack_bookies("dbledger-long", tmp_path) / "bk-a.rack1"
    directories = [
        IndexDirectory.from_version(
            str(place / name), (place / name / "current" / "VERSION").read_bytes(), ROCKSDB, position, 2
        )
        for position, name in enumerate(("ledgers0", "ledgers1"))
    ]
    planned = plan_parts([("bk-a.rack1", directories)], part_count=1)
    table = PartTable.from_parts(spark, SCHEMA, read_part, planned).frame()
    counted = table.groupBy("storage", "state").count().collect()
    # The disks were swapped: the second one is bk-b's, which lost a ledger from its index.
    assert sorted(map(tuple, counted)) == [("rocksdb", "not-indexed", 1), ("rocksdb", "ok", 39)]
