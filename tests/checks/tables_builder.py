"""Tables of a few rows: say what matters, the rest is that of a healthy cluster.

tables(spark, bookies=[{"bookie_id": "bk1"}], ledgers=[ledger(7, "bk1", "bk2")])
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from auditor.checks import BY_ID
from auditor.tables import ClusterFacts, Tables

HOUR = 3_600_000
NOW = 1_000 * HOUR
INSTANCE = "a77a8e0d"
Row = Mapping[str, Any]

_ENTRIES = "array<struct<bookie_id string, groups binary, count long>>"
SCHEMAS = {
    "ledgers": """
        scope_id long, ledger_id long, path string, version long, ctime long, mtime long,
        status string, low long, high long, rules array<struct<rule string, reason string>>,
        undecidable boolean, damage string, damage_offset long, format int, state string, ensemble_size int,
        write_quorum int, ack_quorum int, last_entry_id long, length long, digest_type string,
        metadata_ctime long, custom_metadata map<string, binary>,
        segments array<struct<first_entry_id long, ensemble array<string>>>,
        replicas array<struct<bookie_id string, groups binary, depends boolean>>
    """,
    "marks": """
        scope_id long, ledger_id long, path string, replicas array<string>, ctime long, version int,
        mtime long, misplaced boolean, damage string
    """,
    "locks": "scope_id long, ledger_id long, path string, owner string, ctime long, damage string",
    "cookies": """
        bookie_id string, layout int, bookie_host string, journal_dirs string,
        ledger_dirs array<string>, index_dirs array<string>, instance_id string, damage string
    """,
    "registrations": """
        bookie_id string, mode string, endpoints array<struct<id string, host string, port int,
        protocol string>>, ctime long, damage string, empty boolean, used boolean, host string, port int,
        unresolved string
    """,
    "bookies": """
        bookie_id string, named boolean, ledgers long, depending long, replicas long,
        registered string, registered_twice boolean, has_cookie boolean, marked boolean, found boolean,
        read string,
        reason string, index_time long, suspect boolean, foreign_instance boolean
    """,
    "directories": """
        place string, path string, role string, owner string, cookie_bookie_id string,
        instance_id string, index_time long, damage string, layout int, journal_dirs string,
        ledger_dirs array<string>, index_dirs array<string>, version_absent boolean, empty boolean,
        configured string
    """,
    "starts": """
        bookie_id string, source string, agreed boolean, journal_dirs string, ledger_dirs array<string>,
        index_dirs array<string>, error string, fault string, reason string, paths array<string>,
        stored_id string, expansion_error string, expansion_fault string, expansion_reason string,
        expansion_paths array<string>, store_differs array<string>, store_grows boolean
    """,
    "contents": """
        directory string, place string, owner string, ledgers long, candidate string, named long, exact long,
        better long, worse long, rank int
    """,
    "identities": """
        bookie_id string, identity string, aliases array<string>, stranded boolean, named boolean,
        marked boolean, registered boolean, host string, port int, hosts array<string>,
        cookie_names string, disks array<string>
    """,
    "identity_edges": """
        one string, other string, rule string, joins boolean, evidence string, against string, apart boolean
    """,
    "availability": """
        bookie_id string, scope_id long, ledger_id long, groups binary, state string, reason string,
        offset long, path string, page_bytes long, mtime long, storage string, answered long
    """,
    "unequal": """
        scope_id long, ledger_id long, bookie_id string, expected binary, held binary, index_state string,
        answered long
    """,
    "judged": f"""
        scope_id long, ledger_id long, version long, state string, mtime long, write_quorum int,
        ack_quorum int, last_entry_id long, length long, m int, mu int, missing {_ENTRIES},
        unknown array<struct<bookie_id string, count long, why string>>, lagging {_ENTRIES},
        stale {_ENTRIES}, surplus {_ENTRIES}, past_end {_ENTRIES}, past_end_last long,
        foreign array<struct<bookie_id string, count long>>,
        doubts array<string>, lasting_doubts array<string>, unindexed {_ENTRIES},
        witness array<struct<bookie_id string, entry_id long, answer string, reason string>>
    """,
    "verdicts": """
        scope_id long, ledger_id long, state string, class string, potential_class string, m int,
        mu int, unread_bookies array<string>, confidence string
    """,
    "orphans": """
        bookie_id string, scope_id long, ledger_id long, groups binary, in_m0 boolean, in_m1 boolean,
        newer_than_scan boolean, doubt string
    """,
    "holdings": "bookie_id string, ledgers long, orphans long, in_doubt long, lasting long",
    "vanished_ranges": "bookie_id string, scope_id long, low long, high long, ledgers long, in_doubt long",
    "unindexed": "scope_id long, ledger_id long, bookie_id string, groups binary, count long",
    "stale_marks": """
        scope_id long, ledger_id long, path string, replicas array<string>, since long, why string
    """,
    "empty_directories": "path string, ctime long",
    "undrawn": "bookie_id string, undrawn long, lowest long, highest long",
    "over_replicated": """
        scope_id long, ledger_id long, bookie_id string, count long, state string, marked boolean,
        locked boolean, exposed boolean
    """,
}
_USUAL: dict[str, Row] = {
    "ledgers": {
        "scope_id": 0, "status": "ok", "state": "CLOSED", "mtime": NOW - HOUR, "rules": [], "replicas": [],
        "undecidable": False,
    },
    "marks": {"scope_id": 0, "path": "mark", "replicas": [], "misplaced": False},
    "locks": {"scope_id": 0, "path": "lock"},
    "cookies": {"layout": 5, "instance_id": INSTANCE},
    "registrations": {"mode": "writable", "endpoints": [], "empty": False, "used": True},
    "bookies": {
        "registered_twice": False, "named": True, "ledgers": 0, "depending": 0, "replicas": 0,
        "registered": "writable", "has_cookie": True, "marked": False, "found": True, "read": "read",
        "suspect": False, "foreign_instance": False,
    },
    "directories": {"layout": 5, "role": "ledger", "instance_id": INSTANCE, "version_absent": False},
    "starts": {"source": "versions", "agreed": True},
    "contents": {"better": 0, "worse": 0, "rank": 1},
    "identities": {"aliases": [], "stranded": False},
    "identity_edges": {"joins": True, "evidence": "seen", "apart": False},
    "availability": {"scope_id": 0, "groups": b"", "state": "ok", "storage": "idx"},
    "judged": {
        "scope_id": 0, "version": 0, "state": "CLOSED", "write_quorum": 3, "ack_quorum": 2, "m": 0, "mu": 0,
        "missing": [], "unknown": [], "lagging": [], "stale": [], "surplus": [], "past_end": [],
        "foreign": [], "doubts": [], "lasting_doubts": [], "unindexed": [], "witness": [],
    },
    "verdicts": {
        "scope_id": 0, "state": "CLOSED", "class": "healthy", "potential_class": "healthy",
        "unread_bookies": [],
    },
    "orphans": {"scope_id": 0, "groups": b"", "in_m0": False, "in_m1": False, "newer_than_scan": False},
    "holdings": {"orphans": 0, "in_doubt": 0, "lasting": 0},
    "vanished_ranges": {"scope_id": 0, "in_doubt": 0},
    "unindexed": {"scope_id": 0, "count": 1},
    "over_replicated": {"scope_id": 0, "state": "CLOSED", "marked": False, "locked": False, "exposed": False},
}  # fmt: skip


def facts(**said: Any) -> ClusterFacts:
    """A saved ZooKeeper store, scanned at NOW."""
    usual = {
        "instance_id": INSTANCE, "scan_time": NOW, "live": False, "layout": "flat", "two_scans": False,
    }  # fmt: skip
    return ClusterFacts(**{**usual, **said})


def tables(spark: SparkSession, cluster: ClusterFacts | None = None, **rows: Sequence[Row]) -> Tables:
    """Tables with these rows, columns not said being the usual ones or null; all other tables are empty."""
    frames = {
        name: _frame(spark, name, rows[name]) if name in rows else _empty(spark, name) for name in SCHEMAS
    }
    return Tables(cluster=cluster or facts(), known_empty=frozenset(), **frames)


def _frame(spark: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    columns = _empty(spark, name).columns
    usual = _USUAL.get(name, {})
    full = [{**dict.fromkeys(columns), **usual, **row} for row in rows]
    for row in full:
        assert set(row) == set(columns), f"{name} has no {set(row) - set(columns)}"
    return spark.createDataFrame([tuple(row[column] for column in columns) for row in full], SCHEMAS[name])


@cache
def _empty(spark: SparkSession, name: str) -> DataFrame:
    return spark.createDataFrame([], SCHEMAS[name])


def ledger(ledger_id: int, *members: str, depends: bool = True, **said: Any) -> Row:
    """A ledger with these members, each of which has entries of it."""
    replicas = [(member, b"", depends) for member in members]
    return {"ledger_id": ledger_id, "path": f"/ledgers/L{ledger_id}", "replicas": replicas, **said}


def entries(bookie_id: str, *groups: tuple[int, int, int, int]) -> tuple[str, bytes, int]:
    """Entries of one bookie, as the tables keep them."""
    count = sum(
        size * ((last - first) // period + 1 if period else 1) for first, last, size, period in groups
    )
    return bookie_id, b"".join(struct.pack(">qqii", *group) for group in groups), count


@dataclass(frozen=True)
class Found:
    """One finding, its evidence parsed."""

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


def find(check_id: str, asked: Tables) -> list[Found]:
    """What a check says of the tables, by ledger and bookie; run once."""
    said = [
        Found(
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
        for row in BY_ID[check_id](asked).collect()
    ]
    return sorted(said, key=lambda found: (found.ledger_id or 0, found.bookie_id or ""))


def places(found: Sequence[Found]) -> list[tuple[int | None, str | None]]:
    """Ledger and bookie of each finding."""
    return [each.where for each in found]
