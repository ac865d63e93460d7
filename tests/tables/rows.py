"""Rows of a few tables, for the tests of their joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.wire import expand
from auditor.sources.bookies.part_rows import SCHEMA as AVAILABILITY
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.tables.judge_replicas import groups_of

Row = Mapping[str, Any]


def pack(entries: set[int]) -> bytes:
    """Encode entries as a table stores them."""
    ids = np.array(sorted(entries), np.int64)
    return fold_entries(ids, np.array([0, len(ids)], np.int64)).tobytes()


def unpack(groups: bytes | None) -> set[int]:
    return set(expand(groups_of(groups)).tolist())


def index(ledger_id: int | None, bookie_id: str, entries: set[int] | None = None, **values: Any) -> Row:
    """Return a row of availability: a whole index file of scope 0, unless ``values`` override that."""
    usual = {"scope_id": 0, "state": "ok", "storage": "idx", "groups": pack(entries or set())}
    return {**usual, "ledger_id": ledger_id, "bookie_id": bookie_id, **values}


def ledger(ledger_id: int, replicas: Mapping[str, set[int]], **values: Any) -> Row:
    """Return a closed ledger of scope 0 with these members, each expected to have these entries."""
    size = len(replicas)
    last = max((entry for entry_ids in replicas.values() for entry in entry_ids), default=-1)
    usual = {
        "scope_id": 0, "status": "ok", "state": "CLOSED", "undecidable": False, "version": 1, "mtime": 0,
        "ensemble_size": size, "write_quorum": size, "ack_quorum": size, "last_entry_id": last,
        "segments": [{"first_entry_id": 0, "ensemble": list(replicas)}],
        "replicas": [
            {"bookie_id": bookie, "groups": pack(entry_ids), "depends": True}
            for bookie, entry_ids in replicas.items()
        ],
    }  # fmt: skip
    return {**usual, "ledger_id": ledger_id, **values}


def availability(spark: SparkSession, *rows: Row) -> DataFrame:
    return _frame(spark, AVAILABILITY, rows)


def ledgers(spark: SparkSession, *rows: Row) -> DataFrame:
    return _frame(spark, LEDGERS, rows)


def _frame(spark: SparkSession, schema: pa.Schema, rows: Sequence[Row]) -> DataFrame:
    assert all(set(row) <= set(schema.names) for row in rows)
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    return spark.createDataFrame(table, from_arrow_schema(schema))
