"""log_foresight, deletion_candidates: the next garbage collection or compaction of each entry log.

While a bookie has a ledger, the server counts all bytes of the ledger in a log as needed. This is so even if
the bookie's index points to other logs (GarbageCollectorThread). It deletes a log without needed bytes. It
rewrites a log if the share of needed bytes is below the threshold of a compaction (minor or major). It does
so when the interval of this compaction is over. The needed bytes then go into a new log, and the old log is
deleted. Logs with bytes of an unknown owner are left out of the forecast. Logs with a wrong map or header
are also left out, because the garbage collector relies on maps and headers (`entry-log-header-wrong`).

The column ``needed`` has a different meaning: bytes that may be the last copy of an entry
(`NOT_RECLAIMABLE`). The forecast of the server's action ignores these bytes. But the forecast counts no
freed space for a log with such bytes, because nobody should delete or rewrite it.

In a log with damaged records (``collector_scan`` of entry_logs), the garbage collector counts the records
that it sees. These include records that belong to no ledger. If its scan of a log fails, it keeps the log,
unless the log's map says that nothing is needed.

The garbage collector does not touch the newest log of a directory while its bookie writes to it. A
restarted bookie begins a new log. The old log then counts like any other log (``after_restart``), although
it has no map.

``minor_since`` and ``major_since`` tell how long a log has been waiting for a compaction. Each run copies
them from the previous run.

A deletion cannot be undone, and the garbage collector relies on ledgers maps. So the audit checks every log
that the next pass deletes (deletion_candidates). It compares the map with all entries of the log, not only
with a sample. Up to a number of bytes, it does the same with logs that compaction rewrites. It cannot read
logs of directories from ``bkaudit collect``, and it reads no log twice.
"""

from collections.abc import Iterator

import pyarrow as pa

from auditor.model.collector_settings import CollectorSettings
from auditor.model.columns import REPLICA, make_schema
from auditor.model.states import (
    DISK_STATES,
    NOT_RECLAIMABLE,
    CollectorScan,
    EntryLogState,
    GcAction,
    GcPass,
    LogFileKind,
    SpaceClass,
)
from auditor.sources.bookies.collections.places import COLLECTION_SEPARATOR
from auditor.sources.bookies.entry_logs.reader import MAP_SOURCE, read_contents
from auditor.spark import functions as F
from auditor.spark.part_tables import spark_types
from auditor.spark.types import Column, DataFrame
from auditor.tables.full_disks import add_full_disk, suspends_action

LOG_FORESIGHT = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("directory", pa.string(), "the ledger directory"),
    ("path", pa.string(), "the log"),
    ("log_id", pa.int64(), "id of the log"),
    ("bytes", pa.int64(), "length of the log"),
    ("entries", pa.int64(), "bytes of entries in the log"),
    (
        "remain",
        pa.int64(),
        "bytes of entries whose ledgers the bookie still has after its next garbage collection",
    ),
    (
        "usage",
        pa.float64(),
        "share (0 to 1) of the entries' bytes that is still needed, computed as the server does",
    ),
    ("action", pa.string(), "next action on the log: delete, minor (compaction), major (compaction) or keep"),
    (
        "needed",
        pa.int64(),
        "bytes of entries in the classes not-indexed and owner-named (see table space). They must be "
        "kept, even if the server would delete them",
    ),
    (
        "frees",
        pa.int64(),
        "bytes that the action frees. 0: the action is keep, a full disk suspends it, or needed is above 0",
    ),
    (
        "full_disk",
        pa.string(),
        "effect of the disk's fill level on compaction. full: no compaction is started. "
        "almost-full: only minor compaction is started. forced: minor and major compaction "
        "start immediately (isForceGCAllowWhenNoSpace). null: the disk has room, or its free "
        "bytes are not known",
    ),
    (
        "minor_since",
        pa.int64(),
        "scan time (ms since 1970, UTC) of the first run in the unbroken series with usage below the "
        "minor threshold",
    ),
    (
        "major_since",
        pa.int64(),
        "scan time (ms since 1970, UTC) of the first run in the unbroken series with usage below the "
        "major threshold",
    ),
    (
        "delete_since",
        pa.int64(),
        "scan time (ms since 1970, UTC) of the first run in the unbroken series that forecasts "
        "deletion; null: not forecast",
    ),
    (
        "overdue",
        pa.bool_(),
        "whether an earlier run forecast the deletion of the log, and garbage collection has run "
        "since without deleting it",
    ),
    (
        "current",
        pa.bool_(),
        "whether garbage collection skips the log, as in the column current of the table space",
    ),
    (
        "after_restart",
        pa.string(),
        "for a current log: the next action (delete, minor, major or keep) after a restart of "
        "the bookie. null: the log is not current, or has entries that the index may not have yet",
    ),
)
"""The table ``log_foresight``."""


def log_foresight(
    space: DataFrame,
    entry_logs: DataFrame,
    gc_forecast: DataFrame,
    settings: CollectorSettings,
    scan_time: int,
    earlier_forecast: DataFrame | None = None,
    disks: DataFrame | None = None,
    availability: DataFrame | None = None,
    gc_bookies: DataFrame | None = None,
) -> DataFrame:
    """Forecast garbage collection and compaction of every entry log: rows of `LOG_FORESIGHT`.

    Args:
        space: The table of that name.
        entry_logs: The table of that name.
        gc_forecast: The table ``gc_foresight``.
        settings: Settings of the collectors.
        scan_time: Time of the scan, in ms.
        earlier_forecast: The table ``log_foresight`` of an earlier run, or None if there is none.
        disks: The table of that name, or None if its free bytes are not those of the bookies' own disks.
        availability: The table of that name. Without it, logs with damaged records are left out.
        gc_bookies: Bookies whose collector has certainly run since the earlier run, or None.
    """
    needed_share = F.when(F.col("entries") == 0, F.lit(0.0)).otherwise(F.col("remain") / F.col("entries"))
    if settings.by_target_size:
        full_log_bytes = F.greatest(F.col("entries"), F.lit(settings.log_size_limit))
        needed_share = F.when(needed_share < 1, F.col("remain") / full_log_bytes).otherwise(needed_share)
    is_unreliable_log = F.col("state").isin(EntryLogState.MAP_WRONG, EntryLogState.ASTRAY)
    rows = (
        _count_logs(space, gc_forecast, entry_logs, availability)
        .join(entry_logs.where(is_unreliable_log).select("path").distinct(), "path", "left_anti")
        .withColumn("usage", needed_share)
    )
    allows_minor = F.lit(settings.runs_minor_compaction) & (F.col("usage") < settings.minor_threshold)
    allows_major = F.lit(settings.runs_major_compaction) & (F.col("usage") < settings.major_threshold)
    has_remaining = F.col("remain") > 0
    action_once_closed = (
        F.when(F.col("scan_fails") & (has_remaining | (F.col("entries") == 0)), GcAction.KEEP)
        .when(~has_remaining, GcAction.DELETE)
        .when(allows_minor, GcAction.MINOR)
        .when(allows_major, GcAction.MAJOR)
        .otherwise(GcAction.KEEP)
    )
    gc_action = F.when(F.col("current"), GcAction.KEEP).otherwise(action_once_closed)
    action_after_restart = F.when(F.col("current") & ~F.col("unclear"), action_once_closed)
    rows = rows.withColumns({"action": gc_action, "after_restart": action_after_restart})
    rows = add_full_disk(rows, entry_logs, disks, settings)
    is_log_kept = (F.col("action") == GcAction.KEEP) | suspends_action() | (F.col("needed") > 0)
    rows = rows.withColumn("frees", F.when(is_log_kept, F.lit(0)).otherwise(F.col("bytes") - F.col("remain")))
    carried_columns = dict.fromkeys(("minor_since", "major_since", "delete_since"), "long")
    carried_columns["overdue"] = "boolean"

    def select_carried_column(name: str) -> Column:
        # A table of an older release may lack the column.
        has_column = earlier_forecast is not None and name in earlier_forecast.columns
        column = F.col(name) if has_column else F.lit(None).cast(carried_columns[name])
        return column.alias(f"was_{name.removesuffix('_since')}")

    earlier_columns = [select_carried_column(name) for name in carried_columns]
    if earlier_forecast is None:
        rows = rows.select("*", *earlier_columns)
    else:
        rows = rows.join(
            earlier_forecast.select("bookie_id", "path", *earlier_columns), ["bookie_id", "path"], "left"
        )
    empty_bookie_rows = rows.sparkSession.createDataFrame([], "bookie_id string, passed boolean")
    rows = rows.join(
        F.broadcast(empty_bookie_rows if gc_bookies is None else gc_bookies), "bookie_id", "left"
    )

    # Null in the run before: the log was above the threshold then, so its time starts now. Its share between
    # the two runs is unknown.
    def first_time_column(earlier_column: str, is_below_threshold: Column) -> Column:
        return F.when(
            has_remaining & is_below_threshold & ~F.col("current"),
            F.coalesce(F.col(earlier_column), F.lit(scan_time)),
        )

    is_deleted = F.col("action") == GcAction.DELETE
    # Once a pass has left the log, it stays overdue while its deletion is forecast.
    is_overdue = is_deleted & F.col("was_delete").isNotNull() & (F.col("passed") | F.col("was_overdue"))
    forecast_rows = rows.withColumns(
        {
            "minor_since": first_time_column("was_minor", allows_minor),
            "major_since": first_time_column("was_major", allows_minor | allows_major),
            "delete_since": F.when(is_deleted, F.coalesce("was_delete", F.lit(scan_time))),
            "overdue": F.coalesce(is_overdue, F.lit(False)),
        }
    )
    return forecast_rows.select(*LOG_FORESIGHT.names)


def _count_logs(
    space: DataFrame, gc_forecast: DataFrame, entry_logs: DataFrame, availability: DataFrame | None
) -> DataFrame:
    """Return the rows of `_count_log_bytes`, for damaged logs with the bytes that the collector counts."""
    damaged_rows = entry_logs.where(F.col("collector_scan").isNotNull())
    undamaged_logs = _count_log_bytes(space, gc_forecast).join(
        damaged_rows.where(F.col("ledger_id").isNull()).select("path"), "path", "left_anti"
    )
    rows = undamaged_logs.withColumn("scan_fails", F.lit(False))
    return rows if availability is None else rows.unionByName(
        _count_damaged(space, gc_forecast, damaged_rows, availability)
    )  # fmt: skip


def _count_damaged(
    space: DataFrame, gc_forecast: DataFrame, damaged_rows: DataFrame, availability: DataFrame
) -> DataFrame:
    """Return rows like those of `_count_log_bytes` for logs with damaged records.

    The collector does not see all bytes of these logs.
    """
    unlisted_forecast = gc_forecast.where(F.col("pass") == GcPass.LISTING).select(
        *REPLICA, (F.col("action") == GcAction.KEEP).alias("planned")
    )
    stored_replicas = availability.where(F.col("state").isin(*DISK_STATES)).select(*REPLICA).distinct()
    log_rows = damaged_rows.where(F.col("ledger_id").isNotNull() & F.col("bookie_id").isNotNull())
    needed_ledger_counts = (
        log_rows.join(unlisted_forecast, [*REPLICA], "left")
        .join(stored_replicas.withColumn("had", F.lit(True)), [*REPLICA], "left")
        .withColumn("stays", F.coalesce("planned", "had", F.lit(False)))
        .groupBy("path")
        .agg(
            F.sum("collected_bytes").alias("entries"),
            F.sum(F.when(F.col("stays"), F.col("collected_bytes")).otherwise(0)).alias("remain"),
        )
    )
    scan_fails = F.max(F.col("collector_scan") == CollectorScan.FAILS).alias("scan_fails")
    log_scans = damaged_rows.where(F.col("ledger_id").isNull()).groupBy("path").agg(scan_fails)
    is_newer_than_index = F.col("ledger_id").isNull() & (F.col("class") != SpaceClass.HEADERS_AND_MAPS)
    log_files = space.where((F.col("kind") == LogFileKind.LOG) & F.col("bookie_id").isNotNull())
    zero_bytes = F.lit(0).cast("long")
    return (
        log_files.groupBy("bookie_id", "directory", "path", "log_id", "current")
        .agg(
            F.sum("bytes").alias("bytes"),
            F.sum(F.when(is_newer_than_index, F.col("bytes")).otherwise(0)).alias("needed"),
        )
        .join(log_scans, "path")
        .join(needed_ledger_counts, "path", "left")
        .withColumns(
            {
                "entries": F.coalesce("entries", zero_bytes),
                "remain": F.coalesce("remain", zero_bytes),
                "unclear": F.lit(False),
            }
        )
    )


def _count_log_bytes(space: DataFrame, gc_forecast: DataFrame) -> DataFrame:
    """Return one row per log, with its length in ``bytes`` and with three parts of these bytes.

    ``entries`` are the bytes of entries. ``needed`` are bytes that may be the last copy of an entry.
    ``remain`` are the bytes of ledgers that the bookie still has after the next pass. Logs with bytes of an
    unclear class (owner-unknown or not-yet-mapped) are left out. The newest log of a directory
    (``current``) is an exception, because its end is always unclear.
    """
    unlisted_forecast = gc_forecast.where(F.col("pass") == GcPass.LISTING).select(
        *REPLICA, (F.col("action") == GcAction.KEEP).alias("planned")
    )
    has_ledger = F.col("ledger_id").isNotNull()
    unclear_classes = (SpaceClass.OWNER_UNKNOWN, SpaceClass.NOT_YET_MAPPED)
    # Superseded bytes of a ledger that is no longer on the bookie have no row in gc_foresight.
    remaining_bytes = F.coalesce("planned", "remains")
    rows = space.where((F.col("kind") == LogFileKind.LOG) & F.col("bookie_id").isNotNull()).join(
        unlisted_forecast, [*REPLICA], "left"
    )
    return (
        rows.groupBy("bookie_id", "directory", "path", "log_id", "current")
        .agg(
            F.sum("bytes").alias("bytes"),
            F.coalesce(F.sum(F.when(has_ledger, F.col("bytes"))), F.lit(0)).alias("entries"),
            F.coalesce(F.sum(F.when(has_ledger & remaining_bytes, F.col("bytes"))), F.lit(0)).alias("remain"),
            F.sum(F.when(F.col("class").isin(*NOT_RECLAIMABLE), F.col("bytes")).otherwise(0)).alias("needed"),
            F.max(
                F.col("class").isin(*unclear_classes) & (~F.col("current") | has_ledger & ~remaining_bytes)
            ).alias("unclear"),
        )
        .where("current or not unclear")
    )


DELETION_CANDIDATES = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    (
        "path",
        pa.string(),
        "a log that, according to its ledgers map, garbage collection will delete next or compaction "
        "will rewrite next",
    ),
    ("bytes", pa.int64(), "length of the log"),
    (
        "state",
        pa.string(),
        "ok. map-wrong: the entries contradict the ledgers map. damaged: a damaged record hides "
        "other records. unreadable: the log was not read",
    ),
    ("reason", pa.string(), "reason why the state is not ok; null: it is ok"),
)
"""The table ``deletion_candidates``."""


def deletion_candidates(entry_logs: DataFrame, log_foresight: DataFrame) -> DataFrame:
    """Return the rows of `DELETION_CANDIDATES`. The arguments are the tables of these names."""
    logs_counted_by_map = entry_logs.where(
        F.col("ledger_id").isNull() & (F.col("counted") == MAP_SOURCE)
    ).select("path")
    is_outside_collection = ~F.col("path").contains(COLLECTION_SEPARATOR)
    logs_to_rewrite = log_foresight.where(
        (F.col("action") != GcAction.KEEP) & ~suspends_action() & is_outside_collection
    )
    logs = logs_to_rewrite.join(logs_counted_by_map, "path", "left_semi")
    task_count = logs.sparkSession.sparkContext.defaultParallelism
    schema = spark_types(DELETION_CANDIDATES)
    is_rewritten = (F.col("action") != GcAction.DELETE).alias("rewritten")
    return (
        logs.select("bookie_id", "path", "bytes", is_rewritten)
        .repartition(task_count)
        .mapInArrow(_compare_maps, schema)
    )


MAX_REWRITTEN_BYTES = 4 << 30
"""Approximate limit of the bytes that one task reads from logs that compaction rewrites."""

OVER_LIMIT_REASON = (
    f"one task reads at most {MAX_REWRITTEN_BYTES >> 30} GB of the logs that compaction rewrites"
)


def _compare_maps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    unread_bytes = MAX_REWRITTEN_BYTES
    for batch in batches:
        for row in batch.to_pylist():
            if row.pop("rewritten"):
                if unread_bytes <= 0:
                    unread_row = {"state": EntryLogState.UNREADABLE.value, "reason": OVER_LIMIT_REASON}
                    yield pa.RecordBatch.from_pylist([row | unread_row], schema=DELETION_CANDIDATES)
                    continue
                unread_bytes -= row["bytes"]
            yield pa.RecordBatch.from_pylist([row | compare_map(row["path"])], schema=DELETION_CANDIDATES)


def compare_map(path: str) -> dict[str, str | None]:
    """Compare the ledgers map of one log with all entries of the log. Return the state and the reason.

    >>> compare_map("/no/such/log")
    {'state': 'unreadable', 'reason': 'No such file or directory'}
    """
    try:
        log_contents = read_contents(path, verify=True)
    except OSError as error:
        # A running bookie may have deleted the log since, as forecast.
        return {"state": EntryLogState.UNREADABLE.value, "reason": error.strerror or str(error)}
    if log_contents.map_damage is not None and not log_contents.is_map_unreadable:
        return {"state": EntryLogState.MAP_WRONG.value, "reason": log_contents.map_damage.reason}
    if log_contents.collector_scan is not None:
        reason = (
            str(log_contents.damage)
            if log_contents.damage
            else "some records are not entries, or are cut off"
        )
        return {"state": EntryLogState.DAMAGED.value, "reason": reason}
    if log_contents.damage is not None:
        return {"state": EntryLogState.UNREADABLE.value, "reason": str(log_contents.damage)}
    return {"state": EntryLogState.OK.value, "reason": None}
