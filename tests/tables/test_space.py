"""The class of bytes in a log, for each combination of facts about their ledger, by the rules."""

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
LACKS = (None, "read", "unread")
"""Whether the index lacks entries that the log has: no, so many bytes of them, or the log was not read."""

NEEDED = 30
"""Bytes of entries that the index lacks, in a log that was read for them."""


class Case(NamedTuple):
    """The facts about a ledger with bytes in a log; ``young`` means that the log is one of the newest."""

    bookie: str
    young: bool
    located: bool
    listed: str
    orphan: str | None
    foreign: bool
    state: IndexState | None
    lacks: str | None = None
    owner_named: bool = False

    @property
    def parts(self) -> dict[SpaceClass, int]:
        """Return the bytes by class: those that the index lacks, and the rest."""
        may_lack = (SpaceClass.LIVE, SpaceClass.OVER_REPLICATED, SpaceClass.SUPERSEDED)
        needed = {None: 0, "read": NEEDED, "unread": 0 if self.located else BYTES}[self.lacks]
        needed = needed if self.expected_class in may_lack else 0
        sizes = {SpaceClass.NOT_INDEXED: needed, self.expected_class: BYTES - needed}
        return {name: size for name, size in sizes.items() if size}

    @property
    def expected_class(self) -> SpaceClass:
        """Return the class by the rules of docs/space.md, without regard to bytes that the index lacks."""
        if self.listed == "no" and self.owner_named:
            return SpaceClass.OWNER_NAMED
        if self.bookie != READ or self.state is IndexState.CUT:
            return SpaceClass.OWNER_UNKNOWN
        if not self.located and self.young:
            return SpaceClass.NOT_YET_MAPPED
        if self.listed.startswith("undecidable"):
            return SpaceClass.OWNER_UNKNOWN
        if not self.located:
            return SpaceClass.SUPERSEDED
        if self.orphan in ("newer", "doubt"):
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
        """Return the oldest young log or newest other one; the next newer logs have no ledger's entries."""
        return NEWEST - YOUNG + 1 if self.young else NEWEST - YOUNG


CASES = [
    Case(*values)
    for values in product(
        (READ, FOREIGN, UNREAD), (True, False), (True, False), LISTED, ORPHAN, (True, False), STATES
    )
]
CASES += [
    Case(READ, *values)
    for values in product(
        (True, False), (True, False), LISTED, ORPHAN, (False,), STATES, LACKS, (True, False)
    )
    if values[-2:] != (None, False)
]


def frame(spark: SparkSession, name: str, rows: list[Row]) -> DataFrame:
    """Return a published table with these rows; missing values are null."""
    schema = TABLES[name].columns
    assert all(set(row) <= set(schema.names) for row in rows)
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema), from_arrow_schema(schema))


def log_key(bookie: str, log: int) -> Row:
    return {"bookie_id": bookie, "logger": 0, "directory": bookie, "path": f"{bookie}/{log}", "log_id": log}


def test_bytes_have_the_class_given_by_the_rules(spark: SparkSession) -> None:
    logs: list[Row] = [
        {
            **log_key(bookie, log), "kind": LogFileKind.LOG, "state": EntryLogState.OK, "mtime": 5,
            # One byte more than a header: a log that has no more was made in advance, and does not count.
            "bytes": HEADER
            + (BYTES * sum((case.bookie, case.log) == (bookie, log) for case in CASES) or 1),
            "header_bytes": HEADER, "map_bytes": 0, "padding_bytes": 0,
            "entry_bytes": BYTES * sum((case.bookie, case.log) == (bookie, log) for case in CASES),
        }
        for bookie in (READ, FOREIGN, UNREAD)
        for log in range(NEWEST - YOUNG, NEWEST + 1)
    ]  # fmt: skip
    parts: dict[str, list[Row]] = {
        name: []
        for name in ("locations", "ledgers", "availability", "orphans", "over", "log_entries", "ownership")
    }
    for ledger, case in enumerate(CASES):
        replica = {"scope_id": 0, "ledger_id": ledger, "bookie_id": case.bookie}
        logs.append(
            {**log_key(case.bookie, case.log), "ledger_id": ledger, "scope_id": 0, "entry_bytes": BYTES}
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
        if case.lacks:
            needed = NEEDED if case.lacks == "read" else None
            path = log_key(case.bookie, case.log)["path"]
            parts["log_entries"].append(
                {"path": path, "scope_id": 0, "ledger_id": ledger, "needed_bytes": needed}
            )
        if case.owner_named:
            # Two owners may name one ledger.
            owner_row = {
                "scope_id": 0,
                "ledger_id": ledger,
                "path": "/managed-ledgers/t",
                "standing": "dangling",
            }
            parts["ownership"] += [owner_row, owner_row]
        elif ledger % 2:
            # A ledger that was offloaded is rightly gone, and one without an owner has no path.
            parts["ownership"] += [
                {"scope_id": 0, "ledger_id": ledger, "path": "/managed-ledgers/t", "standing": "offloaded"},
                {"scope_id": 0, "ledger_id": ledger, "standing": "unowned"},
            ]
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
        frame(spark, "log_entries", parts["log_entries"]),
        frame(spark, "ownership", parts["ownership"]),
    ).collect()
    sizes_by_case: dict[Case, dict[str, int]] = {case: {} for case in CASES}
    for row in rows:
        if row["ledger_id"] is not None:
            of_case = sizes_by_case[CASES[row["ledger_id"]]]
            assert row["class"] not in of_case
            of_case[row["class"]] = row["bytes"]
    assert {case: parts for case, parts in sizes_by_case.items() if parts != case.parts} == {}
    class_names = {name for parts in sizes_by_case.values() for name in parts}
    assert class_names == {*SpaceClass} - {SpaceClass.HEADERS_AND_MAPS, SpaceClass.SURPLUS}
    assert sum(row["bytes"] for row in rows) == sum(row.get("bytes", 0) for row in logs)


def classes(spark: SparkSession, logs: list[Row], locations: list[Row], **options: Any) -> dict[int, Row]:
    """Return, by log, whether it is current or unflushed, and the classes of its bytes."""
    bookies = [{"bookie_id": READ, "read": "read", "foreign_instance": False}]
    empty = {name: frame(spark, name, []) for name in ("ledgers", "availability", "orphans", "judged")}
    rows = space(
        frame(spark, "entry_logs", logs),
        frame(spark, "locations", locations),
        empty["ledgers"],
        empty["availability"],
        empty["orphans"],
        empty["orphans"].select("scope_id", "ledger_id", "bookie_id"),
        empty["judged"],
        frame(spark, "bookies", bookies),
        frame(spark, "directories", [{"path": READ, "index_time": 0}]),
        frame(spark, "log_entries", []),
        frame(spark, "ownership", []),
        **options,
    ).collect()
    log_facts: dict[int, Row] = {}
    for row in rows:
        log = log_facts.setdefault(
            row["log_id"], {"current": row["current"], "unflushed": row["unflushed"], "classes": {}}
        )
        log["classes"][row["class"]] = log["classes"].get(row["class"], 0) + row["bytes"]
    return log_facts


def open_log(log: int, size: int, **columns: Any) -> Row:
    state = EntryLogState.NO_MAP if size >= HEADER else EntryLogState.UNREADABLE
    return {
        **log_key(READ, log), "kind": LogFileKind.LOG, "state": state, "mtime": 5, "bytes": size,
        "header_bytes": min(size, HEADER), "map_bytes": 0, "padding_bytes": 0, "counted": "scan",
        "tail_bytes": 0, "entry_bytes": max(0, size - HEADER), **columns,
    }  # fmt: skip


def test_log_before_a_preallocated_log_is_current(spark: SparkSession) -> None:
    logs = [open_log(1, 2000), open_log(2, 2000), open_log(3, HEADER), open_log(4, 0)]
    by_log = classes(spark, logs, [])
    assert {log: row["current"] for log, row in by_log.items()} == {1: False, 2: True, 3: True}
    per_ledger = classes(spark, logs, [], log_per_ledger=True)
    assert {log: row["current"] for log, row in per_ledger.items()} == {1: True, 2: True, 3: True}
    # An older log without a map is one that a bookie left when it was killed, unless each ledger has its own.
    older = [open_log(log, 2000) for log in range(6)]
    for log_per_ledger, unflushed in ((None, set(range(6))), (False, {3, 4, 5}), (True, set(range(6)))):
        older_classes = classes(spark, older, [], log_per_ledger=log_per_ledger)
        assert {log for log, row in older_classes.items() if row["unflushed"]} == unflushed


def test_bytes_after_damaged_record_are_of_unknown_owner(spark: SparkSession) -> None:
    cut = {"tail_bytes": 500, "entry_bytes": 2000 - HEADER - 500}
    logs = [
        open_log(1, 2000, **cut),
        open_log(2, 2000, **cut),
        open_log(3, 2000, **cut, state=EntryLogState.DAMAGED, reason="a record of -9 bytes"),
    ]
    # The index has an entry of log 1 behind the last record that was read, and of log 2 none.
    places = [
        {"bookie_id": READ, "logger": 0, "log_id": log, "scope_id": 0, "ledger_id": 7, "entries": 1}
        | {"first_offset": 1030, "last_offset": offset}
        for log, offset in ((1, 1600), (2, 1400))
    ]
    by_log = classes(spark, logs, places)
    of_tail = {log: set(row["classes"]) & {"not-yet-mapped", "owner-unknown"} for log, row in by_log.items()}
    assert of_tail == {1: {"owner-unknown"}, 2: {"not-yet-mapped"}, 3: {"owner-unknown"}}


def test_log_without_later_flush_may_still_be_open(spark: SparkSession) -> None:
    """With one log for all ledgers, the newest few may be open; with one log per ledger, any of them."""
    written = {0: -1, 1: 1, 2: 1, 3: -1, 4: 1}  # log 4 was made since
    logs = [
        open_log(log, 2000, state=EntryLogState.OK, mtime=mtime, ledger_id=None)
        for log, mtime in written.items()
    ]
    of_ledger = {"scope_id": 0, "ledger_id": 7, "entry_bytes": 2000 - HEADER}
    logs += [{**log_key(READ, log), **of_ledger, "mtime": mtime} for log, mtime in written.items()]
    by_log = classes(spark, logs, [], log_per_ledger=False)
    assert {log: row["unflushed"] for log, row in by_log.items()} == {
        0: False, 1: False, 2: True, 3: False, 4: True,
    }  # fmt: skip
    per_ledger = classes(spark, logs, [], log_per_ledger=True)
    assert {log: row["unflushed"] for log, row in per_ledger.items()} == {
        0: False, 1: True, 2: True, 3: False, 4: True,
    }  # fmt: skip
    # Without the configuration three logs without a map show that each ledger has its own.
    for number, is_open in ((2, False), (3, True)):
        unmapped = [open_log(10 + log, 2000) for log in range(number)]
        unknown = classes(spark, [*logs, *unmapped], [])
        assert unknown[1]["unflushed"] is is_open
    # Entries of such a log need not be in the index yet: nothing says that the index needs none of them.
    assert {log for log, row in by_log.items() if SpaceClass.SUPERSEDED in row["classes"]} == {0, 1, 3}
    assert {log for log, row in per_ledger.items() if SpaceClass.SUPERSEDED in row["classes"]} == {0, 3}
