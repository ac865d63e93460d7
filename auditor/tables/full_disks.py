"""Full disks, and what they do to compaction.

A collector is told how full its ledger directories are. Above diskUsageWarnThreshold it suspends major
compaction, above diskUsageThreshold minor compaction too, until there is room; with
isForceGCAllowWhenNoSpace it collects and compacts at once instead. A bookie on DbLedgerStorage has a
collector for each ledger directory, others have one, which any of their directories holds up.
"""

from auditor.model.collector_settings import CollectorSettings
from auditor.model.states import FullDisk, GcAction
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame


def with_full_disks(
    logs: DataFrame, entry_logs: DataFrame, disks: DataFrame | None, settings: CollectorSettings
) -> DataFrame:
    """``logs``, by ``bookie_id`` and ``directory``, with ``full_disk``; null where there is room, or no file
    system was seen.

    ``entry_logs`` is the table of that name: its ``logger`` says which collector a directory has. ``disks``
    is that table too, None where its free bytes say nothing.
    """
    if disks is None:
        return logs.withColumn("full_disk", F.lit(None).cast("string"))
    used = 1 - F.col("free_bytes") / F.col("capacity_bytes")
    disk_usage = disks.where("capacity_bytes > 0").select("directory", used.alias("used"))
    # Databases in a directory prove no DbLedgerStorage: any collector may keep a metadata-cache there.
    collectors = entry_logs.groupBy("directory").agg(F.max("logger").alias("logger"))
    rows = logs.join(F.broadcast(disk_usage), "directory", "left").join(
        F.broadcast(collectors), "directory", "left"
    )
    level = F.max("used").over(F.Window.partitionBy("bookie_id", "logger"))
    forced = F.lit(settings.forced_when_full)
    state = (
        F.when((level > settings.disk_warn_threshold) & forced, FullDisk.FORCED)
        .when(level > settings.disk_threshold, FullDisk.FULL)
        .when(level > settings.disk_warn_threshold, FullDisk.ALMOST_FULL)
    )
    return rows.withColumn("full_disk", state).drop("used", "logger")


def suspended() -> Column:
    """Whether a full disk keeps the compaction of a log, by its ``action``, from running."""
    full, almost = (
        F.col("full_disk") == disk_state.value for disk_state in (FullDisk.FULL, FullDisk.ALMOST_FULL)
    )
    minor, major = (F.col("action") == gc_action.value for gc_action in (GcAction.MINOR, GcAction.MAJOR))
    return F.coalesce((full & (minor | major)) | (almost & major), F.lit(False))
