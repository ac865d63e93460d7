"""unseen_entries: indexed entries that a garbage collector does not see in their entry log.

A record with a wrong size hides later records from every reader of a log's entries. Compaction is such a
reader. The collector also reads the entries if the log has no ledgers map
(`auditor.codecs.bookie.collector_scan`). The bookie still serves the hidden entries, because its index has
their offsets. They are lost together with the log in two cases. Either the collector counts no needed ledger
in the log, or compaction rewrites only the records that it sees.

The table covers logs with signs of damage (``collector_scan`` of entry_logs). It also covers damaged logs
that are deleted or rewritten next (deletion_candidates). Each log is read once more, headers only.

The number of a ledger's hidden entries is a lower bound. It is the larger of two numbers. For the first
number (0, 1 or 2), the program takes the ledger's first and last location in the log. It counts the locations
without a record in the scan. The second number is the number of indexed entries, minus the number of the
ledger's records that the scan finds. Only records from the first to the last location count.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.codecs.bookie.collector_scan import scan_log
from auditor.codecs.bookie.entry_log import DIRECT_HEADER_BYTES, is_direct
from auditor.codecs.bookie.length_prefixed import LENGTH_STRUCT
from auditor.model.columns import LEDGER, make_schema
from auditor.model.states import CollectorScan, EntryLogState, LogFileKind
from auditor.sources.bookies.collections.places import COLLECTION_SEPARATOR
from auditor.sources.bookies.entry_logs.reader import open_log
from auditor.spark import functions as F
from auditor.spark.part_tables import spark_types
from auditor.spark.types import DataFrame
from auditor.tables.log_entries import NOT_IN_COLLECTION

UNSEEN_ENTRIES = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("path", pa.string(), "the log"),
    ("log_id", pa.int64(), "id of the log"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("entries", pa.int64(), "number of the ledger's entries that the index locates in this log"),
    (
        "unseen",
        pa.int64(),
        "smallest possible number of the entries that a damaged record hides; null: not known",
    ),
    ("offset", pa.int64(), "byte offset of one of the hidden entries, according to the index"),
    (
        "may_fail",
        pa.bool_(),
        "whether garbage collection may skip the log, because its scan may run out of memory",
    ),
    ("reason", pa.string(), "reason why the number of hidden entries is not known"),
)
"""The table ``unseen_entries``."""

_LOG_KEY = ("bookie_id", "logger", "log_id")


def unseen_entries(entry_logs: DataFrame, locations: DataFrame, deletion_candidates: DataFrame) -> DataFrame:
    """Return the rows of `UNSEEN_ENTRIES`. The arguments are the tables of these names."""
    log_rows = entry_logs.where(
        F.col("ledger_id").isNull() & F.col("bookie_id").isNotNull() & (F.col("kind") == LogFileKind.LOG)
    )
    candidate_logs = deletion_candidates.where(F.col("state") == EntryLogState.DAMAGED).select(
        "path", F.lit(True).alias("going")
    )
    is_scan_damaged = F.col("collector_scan").isin(CollectorScan.COUNTS, CollectorScan.MAY_FAIL)
    damaged_logs = log_rows.join(F.broadcast(candidate_logs), "path", "left").where(
        is_scan_damaged | F.col("going")
    )
    read_end_offset = F.col("bytes") - F.coalesce("tail_bytes", F.lit(0))
    located_ledgers = locations.where(F.col("log_id").isNotNull()).groupBy(*_LOG_KEY, *LEDGER).agg(
        F.sum("entries").alias("entries"),
        F.min("first_offset").alias("first"),
        F.max("last_offset").alias("last"),
    )  # fmt: skip
    ledger_struct = F.struct(*LEDGER, "entries", "first", "last")
    ledgers_by_log = (
        damaged_logs.select(*_LOG_KEY, "path", read_end_offset.alias("read_to"))
        .join(located_ledgers, [*_LOG_KEY])
        .groupBy("bookie_id", "path", "log_id", "read_to")
        .agg(F.collect_list(ledger_struct).alias("ledgers"))
    )
    task_count = ledgers_by_log.sparkSession.sparkContext.defaultParallelism
    return ledgers_by_log.repartition(task_count).mapInArrow(_read_unseen_rows, spark_types(UNSEEN_ENTRIES))


def _read_unseen_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for log in batch.to_pylist():
            ledgers, read_end_offset = log.pop("ledgers"), log.pop("read_to")
            rows = find_unseen_rows(log["path"], ledgers, read_end_offset)
            if rows:
                yield pa.RecordBatch.from_pylist([log | row for row in rows], schema=UNSEEN_ENTRIES)


def find_unseen_rows(
    path: str, ledgers: list[dict[str, Any]], read_end_offset: int | None
) -> list[dict[str, Any]]:
    """Return the rows of one log for the ledgers that the index locates in it.

    If the collector's scan of the log fails, the collector keeps the log, and there are no rows. If the log
    cannot be read now, there are rows for the ledgers that the index locates after byte ``read_end_offset``.
    This is the byte up to which the audit read the log before.
    """
    if COLLECTION_SEPARATOR in path:
        return [
            _unknown_row(ledger, NOT_IN_COLLECTION)
            for ledger in ledgers
            if ledger["last"] > (read_end_offset or 0)
        ]
    try:
        with open_log(path) as (read_bytes, file_status):
            is_direct_log = is_direct(read_bytes(0, DIRECT_HEADER_BYTES))
            log_scan = scan_log(read_bytes, file_status.st_size, is_direct_log)
    except OSError as error:
        # A running bookie may have deleted the log since.
        reason = error.strerror or str(error)
        return [
            _unknown_row(log_ledger, reason)
            for log_ledger in ledgers
            if log_ledger["last"] > (read_end_offset or 0)
        ]
    if log_scan is None:
        return []
    rows = []
    for ledger_row in ledgers:
        # An index has the offset after the four bytes of a record's size.
        entry_offsets = np.unique(
            np.array([ledger_row["first"], ledger_row["last"]], np.int64) - LENGTH_STRUCT.size
        )
        unseen_offsets = entry_offsets[~log_scan.contains(entry_offsets)]
        ledger_records = slice(*np.searchsorted(log_scan.offsets, [entry_offsets[0], entry_offsets[-1] + 1]))
        seen_count = int((log_scan.ledger_ids[ledger_records] == ledger_row["ledger_id"]).sum())
        unseen_count = max(len(unseen_offsets), ledger_row["entries"] - seen_count)
        if unseen_count > 0 and not ledger_row["scope_id"]:
            first_unseen_offset = int(unseen_offsets[0]) + LENGTH_STRUCT.size if len(unseen_offsets) else None
            rows.append(
                _ledger_columns(ledger_row)
                | {"unseen": unseen_count, "offset": first_unseen_offset, "may_fail": log_scan.may_fail}
            )
    return rows


def _unknown_row(ledger_row: dict[str, Any], reason: str) -> dict[str, Any]:
    return _ledger_columns(ledger_row) | {"offset": ledger_row["last"], "reason": reason}


def _ledger_columns(ledger_row: dict[str, Any]) -> dict[str, Any]:
    return {column_name: ledger_row[column_name] for column_name in (*LEDGER, "entries")}
