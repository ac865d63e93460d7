"""Tables of a few rows. A test gives the columns that matter; the rest is that of a healthy cluster.

tables(spark, bookies=[{"bookie_id": "bk1"}], ledgers=[ledger(7, "bk1", "bk2")])
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from auditor.checks import CHECK_BY_ID, Check, RosterCheck, TableCheck
from auditor.checks.finding_rows import FALLBACK_MESSAGE
from auditor.model.collector_settings import CollectorSettings
from auditor.model.finding import Confidence
from auditor.tables import ClusterFacts, Roster, Tables
from auditor.tables.roster import ROSTER_TABLES
from auditor.tables.run_tables import OPTIONAL_TABLES, TABLES

HOUR = 3_600_000
NOW_MS = 1_000 * HOUR
INSTANCE = "a77a8e0d"
Row = Mapping[str, Any]

# Tables that are made of landed ones while checks are asked, and lie in no run.
_DERIVED = {
    "unindexed": "scope_id long, ledger_id long, bookie_id string, groups binary, count long, served boolean",
    "empty_directories": "path string, ctime long",
    "over_replicated": """
        scope_id long, ledger_id long, bookie_id string, count long, behind_end long, state string,
        marked boolean, locked boolean, exposed boolean
    """,
}

BLANKS = (
    "ID", "BOOKIE", "FIRST", "LAST", "NEXT", "OLD", "NEW", "FILE", "INSTANCE", "JOURNALS", "LEDGERS",
    "PASSWORD", "ANY", "PATH", "DIR",
)  # fmt: skip
"""Words of a command that stand for something else; LAST is the last entry, NEXT one past it."""


def _schema(name: str) -> StructType | str:
    """Return the published columns of a table that checks read. Marks and locks also get a scope (0)."""
    if name in _DERIVED:
        return _DERIVED[name]
    if name in ("marks", "locks"):
        return StructType([*from_arrow_schema(TABLES["marks"].columns), StructField("scope_id", LongType())])
    return from_arrow_schema(TABLES[name].columns)


SCHEMAS = {name: _schema(name) for name in (*TABLES, "locks", *_DERIVED)}
DEFAULT_TABLES = ({*SCHEMAS} - OPTIONAL_TABLES - {*ROSTER_TABLES}) | {"bookies", "ownership"}
_DEFAULT_ROWS: dict[str, Row] = {
    "ledgers": {
        "scope_id": 0, "status": "ok", "state": "CLOSED", "mtime": NOW_MS - HOUR, "rules": [], "replicas": [],
        "undecidable": False,
    },
    "marks": {"scope_id": 0, "path": "mark", "replicas": [], "misplaced": False},
    "locks": {"scope_id": 0, "path": "lock"},
    "cookies": {"layout": 5, "instance_id": INSTANCE},
    "registrations": {
        "mode": "writable", "endpoints": [], "empty": False, "used": True, "ephemeral": True,
    },
    "bookies": {
        "registered_twice": False, "named": True, "ledgers": 0, "depending": 0, "replicas": 0,
        "registered": "writable", "has_cookie": True, "marked": False, "found": True, "read": "read",
        "suspect": False, "foreign_instance": False,
    },
    "directories": {"layout": 5, "role": "ledger", "instance_id": INSTANCE, "version_absent": False},
    "starts": {"source": "versions", "agreed": True, "certain": True},
    "contents": {"better": 0, "worse": 0, "rank": 1},
    "identities": {"aliases": [], "stranded": False},
    "identity_edges": {"joins": True, "evidence": "seen", "apart": False},
    "availability": {"scope_id": 0, "groups": b"", "state": "ok", "storage": "idx"},
    "judged": {
        "scope_id": 0, "version": 0, "state": "CLOSED", "write_quorum": 3, "ack_quorum": 2, "m": 0, "mu": 0,
        "last_entry_id": 9, "class_entries": {"groups": b"", "count": 0},
        "missing": [], "unknown": [], "lagging": [], "stale": [], "surplus": [], "past_end": [],
        "foreign": [], "doubts": [], "lasting_doubts": [], "unindexed": [], "listed": [], "witness": [],
    },
    "verdicts": {
        "scope_id": 0, "state": "CLOSED", "class": "healthy", "potential_class": "healthy",
        "unread_bookies": [],
    },
    "orphans": {"scope_id": 0, "groups": b"", "in_m0": False, "in_m1": False, "newer_than_scan": False},
    "holdings": {"orphans": 0, "in_doubt": 0, "lasting": 0, "recent": 0, "unexplained": 0},
    "vanished_ranges": {"scope_id": 0, "in_doubt": 0},
    "unindexed": {"scope_id": 0, "count": 1, "served": True},
    "ownership": {
        "scope_id": 0, "seen_before": False, "application": "pulsar", "tenant": "shop", "namespace": "orders",
        "borrowed": False, "state": "CLOSED",
    },
    "offload_objects": {
        "scope_id": 0, "uid": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "objects": 2, "bytes": 700,
        "has_data": True, "has_index": True, "kind": "data",
    },
    "placement": {
        "scope_id": 0, "state": "CLOSED", "write_quorum": 2, "ack_quorum": 2, "first_entry_id": 0,
        "violated": True, "excused": False, "windows": 1, "unwritable": [],
    },
    "bookie_locations": {"groups": [], "origin": "racks"},
    "over_replicated": {
        "scope_id": 0, "behind_end": 0, "state": "CLOSED", "marked": False, "locked": False, "exposed": False,
    },
}  # fmt: skip


def facts(**overrides: Any) -> ClusterFacts:
    """Return the facts of a saved ZooKeeper store, scanned at `NOW_MS`."""
    defaults = {
        "instance_id": INSTANCE, "scan_time": NOW_MS, "live": False, "layout": "flat", "two_scans": False,
    }  # fmt: skip
    return ClusterFacts(**{**defaults, **overrides})


def tables(spark: SparkSession, cluster: ClusterFacts | None = None, **rows: Sequence[Row]) -> Tables:
    """Return tables with these rows; omitted columns have defaults or null. All other tables are empty."""
    names = sorted(DEFAULT_TABLES | {*rows})
    frames = {name: frame(spark, name, rows.get(name, ())) for name in names}
    cluster = cluster or facts()
    roster = Roster.read(lambda name: _full(name, TABLES[name].columns.names, rows.get(name, ())), cluster)
    return Tables(
        frames,
        cluster=cluster,
        roster=roster,
        ledgers_of_marks=frames["ledgers"],
        collector_settings=CollectorSettings(),
        empty_table_names=OPTIONAL_TABLES - {"ownership", *rows},
    )


def frame(spark: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    """Return one of the tables, with these rows."""
    empty = _empty(spark, name)
    if not rows:
        return empty
    return _local(spark, _full(name, empty.columns, rows), empty.schema)


def _local(spark: SparkSession, rows: Sequence[dict[str, Any]], schema: StructType) -> DataFrame:
    """Return a frame of Arrow rows: Spark plans its queries in half the time that an RDD's queries need."""
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(schema)), schema)


def _full(name: str, columns: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    full = [{**dict.fromkeys(columns), **_DEFAULT_ROWS.get(name, {}), **row} for row in rows]
    for row in full:
        assert set(row) == set(columns), f"{name} has no {set(row) - set(columns)}"
    return full


@cache
def _empty(spark: SparkSession, name: str) -> DataFrame:
    schema = SCHEMAS[name]
    columns = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(columns, StructType)
    return _local(spark, [], columns)


def ledger(ledger_id: int, *members: str, depends: bool = True, **overrides: Any) -> Row:
    """Return a ledger with these members, each of which has entries of it."""
    replicas = [(member, b"", depends) for member in members]
    return {"ledger_id": ledger_id, "path": f"/ledgers/L{ledger_id}", "replicas": replicas, **overrides}


def entries(bookie_id: str, *groups: tuple[int, int, int, int]) -> tuple[str, bytes, int]:
    """Return entries of one bookie in the form of the tables."""
    count = sum(
        size * ((last - first) // period + 1 if period else 1) for first, last, size, period in groups
    )
    return bookie_id, b"".join(struct.pack(">qqii", *group) for group in groups), count


def packed(*groups: tuple[int, int, int, int]) -> Row:
    """Return entries of a ledger in the form of the tables."""
    _, value, count = entries("", *groups)
    return {"groups": value, "count": count}


@dataclass(frozen=True)
class ParsedFinding:
    """A finding with parsed evidence."""

    scope_id: int | None
    ledger_id: int | None
    bookie_id: str | None
    severity: str
    confidence: str
    missing: list[tuple[str, bytes, int]]
    unknown: list[str]
    message: str
    evidence: dict[str, Any]

    @property
    def where(self) -> tuple[int | None, str | None]:
        return self.ledger_id, self.bookie_id


def find(check_id: str, cluster_tables: Tables) -> list[ParsedFinding]:
    """Run a check once on the tables; return its findings, sorted by ledger and bookie."""
    findings = [
        ParsedFinding(
            row["scope_id"],
            row["ledger_id"],
            row["bookie_id"],
            row["severity"],
            row["confidence"],
            [(entry["bookie_id"], bytes(entry["groups"]), entry["count"]) for entry in row["missing"]],
            list(row["unknown"]),
            row["message"],
            json.loads(row["evidence"]),
        )
        for row in _rows(CHECK_BY_ID[check_id], cluster_tables)
    ]
    for finding in findings:
        assert finding.message != FALLBACK_MESSAGE, f"{check_id} has no message for {finding}"
        assert "None" not in finding.message.split(), finding.message
        assert "; unconfirmed: " not in finding.message or finding.confidence != Confidence.CONFIRMED, (
            finding.message
        )
    return sorted(findings, key=lambda result: (result.ledger_id or 0, result.bookie_id or ""))


def _rows(check: Check, cluster_tables: Tables) -> Sequence[Any]:
    if isinstance(check, RosterCheck):
        return check(cluster_tables.roster)
    assert isinstance(check, TableCheck)
    return check(cluster_tables).collect()


def places(findings: Sequence[ParsedFinding]) -> list[tuple[int | None, str | None]]:
    """Return the ledger and bookie of each finding."""
    return [finding.where for finding in findings]
