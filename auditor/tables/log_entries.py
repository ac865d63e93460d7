"""log_entries: entries that a bookie's index lacks, but that an entry log of the bookie contains.

A row is a ledger in an entry log, in one of two cases. The bookie's index lacks entries of the ledger, or no
bookie's index has some of its entries any more. A single task reads each log once, headers only. If a log
contains none of these entries, the ledger has no row for the log. The index then locates all needed entries
in other logs, and the ledger's bytes in this log are superseded.

The judgement of the ledger (table ``judged``) tells whether an entry is needed:

    missing, lagging     the segment that contains the entry names the bookie, and its index lacks the entry
    gone (gone_entries)  the index locates the entry in a log that does not exist
    no copy left         no index has the entry: bytes of the entry on any bookie count
    any entry            an ensemble names the bookie, its index locates no entry of the ledger, and the
                         ledger is not closed or its copies are unknown: all its entries in the log are
                         needed

Two kinds of logs are not read. The first kind are logs of directories from ``bkaudit collect``, which
copies no logs. The second kind are logs beyond the number of bytes that a task may read. Their entries are
unknown, and the row gives the reason.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability import coverage
from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import GROUP, Groups, Longs
from auditor.model.columns import LEDGER, REPLICA, make_schema
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LedgerClass, LogFileKind, UnknownCopy
from auditor.sources.bookies.collections.places import COLLECTION_SEPARATOR
from auditor.sources.bookies.entry_logs.reader import read_ledger_entries
from auditor.spark import functions as F
from auditor.spark.part_tables import spark_types
from auditor.spark.types import Column, DataFrame
from auditor.tables.verdicts import class_column

LOG_ENTRIES = make_schema(
    ("bookie_id", pa.string(), "the bookie"),
    ("directory", pa.string(), "the ledger directory"),
    ("path", pa.string(), "the log"),
    ("log_id", pa.int64(), "its id"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("bytes", pa.int64(), "number of the ledger's bytes in the log"),
    (
        "groups",
        pa.binary(),
        "entries in this log that the bookie's index should have but lacks, as groups of 24 bytes; "
        "null: not known",
    ),
    ("entries", pa.int64(), "number of entries in this log that the bookie's index should have but lacks"),
    (
        "needed_bytes",
        pa.int64(),
        "bytes of this log that belong to entries that the bookie's index should have but lacks",
    ),
    (
        "lost",
        pa.binary(),
        "entries in the column groups that no bookie's index has any more, as groups of 24 bytes; null: not "
        "known",
    ),
    ("lost_entries", pa.int64(), "number of entries in lost"),
    ("reason", pa.string(), "reason why the log was not read, or was not read to its end"),
)
"""The table ``log_entries``."""

MAX_TASK_BYTES = 4 << 30
"""Approximate limit of entry log bytes that one task reads.

It matters for a bookie without an index, because all its logs are then read.
"""

NOT_IN_COLLECTION = "bkaudit collect copied no entry logs"
OVER_LIMIT_REASON = f"one task reads at most {MAX_TASK_BYTES >> 30} GB of entry logs"

_LOG_COLUMNS = ("bookie_id", "directory", "path", "log_id")
_REASONS_WITHOUT_ENTRIES = (UnknownCopy.LIMBO, UnknownCopy.NOT_INDEXED, UnknownCopy.NOT_ASKED)
"""Reasons for unknown copies with which the table judged does not say which entries the index lacks."""


def log_entries(
    entry_logs: DataFrame,
    locations: DataFrame,
    ledgers: DataFrame,
    judged_ledgers: DataFrame,
    gone_entries: DataFrame,
) -> DataFrame:
    """Return the rows of `LOG_ENTRIES`. The arguments are the tables of these names."""
    logged_ledgers = entry_logs.where(
        F.col("ledger_id").isNotNull()
        & F.col("bookie_id").isNotNull()
        & (F.col("kind") == LogFileKind.LOG)
        & (F.col("entry_bytes") > 0)
    ).select(*_LOG_COLUMNS, *LEDGER, F.col("entry_bytes").alias("bytes"))
    # Entries that the index locates in a missing log may be in another log, whatever their judgement is.
    gone_replicas = gone_entries.select(
        *LEDGER, "bookie_id", F.col("groups").alias("wanted"), *_any_entry_columns()
    )
    incomplete_replicas = _find_incomplete_replicas(locations, ledgers, judged_ledgers).unionByName(
        gone_replicas
    )
    logged_replicas = logged_ledgers.join(incomplete_replicas, [*REPLICA])
    lost_copies = logged_ledgers.join(_find_lost_copies(judged_ledgers), [*LEDGER])
    log_ledgers = logged_replicas.unionByName(lost_copies).groupBy(*_LOG_COLUMNS, *LEDGER).agg(
        F.max("bytes").alias("bytes"),
        F.collect_list("wanted").alias("wanted"),
        F.max("any_entry").alias("any_entry"),
        F.max("no_copy").alias("no_copy"),
    )  # fmt: skip
    ledger_request = F.struct(*LEDGER, "bytes", "wanted", "any_entry", "no_copy")
    logs = log_ledgers.groupBy(*_LOG_COLUMNS).agg(F.collect_list(ledger_request).alias("parts"))
    task_count = logs.sparkSession.sparkContext.defaultParallelism
    return logs.repartition(task_count).mapInArrow(_read_logs, spark_types(LOG_ENTRIES))


def _find_incomplete_replicas(
    locations: DataFrame, ledgers: DataFrame, judged_ledgers: DataFrame
) -> DataFrame:
    """Return the replicas whose index lacks entries.

    ``wanted`` has the entries that the index lacks. It is null if all entries are needed.
    """

    def explode_replica_sets(column: str) -> DataFrame:
        ledger_request = judged_ledgers.select(*LEDGER, F.explode(column).alias("part"))
        return ledger_request.select(
            *LEDGER, "part.bookie_id", F.col("part.groups").alias("wanted"), *_any_entry_columns()
        )

    unknown_copies = judged_ledgers.select(*LEDGER, F.explode("unknown").alias("part")).where(
        F.col("part.why").isin([str(unknown_reason) for unknown_reason in _REASONS_WITHOUT_ENTRIES])
    )
    unclosed_ledgers = ledgers.where(
        F.col("ledger_id").isNotNull() & ~F.col("undecidable") & (F.col("state") != LedgerState.CLOSED)
    ).select(*LEDGER, F.explode("replicas").alias("part"))
    any_entry_replicas = unknown_copies.select(*LEDGER, "part.bookie_id").unionByName(
        unclosed_ledgers.select(*LEDGER, "part.bookie_id")
    )
    located_replicas = locations.where(F.col("log_id").isNotNull()).select(*REPLICA).distinct()
    null_groups = F.lit(None).cast("binary")
    unlocated_replicas = any_entry_replicas.distinct().join(located_replicas, [*REPLICA], "left_anti").select(
        *LEDGER, "bookie_id", null_groups.alias("wanted"), *_any_entry_columns(needs_any_entry=True)
    )  # fmt: skip
    return (
        explode_replica_sets("missing")
        .unionByName(explode_replica_sets("lagging"))
        .unionByName(unlocated_replicas)
    )


def _find_lost_copies(judged_ledgers: DataFrame) -> DataFrame:
    """Return the ledgers with entries that no bookie's index has.

    The logs of any bookie may contain these entries.
    """
    lost_entry_groups = F.col("class_entries.groups")
    return judged_ledgers.where(class_column("m") == LedgerClass.ENTRY_LOST).select(
        *LEDGER,
        lost_entry_groups.alias("wanted"),
        lost_entry_groups.isNull().alias("any_entry"),
        lost_entry_groups.alias("no_copy"),
    )


def _any_entry_columns(needs_any_entry: bool = False) -> tuple[Column, Column]:
    return F.lit(needs_any_entry).alias("any_entry"), F.lit(None).cast("binary").alias("no_copy")


def _read_logs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    bytes_left = MAX_TASK_BYTES
    for batch in batches:
        for log in batch.to_pylist():
            ledger_requests = log.pop("parts")
            reason = None
            if COLLECTION_SEPARATOR in log["path"]:
                reason = NOT_IN_COLLECTION
            elif bytes_left <= 0:
                reason = OVER_LIMIT_REASON
            if reason is None:
                rows, log_bytes = read_log_rows(log["path"], ledger_requests)
                bytes_left -= log_bytes
            else:
                rows = [_unknown_row(ledger_request, reason) for ledger_request in ledger_requests]
            if rows:
                yield pa.RecordBatch.from_pylist([log | row for row in rows], schema=LOG_ENTRIES)


def read_log_rows(path: str, ledger_requests: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of one log for the ledgers of ``ledger_requests``, and the length of the log in bytes.

    A ledger without a needed entry in the log has no row.
    """
    requested_ids = np.unique(np.array([ledger_row["ledger_id"] for ledger_row in ledger_requests], np.int64))
    try:
        logged_entries = read_ledger_entries(path, requested_ids)
    except OSError as error:
        # A running bookie may have deleted the log since.
        reason = error.strerror or str(error)
        return [_unknown_row(ledger_row, reason) for ledger_row in ledger_requests], 0
    # Sorted once: a log may have entries of a hundred thousand ledgers.
    sorted_positions = np.argsort(logged_entries.ledger_ids, kind="stable")
    sorted_ids = logged_entries.ledger_ids[sorted_positions]
    rows = []
    for ledger_request in ledger_requests:
        row_start, row_end = np.searchsorted(
            sorted_ids, [ledger_request["ledger_id"], ledger_request["ledger_id"] + 1]
        )
        rows_of_ledger = sorted_positions[row_start:row_end]
        rows_of_ledger = rows_of_ledger[
            logged_entries.scope_ids[rows_of_ledger] == ledger_request["scope_id"]
        ]
        row = _ledger_row_of_log(
            ledger_request,
            logged_entries.entry_ids[rows_of_ledger],
            logged_entries.sizes[rows_of_ledger],
            logged_entries.damage,
        )
        if row is not None:
            rows.append(row)
    return rows, logged_entries.log_bytes


def _unknown_row(ledger_request: dict[str, Any], reason: str) -> dict[str, Any]:
    return {name: ledger_request[name] for name in (*LEDGER, "bytes")} | {"reason": reason}


def _ledger_row_of_log(
    ledger_request: dict[str, Any], entries: Longs, sizes: Longs, damage: str | None
) -> dict[str, Any] | None:
    """Return the row of one ledger, or None if the log was read to its end and has no needed entry.

    ``damage`` says why the log was not read to its end. It is None if the log was read to its end.
    """
    is_lost_entry = np.zeros(len(entries), np.bool_)
    if ledger_request["no_copy"] is not None:
        is_lost_entry = coverage.contains(_groups_of_bytes(ledger_request["no_copy"]), entries)
    is_needed_entry = is_lost_entry | _is_needed_by_index(ledger_request, entries)
    if not is_needed_entry.any():
        return None if damage is None else _unknown_row(ledger_request, damage)
    needed_entries, lost_entries = np.unique(entries[is_needed_entry]), np.unique(entries[is_lost_entry])
    return {
        **{name: ledger_request[name] for name in (*LEDGER, "bytes")},
        "groups": _pack_entries(needed_entries),
        "entries": len(needed_entries),
        "needed_bytes": int(sizes[is_needed_entry].sum()),
        "lost": _pack_entries(lost_entries),
        "lost_entries": len(lost_entries),
        "reason": damage,
    }


def _is_needed_by_index(ledger_request: dict[str, Any], entries: Longs) -> NDArray[np.bool_]:
    if ledger_request["any_entry"]:
        return np.ones(len(entries), np.bool_)
    is_needed = np.zeros(len(entries), np.bool_)
    for groups in ledger_request["wanted"]:
        is_needed |= coverage.contains(_groups_of_bytes(groups), entries)
    return is_needed


def _groups_of_bytes(packed_groups: bytes) -> Groups:
    return np.frombuffer(packed_groups, GROUP)


def _pack_entries(entries: Longs) -> bytes:
    return fold_entries(entries, np.array([0, len(entries)], np.int64)).tobytes()
