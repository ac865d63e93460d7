"""The class of bytes in a log: every case of what may be known of their ledger, against the rules."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from auditor.model.states import EntryLogState, IndexState, LogFileKind, SpaceClass
from auditor.tables.run_tables import TABLES
from auditor.tables.space import space

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

BYTES, HEADER, NEWEST = 100, 1024, 10
YOUNG = 3
"""So many of the newest logs may have entries that the index lacks."""

READ, FOREIGN, UNREAD = "read", "foreign", "unread"
"""Bookies: one that was read, one of another cluster, one that was not read whole."""

LISTED = ("no", "member", "other", "undecidable member")
ORPHAN = (None, "sure", "newer", "doubt")
STATES = (IndexState.OK, IndexState.CUT, IndexState.NOT_INDEXED, None)


class Case(NamedTuple):
    """What is known of a ledger with bytes in a log; ``young``: the log is one of the newest."""

    bookie: str
    young: bool
    located: bool
    listed: str
    orphan: str | None
    foreign: bool
    state: IndexState | None

    @property
    def wanted(self) -> SpaceClass:
        """The rules, as docs/space.md has them."""
        if self.bookie != READ or self.state is IndexState.CUT:
            return SpaceClass.OWNER_UNKNOWN
        if not self.located:
            return SpaceClass.NOT_YET_MAPPED if self.young else SpaceClass.SUPERSEDED
        if self.listed.startswith("undecidable") or self.orphan in ("newer", "doubt"):
            return SpaceClass.OWNER_UNKNOWN
        if self.orphan:
            return SpaceClass.ORPHAN
        if self.foreign:
            return SpaceClass.OVER_REPLICATED
        if self.listed == "member":
            return SpaceClass.LIVE
        if self.listed == "no" and self.state is IndexState.NOT_INDEXED:
            return SpaceClass.SUPERSEDED
        return SpaceClass.OWNER_UNKNOWN

    @property
    def log(self) -> int:
        """The oldest that is young, or the newest that is not: the next newer ones have entries of nobody."""
        return NEWEST - YOUNG + 1 if self.young else NEWEST - YOUNG


CASES = [
    Case(*values)
    for values in product(
        (READ, FOREIGN, UNREAD), (True, False), (True, False), LISTED, ORPHAN, (True, False), STATES
    )
]


def frame(spark: SparkSession, name: str, rows: list[Row]) -> DataFrame:
    """A published table with these rows; what they do not say is null."""
    schema = TABLES[name].columns
    assert all(set(row) <= set(schema.names) for row in rows)
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema), from_arrow_schema(schema))


def of_bookie(bookie: str, log: int) -> Row:
    return {"bookie_id": bookie, "logger": 0, "directory": bookie, "path": f"{bookie}/{log}", "log_id": log}


def test_bytes_are_of_the_class_that_the_rules_give(spark: SparkSession) -> None:
    logs: list[Row] = [
        {
            **of_bookie(bookie, log), "kind": LogFileKind.LOG, "state": EntryLogState.OK, "mtime": 5,
            "bytes": HEADER + BYTES * sum((each.bookie, each.log) == (bookie, log) for each in CASES),
            "header_bytes": HEADER, "map_bytes": 0, "padding_bytes": 0,
            "entry_bytes": BYTES * sum((each.bookie, each.log) == (bookie, log) for each in CASES),
        }
        for bookie in (READ, FOREIGN, UNREAD)
        for log in range(NEWEST - YOUNG, NEWEST + 1)
    ]  # fmt: skip
    parts: dict[str, list[Row]] = {
        name: [] for name in ("locations", "ledgers", "availability", "orphans", "over")
    }
    for ledger, case in enumerate(CASES):
        replica = {"scope_id": 0, "ledger_id": ledger, "bookie_id": case.bookie}
        logs.append(
            {**of_bookie(case.bookie, case.log), "ledger_id": ledger, "scope_id": 0, "entry_bytes": BYTES}
        )
        if case.located:
            parts["locations"].append({**replica, "logger": 0, "log_id": case.log, "entries": 1})
        if case.listed != "no":
            member = "another" if case.listed == "other" else case.bookie
            parts["ledgers"].append(
                {
                    "scope_id": 0, "ledger_id": ledger, "undecidable": case.listed.startswith("undecidable"),
                    "replicas": [{"bookie_id": member, "groups": b"", "depends": True}],
                }
            )  # fmt: skip
        if case.orphan:
            doubt = "a gap" if case.orphan == "doubt" else None
            parts["orphans"].append({**replica, "newer_than_scan": case.orphan == "newer", "doubt": doubt})
        if case.foreign:
            parts["over"].append(replica)
        if case.state:
            parts["availability"].append({**replica, "state": case.state})
    bookies = [
        {"bookie_id": READ, "read": "read", "foreign_instance": False},
        {"bookie_id": FOREIGN, "read": "read", "foreign_instance": True},
        {"bookie_id": UNREAD, "read": "partial", "foreign_instance": False},
    ]
    directories = [{"path": bookie, "index_time": 0} for bookie in (READ, FOREIGN, UNREAD)]
    rows = space(
        frame(spark, "entry_logs", logs),
        frame(spark, "locations", parts["locations"]),
        frame(spark, "ledgers", parts["ledgers"]),
        frame(spark, "availability", parts["availability"]),
        frame(spark, "orphans", parts["orphans"]),
        frame(spark, "orphans", parts["over"]).select("scope_id", "ledger_id", "bookie_id"),
        frame(spark, "judged", []),
        frame(spark, "bookies", bookies),
        frame(spark, "directories", directories),
    ).collect()
    of_ledgers = [row for row in rows if row["ledger_id"] is not None]
    assert len(of_ledgers) == len(CASES)
    assert {row["bytes"] for row in of_ledgers} == {BYTES}
    found = {CASES[row["ledger_id"]]: row["class"] for row in of_ledgers}
    assert {case: name for case, name in found.items() if name != case.wanted} == {}
    assert {*found.values()} == {*SpaceClass} - {SpaceClass.HEADERS_AND_MAPS, SpaceClass.SURPLUS}
    assert sum(row["bytes"] for row in rows) == sum(row.get("bytes", 0) for row in logs)
