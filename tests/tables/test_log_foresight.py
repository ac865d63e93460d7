"""What becomes of entry logs where disks are full: by collector, threshold and switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from auditor.model.collector_settings import CollectorSettings
from auditor.tables.log_foresight import log_foresight
from tests.checks.tables_builder import NOW, Row, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {"gone": (0, "delete"), "tenth": (100, "minor"), "half": (500, "major"), "most": (900, "keep")}
"""Of 1,000 bytes of each log so many are needed, and what becomes of it."""


def parts(bookie: str, directory: str) -> list[Row]:
    """The rows of space of four logs in a directory."""
    return [
        {"bookie_id": bookie, "directory": directory, "path": f"{directory}/{name}", "log_id": number}
        | {"kind": "log", "current": False, "scope_id": 0, "ledger_id": ledger, "bytes": size}
        | {"class": "live" if remains else "superseded", "remains": remains}
        for number, (name, (needed, _)) in enumerate(KINDS.items())
        for ledger, size, remains in ((7, needed, True), (8, 1000 - needed, False))
        if size
    ]


def loggers() -> Iterator[Row]:
    """Rows of entry_logs: on DbLedgerStorage each directory has logs, and a collector, of its own."""
    for bookie, homes in HOMES.items():
        for position, home in enumerate(homes):
            yield {"bookie_id": bookie, "directory": home, "logger": position if bookie == "db" else 0}


def disk(bookie: str, directory: str, used: float | None, rocksdb: int = 0) -> Row:
    known = {} if used is None else {"capacity_bytes": 1000, "free_bytes": round(1000 * (1 - used))}
    return {"bookie_id": bookie, "directory": directory, "rocksdb_bytes": rocksdb, **known}


DISKS = [
    # One collector for two directories: the fuller one counts for both. Its metadata-cache is in RocksDB too.
    disk("idx", "/i0", 0.96, 9), disk("idx", "/i1", 0.5), disk("idx", "/journal", 0.99),
    # A collector each.
    disk("db", "/d0", 0.96, 9), disk("db", "/d1", 0.92, 9), disk("db", "/d2", 0.9, 9),
    disk("unseen", "/u0", None),
]  # fmt: skip
HOMES = {"idx": ["/i0", "/i1"], "db": ["/d0", "/d1", "/d2"], "unseen": ["/u0"], "unnamed": ["/n0"]}


def foretold(
    spark: SparkSession, settings: CollectorSettings, disks: bool = True
) -> dict[str, tuple[object, ...]]:
    """By directory: the state of its disk, and what each of its logs frees; actions are those of `KINDS`."""
    rows = [row for bookie, homes in HOMES.items() for home in homes for row in parts(bookie, home)]
    found = log_foresight(
        frame(spark, "space", rows),
        frame(spark, "entry_logs", list(loggers())),
        frame(spark, "gc_foresight", []),
        settings,
        NOW,
        disks=frame(spark, "disks", DISKS) if disks else None,
    ).collect()
    assert {row["path"].rpartition("/")[2]: row["action"] for row in found} == {
        name: action for name, (_, action) in KINDS.items()
    }
    frees: dict[str, dict[str, int]] = {}
    for row in found:
        frees.setdefault(row["directory"], {})[row["path"].rpartition("/")[2]] = row["frees"]
    state = {row["directory"]: row["full_disk"] for row in found}
    return {home: (state[home], *(frees[home][name] for name in KINDS)) for home in frees}


ALL, MINOR, NONE = (1000, 900, 500, 0), (1000, 900, 0, 0), (1000, 0, 0, 0)


def test_a_full_disk_suspends_compaction_of_its_collector_and_not_collection(spark: SparkSession) -> None:
    assert foretold(spark, CollectorSettings()) == {
        "/i0": ("full", *NONE),
        "/i1": ("full", *NONE),
        "/d0": ("full", *NONE),
        "/d1": ("almost-full", *MINOR),
        "/d2": (None, *ALL),
        "/u0": (None, *ALL),
        "/n0": (None, *ALL),
    }


def test_is_force_gc_allow_when_no_space_compacts_on_a_full_disk(spark: SparkSession) -> None:
    forced = foretold(spark, CollectorSettings(forced_when_full=True))
    assert {home: each for home, each in forced.items() if each[0]} == dict.fromkeys(
        ("/i0", "/i1", "/d0", "/d1"), ("forced", *ALL)
    )


def test_thresholds_of_the_bookies_file_count_and_copies_of_disks_do_not(spark: SparkSession) -> None:
    settings = CollectorSettings.of({"diskUsageThreshold": "0.98", "diskUsageWarnThreshold": "0.95"}, "f")
    assert {state for state, *_ in foretold(spark, settings).values()} == {"almost-full", None}
    assert {state for state, *_ in foretold(spark, settings, disks=False).values()} == {None}


def test_a_log_whose_map_or_header_is_wrong_is_left_out_for_its_collector_goes_by_that(
    spark: SparkSession,
) -> None:
    wrong = {"tenth": "map-wrong", "half": "header-astray", "most": "map-unreadable"}
    rows = log_foresight(
        frame(spark, "space", parts("idx", "/i0")),
        frame(
            spark, "entry_logs", [{"path": f"/i0/{name}", "state": state} for name, state in wrong.items()]
        ),
        frame(spark, "gc_foresight", []),
        CollectorSettings(),
        NOW,
    ).collect()
    assert {row["path"] for row in rows} == {"/i0/gone", "/i0/most"}


def test_the_newest_log_stays_until_its_bookie_is_started_again(spark: SparkSession) -> None:
    logs = {"gone": [("orphan", 900, False)], "tenth": [("orphan", 900, False), ("live", 100, True)]}
    # Of a ledger that the index has not got yet nothing is known; of one that it has, all is.
    logs |= {"unflushed": [("not-yet-mapped", 900, False)], "new": [("not-yet-mapped", 900, True)]}
    rows = [
        {"bookie_id": "idx", "directory": "/i0", "path": f"/i0/{name}", "log_id": 9, "kind": "log"}
        | {
            "current": True,
            "scope_id": 0,
            "ledger_id": ledger,
            "bytes": size,
            "class": kind,
            "remains": remains,
        }
        for name, parts_of_log in logs.items()
        for ledger, (kind, size, remains) in enumerate([*parts_of_log, ("not-yet-mapped", 7, False)])
    ]
    for row in rows:
        if row["bytes"] == 7:
            row["ledger_id"] = None  # what follows the last record
    found = log_foresight(
        frame(spark, "space", rows),
        frame(spark, "entry_logs", list(loggers())),
        frame(spark, "gc_foresight", []),
        CollectorSettings(),
        NOW,
    ).collect()
    assert {(row["action"], row["frees"], row["minor_since"], row["major_since"]) for row in found} == {
        ("keep", 0, None, None)
    }
    assert {row["path"]: row["after_restart"] for row in found} == {
        "/i0/gone": "delete", "/i0/tenth": "minor", "/i0/unflushed": None, "/i0/new": "keep",
    }  # fmt: skip
