"""gone_entries: entries that an index locates in an entry log that does not exist.

The bookie cannot read these entries, so it has no copies of them. They are removed from the held entries
before the comparison (`auditor.tables.unequal`), so that no later step counts them.

Compaction moves entries to another log while a bookie runs. It writes them to the new log, then updates the
index, and deletes the old log last. So a single reading can combine an old index with a new list of logs.
This applies to a running bookie, and to a copy of its disks. Therefore, the index and the list are read a
second time. Only entries that both readings locate in a missing log are ``agreed``. Files of ``bkaudit
collect`` cannot be read again. Entries from them count as missing if the bookie was stopped, else as unknown.

A bookie without any entry log has no rows. Either a copy of its disks left the logs out, or a disk is
missing. The check `entry-log-missing` reports that.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from auditor.codecs.availability import coverage
from auditor.errors import CoverageLimitError
from auditor.model.columns import LEDGER, REPLICA, make_schema
from auditor.model.states import GoneState
from auditor.spark import functions as F
from auditor.spark.part_tables import spark_types
from auditor.spark.types import DataFrame
from auditor.tables.judge_replicas import groups_of

GONE_ENTRIES = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    (
        "groups",
        pa.binary(),
        "entries that the index locates in a missing log, or beyond the end of a log",
    ),
    (
        "entries",
        pa.int64(),
        "number of entries that the index locates in a missing log, or beyond the end of a log",
    ),
    ("logs", pa.list_(pa.int64()), "ids of the logs that are missing or too short, at most 10"),
    (
        "state",
        pa.string(),
        "agreed: two reads of the index and of the list of logs gave the same result. once: they "
        "were read only once",
    ),
)
"""The table ``gone_entries``."""

MAX_LOGS_PER_ROW = 10
"""Largest number of missing logs that one row names."""

_LOG_LEDGER_KEY = ("bookie_id", "logger", "log_id", *LEDGER)


def find_entries_in_no_log(locations: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return the rows of ``locations`` that point to a missing log, for ledgers that are in the metadata."""
    listed_ledgers = ledgers.where("undecidable = false").select(*LEDGER)
    return locations.where("gone is not null").join(listed_ledgers, [*LEDGER], "left_semi")


def gone_entries(entries_not_in_log: DataFrame, second_locations: DataFrame | None) -> DataFrame:
    """Return the rows of `GONE_ENTRIES`: per replica, the entries that its index locates in a missing log.

    Args:
        entries_not_in_log: Rows of `find_entries_in_no_log`.
        second_locations: The table ``locations`` of the same bookies, read a second time, or None if there
            was no second reading.
    """
    log_ledger_rows = entries_not_in_log.select(*_LOG_LEDGER_KEY, "gone", F.lit(False).alias("agreed"))
    if second_locations is not None:
        has_read_error = F.max(F.col("reason").isNotNull()).alias("failed")
        reread_failures = second_locations.groupBy("bookie_id", "logger").agg(has_read_error)
        singly_read_rows = entries_not_in_log.join(
            F.broadcast(reread_failures), ["bookie_id", "logger"], "left"
        )
        log_ledger_rows = singly_read_rows.where("coalesce(failed, true)").select(
            *_LOG_LEDGER_KEY, "gone", F.lit(False).alias("agreed")
        )
        confirmed_rows = second_locations.where("gone is not null").join(
            entries_not_in_log.select(*_LOG_LEDGER_KEY).distinct(), [*_LOG_LEDGER_KEY], "left_semi"
        )
        log_ledger_rows = log_ledger_rows.unionByName(
            confirmed_rows.select(*_LOG_LEDGER_KEY, "gone", F.lit(True).alias("agreed"))
        )
    replica_entry_sets = log_ledger_rows.groupBy(*REPLICA).agg(
        F.collect_list("gone").alias("sets"),
        F.min("agreed").alias("agreed"),
        F.slice(F.array_sort(F.collect_set("log_id")), 1, MAX_LOGS_PER_ROW).alias("logs"),
    )
    return replica_entry_sets.mapInArrow(_unite_entry_sets, spark_types(GONE_ENTRIES))


def _unite_entry_sets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [row for row in map(_make_gone_entries_row, batch.to_pylist()) if row is not None]
        yield pa.RecordBatch.from_pylist(rows, schema=GONE_ENTRIES)


def _make_gone_entries_row(row: dict[str, Any]) -> dict[str, Any] | None:
    try:
        united_groups = coverage.union([groups_of(entry_set) for entry_set in row.pop("sets")])
    except CoverageLimitError:
        return None  # too irregular: the entries count as held, and entry-log-missing reports the log
    gone_state = GoneState.TWO_READS if row.pop("agreed") else GoneState.ONE_READ
    packed_groups = united_groups.tobytes()
    return row | {
        "groups": packed_groups,
        "entries": coverage.count(united_groups),
        "state": gone_state.value,
    }
