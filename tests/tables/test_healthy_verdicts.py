"""What tasks say of ledgers that nothing is missing of is what the query of verdicts says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.tables.healthy_verdicts import verdicts_in_files
from auditor.tables.judged import JUDGED
from auditor.tables.verdicts import VERDICTS, verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def ledgers() -> list[dict[str, Any]]:
    """Every status with every state, decided or not, and ids that two scopes or two znodes have."""
    rows = [
        {"status": status, "state": state, "undecidable": undecidable, "write_quorum": 2, "ack_quorum": 2}
        for status in ("ok", "broken", "unreadable", "misplaced", "gap")
        for state in ("CLOSED", "OPEN", "IN_RECOVERY", None)
        for undecidable in (False, True, None)
    ]
    numbered = [{**row, "ledger_id": number // 3, "scope_id": number % 2} for number, row in enumerate(rows)]
    return [*numbered, {**rows[0], "ledger_id": None, "scope_id": None}]


def judged() -> list[dict[str, Any]]:
    unknown = [{"bookie_id": "a:1", "count": 1, "why": "unread"}]
    return [
        {"scope_id": 0, "ledger_id": 0, "m": 1, "mu": 1, "doubts": ["late"], "unknown": []},
        {"scope_id": 1, "ledger_id": 2, "m": 0, "mu": 2, "doubts": [], "unknown": unknown},
        {"scope_id": 0, "ledger_id": 4, "m": 2, "mu": 2, "doubts": [], "unknown": []},
        {"scope_id": 7, "ledger_id": 1, "m": 2, "mu": 2, "doubts": [], "unknown": []},
    ]


def write(rows: list[dict[str, Any]], schema: pa.Schema, place: Path) -> Path:
    place.mkdir()
    table = pa.Table.from_pylist(rows, schema.remove_metadata())
    pq.write_table(table, place / "part-0.parquet", row_group_size=7)
    return place


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(row.asDict()) for row in frame.collect())


def test_both_ways_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    pairs = write(judged(), JUDGED, tmp_path / "judged")
    every = write(ledgers(), LEDGERS, tmp_path / "ledgers")
    frame, sure = spark.read.parquet(str(every)), spark.read.parquet(str(pairs))
    usual = verdicts(frame, sure)
    keys = ["scope_id", "ledger_id"]
    of_pairs = verdicts(frame.join(sure.select(*keys), keys, "left_semi"), sure)
    others = write(of_pairs.toArrow().to_pylist(), VERDICTS, tmp_path / "others")
    table = verdicts_in_files(spark, every, pairs, others)
    assert table.schema == from_arrow_schema(VERDICTS)
    table.write(str(tmp_path / "verdicts"))
    made = spark.read.parquet(str(tmp_path / "verdicts"))
    assert rows_of(made) == rows_of(usual)
    assert {row["class"] for row in made.collect()} >= {"healthy", "not-closed", "undecided", "entry-lost"}
    assert [(each.name, each.dataType) for each in made.schema] == [
        (each.name, each.dataType) for each in usual.schema
    ]
