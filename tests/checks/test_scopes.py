"""Findings name the scope of their ledger, and never merge two ledgers with the same id."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from auditor.checks.bookie_down import bookie_down
from auditor.checks.entry_lost import entry_lost
from auditor.checks.ledger_not_indexed import ledger_not_indexed
from auditor.checks.orphan_ledger import orphan_ledger
from auditor.findings.confirm import confirm
from auditor.findings.table import (
    CHECK_RESULT_SCHEMA,
    FINDINGS_SCHEMA,
    add_fingerprints,
    ask_roster_checks,
    ask_table_checks,
)
from auditor.tables.scans import find_moves
from tests.checks.tables_builder import INSTANCE, entries, find, ledger, packed, places, tables
from tests.findings.fingerprint import fingerprint


def test_finding_has_the_scope_of_its_ledger(spark: SparkSession) -> None:
    first = {
        "last_entry_id": 0,
        "missing": [entries("bk1", (0, 0, 1, 0))],
        "class_entries": packed((0, 0, 1, 0)),
    }
    cluster_tables = tables(
        spark,
        judged=[
            {"ledger_id": 2, "m": 1, "mu": 1, **first},
            {"scope_id": 1, "ledger_id": 2, "m": 3, "mu": 3, **first},
        ],
        verdicts=[
            {"ledger_id": 2, "class": "below-write-quorum", "potential_class": "below-write-quorum"},
            {"scope_id": 1, "ledger_id": 2, "class": "entry-lost", "potential_class": "entry-lost"},
        ],
    )
    [lost] = find("entry-lost", cluster_tables)
    [below] = find("below-write-quorum", cluster_tables)
    assert (lost.scope_id, below.scope_id) == (1, 0)
    assert lost.message.startswith("ledger 2 of scope 1: 1 of 1 entries has no copy left (write quorum 3)")
    assert below.message.startswith("ledger 2: 1 of 1 entries has fewer copies than the write quorum of 3")


def test_every_finding_row_has_its_scope_and_qualified_name(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk1", "registered": None}],
        orphans=[{"bookie_id": "bk1", "ledger_id": 2}, {"bookie_id": "bk1", "scope_id": 1, "ledger_id": 2}],
    )
    down = ask_roster_checks([bookie_down], cluster_tables.roster)
    bookie_rows = spark.createDataFrame(pa.Table.from_pylist(down, schema=CHECK_RESULT_SCHEMA))
    table = add_fingerprints(
        ask_table_checks([orphan_ledger], cluster_tables).unionByName(bookie_rows), INSTANCE
    )
    assert table.columns == FINDINGS_SCHEMA.names
    rows = table.collect()
    qualified_names = {(row["scope_id"], row["ledger_id"], row["ledger_qualified_name"]) for row in rows}
    assert qualified_names == {
        (None, None, None),
        (0, 2, "00000000000000000000000000000002"),
        (1, 2, "00000000000000010000000000000002"),
    }
    assert [(row["id"], row["scope_id"], row["ledger_id"], row["fingerprint"]) for row in rows] == [
        (id, scope, number, fingerprint(id, INSTANCE, scope, number, "bk1"))
        for id, scope, number in [
            ("bookie-down", None, None),
            ("orphan-ledger", 0, 2),
            ("orphan-ledger", 1, 2),
        ]
    ]


def test_marks_belong_to_scope_0(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": "bk1"}],
        ledgers=[ledger(2, "bk1", scope_id=1)],
        verdicts=[{"scope_id": 1, "ledger_id": 2}],
        marks=[{"ledger_id": 2, "replicas": ["bk1"], "ctime": 0}],
    )
    assert find("mark-stale", cluster_tables) == []
    assert places(find("mark-of-deleted-ledger", cluster_tables)) == [(None, "bk1")]


def test_ledger_changed_between_the_scans_is_suspect_only_in_its_scope(spark: SparkSession) -> None:
    cluster_tables = tables(
        spark,
        judged=[{"scope_id": scope, "ledger_id": 2, "m": 3, "mu": 3} for scope in (0, 1, 2)],
        verdicts=[
            {"scope_id": scope, "ledger_id": 2, "class": "entry-lost", "potential_class": "entry-lost"}
            for scope in (0, 1, 2)
        ],
        availability=[
            {"scope_id": scope, "ledger_id": 2, "bookie_id": "bk1", "state": "not-indexed"}
            for scope in (1, 2)
        ],
        ledgers=[ledger(2, "bk1", scope_id=scope, version=2**40) for scope in (0, 1, 2)],
    )
    again = tables(
        spark,
        ledgers=[
            ledger(2, "bk1", scope_id=0, version=2**40 + 1),
            ledger(2, "bk1", scope_id=2, version=2**40),
        ],  # that of scope 1 was deleted
    ).ledgers
    rows = confirm(
        ask_table_checks([entry_lost, ledger_not_indexed], cluster_tables),
        find_moves(cluster_tables.ledgers, again),
    ).collect()
    assert {(row["id"], row["scope_id"], row["confidence"]) for row in rows} == {
        ("entry-lost", 0, "suspect"),
        ("entry-lost", 2, "confirmed"),
        ("ledger-not-indexed", 2, "confirmed"),
    }
