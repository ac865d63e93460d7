"""Entries that are in an entry log but not in the index, for findings about ledgers."""

from auditor.checks.finding_rows import list_entry_groups
from auditor.model.columns import LEDGER
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables

MAX_EVIDENCE_LOGS = 20
"""Largest number of entry logs in the evidence of one ledger; the table log_entries has all."""

MAX_MESSAGE_LOGS = 3
"""Largest number of entry logs that a message names."""

_LOG_ARRAY_TYPE = (
    "array<struct<bookie_id: string, log_id: bigint, path: string, groups: array<array<bigint>>, "
    "entries: bigint, lost_entries: bigint, bytes: bigint, reason: string>>"
)


def with_entry_logs(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add ``in_entry_logs`` and ``entry_logs_total`` to rows about a ledger.

    Returns:
        ``in_entry_logs`` has one struct per entry log that has needed entries of the ledger, if the bookie's
        index lacks these entries. Logs are ordered by the number of entries that no index has, largest
        first. There are at most `MAX_EVIDENCE_LOGS`. ``entry_logs_total`` is the number of all such logs.
        Both columns are null if the run read no such log, for example without ``--entry-logs``. Logs whose
        entries were not read, such as logs in the tables of ``bkaudit collect``, are only in the table
        log_entries.
    """
    if "log_entries" not in tables.frames:
        null_column = F.lit(None)
        return rows.withColumns(
            {
                "in_entry_logs": null_column.cast(_LOG_ARRAY_TYPE),
                "entry_logs_total": null_column.cast("bigint"),
            }
        )
    log = F.struct(
        (-F.coalesce("lost_entries", F.lit(0))).alias("order"),
        "bookie_id",
        "log_id",
        "path",
        F.col("groups").alias("packed"),
        "entries",
        "lost_entries",
        F.col("needed_bytes").alias("bytes"),
        "reason",
    )
    logs_by_ledger = (
        tables.log_entries.where("groups is not null")
        .groupBy(*LEDGER)
        .agg(
            F.slice(F.array_sort(F.collect_list(log)), 1, MAX_EVIDENCE_LOGS).alias("logs"),
            F.count("*").alias("entry_logs_total"),
        )
    )
    log_structs = F.transform(
        "logs",
        lambda log_struct: F.struct(
            log_struct["bookie_id"].alias("bookie_id"),
            log_struct["log_id"].alias("log_id"),
            log_struct["path"].alias("path"),
            list_entry_groups(log_struct["packed"]).alias("groups"),
            log_struct["entries"].alias("entries"),
            log_struct["lost_entries"].alias("lost_entries"),
            log_struct["bytes"].alias("bytes"),
            log_struct["reason"].alias("reason"),
        ),
    )
    ledger_logs = logs_by_ledger.select(*LEDGER, log_structs.alias("in_entry_logs"), "entry_logs_total")
    return rows.join(ledger_logs, [*LEDGER], "left")


def in_entry_logs(is_lost_entry_log: Column) -> Column:
    """Return the part of a message that names the entry logs of `with_entry_logs`, or an empty text.

    Args:
        is_lost_entry_log: Whether the row is about entries that no index has. If so, the text names only
            logs with such entries.
    """
    lost_entry_count = F.col("class_entries.count")

    def log_text(log: Column) -> Column:
        name = F.concat(F.lit("entry log "), log["log_id"].cast("string"), F.lit(" of "), log["bookie_id"])
        all_bytes_text = F.when(lost_entry_count == 1, "has the bytes of this entry").otherwise(
            "has the bytes of these entries"
        )
        some_bytes_text = F.concat(
            F.lit("has the bytes of "), log["lost_entries"].cast("string"), F.lit(" of these entries")
        )
        lost_entries_text = F.when(log["lost_entries"] >= lost_entry_count, all_bytes_text).otherwise(
            some_bytes_text
        )
        entry_count_text = F.when(log["entries"] == 1, "1 entry").otherwise(
            F.concat(log["entries"].cast("string"), F.lit(" entries"))
        )
        unindexed_entries_text = F.concat(F.lit("has "), entry_count_text, F.lit(" missing from its index"))
        return F.concat(
            name, F.lit(" "), F.when(is_lost_entry_log, lost_entries_text).otherwise(unindexed_entries_text)
        )

    listed_logs = F.filter("in_entry_logs", lambda log: ~is_lost_entry_log | (log["lost_entries"] > 0))
    log_names_text = F.array_join(F.transform(F.slice(listed_logs, 1, MAX_MESSAGE_LOGS), log_text), ", ")
    log_count = F.col("entry_logs_total")
    hidden_log_count = (
        F.when(log_count > MAX_EVIDENCE_LOGS, log_count).otherwise(F.size(listed_logs)) - MAX_MESSAGE_LOGS
    )
    remainder_text = F.when(
        hidden_log_count > 0, F.concat(F.lit(" and "), hidden_log_count.cast("string"), F.lit(" more"))
    ).otherwise("")
    return F.when(F.size(listed_logs) > 0, F.concat(F.lit("; "), log_names_text, remainder_text)).otherwise(
        ""
    )
