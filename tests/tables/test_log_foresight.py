"""The forecast for entry logs on full disks, by collector, threshold and switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from auditor.model.collector_settings import CollectorSettings
from auditor.tables.log_foresight import log_foresight
from tests.checks.tables_builder import NOW_MS, Row, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {"gone": (0, "delete"), "tenth": (100, "minor"), "half": (500, "major"), "most": (900, "keep")}
"""Of 1,000 bytes of each log so many are needed, and what becomes of it."""


def parts(bookie: str, directory: str) -> list[Row]:
    """Return the rows of the table space for four logs in a directory."""
    return [
        {"bookie_id": bookie, "directory": directory, "path": f"{directory}/{name}", "log_id": number}
        | {"kind": "log", "current": False, "scope_id": 0, "ledger_id": ledger, "bytes": size}
        | {"class": "live" if remains else "superseded", "remains": remains}
        for number, (name, (needed, _)) in enumerate(KINDS.items())
        for ledger, size, remains in ((7, needed, True), (8, 1000 - needed, False))
        if size
    ]


def loggers() -> Iterator[Row]:
    """Yield rows of entry_logs; with DbLedgerStorage, each directory has its own logs and collector."""
    for bookie, homes in HOMES.items():
        for position, home in enumerate(homes):
            yield {"bookie_id": bookie, "directory": home, "logger": position if bookie == "db" else 0}


def disk(bookie: str, directory: str, used: float | None, rocksdb: int = 0) -> Row:
    sizes = {} if used is None else {"capacity_bytes": 1000, "free_bytes": round(1000 * (1 - used))}
    return {"bookie_id": bookie, "directory": directory, "rocksdb_bytes": rocksdb, **sizes}


DISKS = [
    # One collector for two directories: the fuller one counts for both. Its metadata-cache is in RocksDB too.
    disk("idx", "/i0", 0.96, 9), disk("idx", "/i1", 0.5), disk("idx", "/journal", 0.99),
    # A collector each.
    disk("db", "/d0", 0.96, 9), disk("db", "/d1", 0.92, 9), disk("db", "/d2", 0.9, 9),
    disk("unseen", "/u0", None),
]  # fmt: skip
HOMES = {"idx": ["/i0", "/i1"], "db": ["/d0", "/d1", "/d2"], "unseen": ["/u0"], "unnamed": ["/n0"]}


def forecast(
    spark: SparkSession, settings: CollectorSettings, disks: bool = True
) -> dict[str, tuple[object, ...]]:
    """Return, by directory, the disk state and the bytes each log frees; check the actions of `KINDS`."""
    rows = [row for bookie, homes in HOMES.items() for home in homes for row in parts(bookie, home)]
    log_rows = log_foresight(
        frame(spark, "space", rows),
        frame(spark, "entry_logs", list(loggers())),
        frame(spark, "gc_foresight", []),
        settings,
        NOW_MS,
        disks=frame(spark, "disks", DISKS) if disks else None,
    ).collect()
    assert {row["path"].rpartition("/")[2]: row["action"] for row in log_rows} == {
        name: action for name, (_, action) in KINDS.items()
    }
    frees: dict[str, dict[str, int]] = {}
    for row in log_rows:
        frees.setdefault(row["directory"], {})[row["path"].rpartition("/")[2]] = row["frees"]
    state = {row["directory"]: row["full_disk"] for row in log_rows}
    return {home: (state[home], *(frees[home][name] for name in KINDS)) for home in frees}


ALL, MINOR, DELETIONS = (1000, 900, 500, 0), (1000, 900, 0, 0), (1000, 0, 0, 0)


def test_full_disk_suspends_compaction_but_not_collection(spark: SparkSession) -> None:
    assert forecast(spark, CollectorSettings()) == {
        "/i0": ("full", *DELETIONS),
        "/i1": ("full", *DELETIONS),
        "/d0": ("full", *DELETIONS),
        "/d1": ("almost-full", *MINOR),
        "/d2": (None, *ALL),
        "/u0": (None, *ALL),
        "/n0": (None, *ALL),
    }


def test_is_force_gc_allow_when_no_space_compacts_on_a_full_disk(spark: SparkSession) -> None:
    forced = forecast(spark, CollectorSettings(forced_when_full=True))
    assert {home: outcome for home, outcome in forced.items() if outcome[0]} == dict.fromkeys(
        ("/i0", "/i1", "/d0", "/d1"), ("forced", *ALL)
    )


def test_disk_thresholds_of_conf_apply_only_if_disks_are_given(spark: SparkSession) -> None:
    settings = CollectorSettings.from_properties(
        {"diskUsageThreshold": "0.98", "diskUsageWarnThreshold": "0.95"}, "f"
    )
    assert {state for state, *_ in forecast(spark, settings).values()} == {"almost-full", None}
    assert {state for state, *_ in forecast(spark, settings, disks=False).values()} == {None}


def test_log_with_wrong_map_or_header_has_no_forecast(
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
        NOW_MS,
    ).collect()
    assert {row["path"] for row in rows} == {"/i0/gone", "/i0/most"}


def test_log_with_needed_bytes_is_forecast_to_free_nothing(spark: SparkSession) -> None:
    kinds = {"live": 0, "superseded": 0, "not-indexed": 300, "owner-named": 200}
    rows = [
        {"bookie_id": "idx", "directory": "/i0", "path": f"/i0/{kind}", "log_id": 1, "kind": "log"}
        | {"current": False, "scope_id": 0, "ledger_id": ledger, "bytes": size, "class": name}
        | {"remains": False}
        for kind, needed in kinds.items()
        for ledger, name, size in ((7, "superseded", 900), (8, kind, needed or 1))
    ]
    log_rows = log_foresight(
        frame(spark, "space", rows),
        frame(spark, "entry_logs", list(loggers())),
        frame(spark, "gc_foresight", []),
        CollectorSettings(),
        NOW_MS,
    ).collect()
    assert {row["path"]: (row["action"], row["needed"], row["frees"]) for row in log_rows} == {
        "/i0/live": ("delete", 0, 901), "/i0/superseded": ("delete", 0, 901),
        "/i0/not-indexed": ("delete", 300, 0), "/i0/owner-named": ("delete", 200, 0),
    }  # fmt: skip


def test_newest_log_is_kept_until_bookie_restart(spark: SparkSession) -> None:
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
    log_rows = log_foresight(
        frame(spark, "space", rows),
        frame(spark, "entry_logs", list(loggers())),
        frame(spark, "gc_foresight", []),
        CollectorSettings(),
        NOW_MS,
    ).collect()
    assert {(row["action"], row["frees"], row["minor_since"], row["major_since"]) for row in log_rows} == {
        ("keep", 0, None, None)
    }
    assert {row["path"]: row["after_restart"] for row in log_rows} == {
        "/i0/gone": "delete", "/i0/tenth": "minor", "/i0/unflushed": None, "/i0/new": "keep",
    }  # fmt: skip


def test_log_left_by_collection_stays_overdue_while_its_deletion_is_forecast(
    spark: SparkSession,
) -> None:
    def forecast_after(earlier: list[Row] | None, passed: bool) -> dict[str, tuple[object, ...]]:
        bookies = [("idx", True)] if passed else []
        log_rows = log_foresight(
            frame(spark, "space", parts("idx", "/i0")),
            frame(spark, "entry_logs", list(loggers())),
            frame(spark, "gc_foresight", []),
            CollectorSettings(),
            NOW_MS,
            None if earlier is None else frame(spark, "log_foresight", earlier),
            gc_bookies=spark.createDataFrame(bookies, "bookie_id string, passed boolean"),
        ).collect()
        return {row["path"]: (row["delete_since"], row["overdue"]) for row in log_rows}

    def earlier_rows(since: int | None, overdue: bool) -> list[Row]:
        return [{"bookie_id": "idx", "path": "/i0/gone", "delete_since": since, "overdue": overdue}]

    path = "/i0/gone"
    assert forecast_after(None, passed=True)[path] == (NOW_MS, False)
    assert forecast_after(earlier_rows(None, False), passed=True)[path] == (NOW_MS, False)
    assert forecast_after(earlier_rows(7, False), passed=False)[path] == (7, False)
    assert forecast_after(earlier_rows(7, False), passed=True)[path] == (7, True)
    assert forecast_after(earlier_rows(7, True), passed=False)[path] == (7, True)
    # What is not to be deleted is never overdue.
    assert forecast_after(earlier_rows(7, True), passed=True)["/i0/most"] == (None, False)


def test_log_with_damaged_records_is_forecast_by_collector_scan(spark: SparkSession) -> None:
    scans = {"seen": "counts", "unneeded": "counts", "made-up": "may-fail", "failing": "fails"}
    counted = {
        "seen": {7: 100, 8: 300},
        "unneeded": {8: 300},
        # A ledger that the bookie has, and of which only the collector's scan of the damage has bytes.
        "made-up": {8: 300, 7: 5},
        "failing": {},
    }
    logs: list[Row] = []
    for name, scan in scans.items():
        of_log = {"bookie_id": "idx", "path": f"/i0/{name}", "collector_scan": scan, "kind": "log"}
        logs += [of_log, *(
            {**of_log, "scope_id": 0, "ledger_id": ledger, "collected_bytes": size}
            for ledger, size in counted[name].items()
        )]  # fmt: skip
    rows = [
        {"bookie_id": "idx", "directory": "/i0", "path": f"/i0/{name}", "log_id": 1, "kind": "log"}
        | {"current": False, "bytes": size, "class": kind, "ledger_id": ledger, "remains": False}
        for name in scans
        for ledger, kind, size in ((8, "orphan", 300), (None, "owner-unknown", 600))
    ]
    log_rows = log_foresight(
        frame(spark, "space", rows),
        frame(spark, "entry_logs", logs),
        frame(spark, "gc_foresight", []),
        CollectorSettings(),
        NOW_MS,
        availability=frame(
            spark, "availability", [{"bookie_id": "idx", "scope_id": 0, "ledger_id": 7, "state": "ok"}]
        ),
    ).collect()
    forecasts = {
        row["path"]: (row["action"], row["entries"], row["remain"], row["frees"]) for row in log_rows
    }
    assert forecasts == {
        "/i0/seen": ("major", 400, 100, 0), "/i0/unneeded": ("delete", 300, 0, 0),
        "/i0/made-up": ("minor", 305, 5, 0), "/i0/failing": ("keep", 0, 0, 0),
    }  # fmt: skip
    assert {row["needed"] for row in log_rows} == {600}
