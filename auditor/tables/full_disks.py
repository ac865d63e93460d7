"""Full disks, and their effect on compaction.

A garbage collector monitors how full its ledger directories are. Above diskUsageWarnThreshold it suspends
major compaction. Above diskUsageThreshold it suspends minor compaction too. With isForceGCAllowWhenNoSpace
it does not suspend compaction. Instead it collects garbage and compacts at once. A bookie with
DbLedgerStorage has one collector per ledger directory. With other storages, a bookie has only one
collector, and a single full directory suspends compaction in all directories.
"""

from auditor.model.collector_settings import CollectorSettings
from auditor.model.states import FullDisk, GcAction
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame


def add_full_disk(
    logs: DataFrame, entry_logs: DataFrame, disks: DataFrame | None, settings: CollectorSettings
) -> DataFrame:
    """Add the column ``full_disk`` to ``logs``: how a full disk affects compaction of the log.

    It is null if the disk has room or its usage is unknown.

    Args:
        logs: Rows with ``bookie_id`` and ``directory``.
        entry_logs: The table of that name. Its ``logger`` is the number of a directory's collector.
        disks: The table of that name, or None if its free bytes are not those of the bookies' own disks.
        settings: Thresholds of the collectors.
    """
    if disks is None:
        return logs.withColumn("full_disk", F.lit(None).cast("string"))
    used_share = 1 - F.col("free_bytes") / F.col("capacity_bytes")
    disk_usage = disks.where("capacity_bytes > 0").select("directory", used_share.alias("used"))
    # A database in a directory does not prove DbLedgerStorage: a collector may keep its metadata cache there.
    loggers_by_directory = entry_logs.groupBy("directory").agg(F.max("logger").alias("logger"))
    rows = logs.join(F.broadcast(disk_usage), "directory", "left").join(
        F.broadcast(loggers_by_directory), "directory", "left"
    )
    logger_usage = F.max("used").over(F.Window.partitionBy("bookie_id", "logger"))
    is_gc_forced = F.lit(settings.forced_when_full)
    disk_state = (
        F.when((logger_usage > settings.disk_warn_threshold) & is_gc_forced, FullDisk.FORCED)
        .when(logger_usage > settings.disk_threshold, FullDisk.FULL)
        .when(logger_usage > settings.disk_warn_threshold, FullDisk.ALMOST_FULL)
    )
    return rows.withColumn("full_disk", disk_state).drop("used", "logger")


def suspends_action() -> Column:
    """Return a condition that is True if a full disk suspends the log's ``action``.

    It can be True only for minor or major compaction.
    """
    is_full, is_almost_full = (
        F.col("full_disk") == disk_state.value for disk_state in (FullDisk.FULL, FullDisk.ALMOST_FULL)
    )
    is_minor_compaction, is_major_compaction = (
        F.col("action") == gc_action.value for gc_action in (GcAction.MINOR, GcAction.MAJOR)
    )
    return F.coalesce(
        (is_full & (is_minor_compaction | is_major_compaction)) | (is_almost_full & is_major_compaction),
        F.lit(False),
    )
