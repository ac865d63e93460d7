"""Bookie data that a run could not read. Holds of an earlier run that depend on such data are not lifted."""

from collections.abc import Collection

from auditor.actions.memory import ledgers_with_unread_record, undecided_ledgers
from auditor.model.columns import LEDGER
from auditor.model.holds import HoldObject
from auditor.model.states import LOGS_NOT_WHOLE, VANISHED, GcAction, GcVerdict, IndexState, SpaceClass
from auditor.spark import functions as F
from auditor.spark.table_queries import TableQuery, asks_tables, collect_query
from auditor.spark.types import DataFrame
from auditor.tables import Tables

_UNREAD_INDEX = (IndexState.CUT, IndexState.UNREADABLE, IndexState.GAP, IndexState.DAMAGED)
"""States of an index, or of a part of an index, whose content is not fully known."""


def bookies_with_unread_index(tables: Tables) -> frozenset[str]:
    """Return the bookies with an index that could not be read, or not completely."""
    return _bookies_of(_unread_indexes, tables)


@asks_tables("unreadable_indexes")
def _unread_indexes(tables: Tables) -> DataFrame:
    is_unread = F.col("state").isin(*_UNREAD_INDEX) & ~F.col("reason").eqNullSafe(VANISHED)
    return tables.availability.where(is_unread)


def unread_logs(tables: Tables) -> DataFrame | None:
    """Return bookie_id and log_id of logs that were not read to their end. None if no log was read.

    A null log_id means all logs of the bookie, because a directory could not be listed.
    """
    if "entry_logs" not in tables.frames:
        return None
    is_unread = F.col("ledger_id").isNull() & F.col("state").isin(*LOGS_NOT_WHOLE)
    rows = tables.entry_logs.where(is_unread & F.col("bookie_id").isNotNull())
    return rows.select("bookie_id", "log_id").distinct()


def logs_with_unknown_bytes(tables: Tables) -> DataFrame | None:
    """Return the rows of `unread_logs`, and further rows for logs with bytes of unknown owner."""
    unread_parts = unread_logs(tables)
    if unread_parts is None or "space" not in tables.frames:
        return unread_parts
    is_unknown = (F.col("class") == SpaceClass.OWNER_UNKNOWN) & F.col("bookie_id").isNotNull()
    return unread_parts.unionByName(tables.space.where(is_unknown).select("bookie_id", "log_id")).distinct()


def bookies_with_unread_logs(tables: Tables) -> frozenset[str]:
    """Return the bookies with a log that was not read to its end, or a directory that was not listed."""
    unread_parts = unread_logs(tables)
    rows = [] if unread_parts is None else unread_parts.select("bookie_id").distinct().collect()
    return frozenset(row["bookie_id"] for row in rows)


def unread_log_holds(tables: Tables, earlier: DataFrame) -> frozenset[str]:
    """Return the keys of earlier holds on entry logs that now have unread bytes, and on their bookies."""
    unread_parts = logs_with_unknown_bytes(tables)
    if unread_parts is None:
        return frozenset()
    held_logs = earlier.where(F.col("object") == HoldObject.ENTRY_LOG).select(
        "key", F.regexp_replace("key", " [0-9]+$", "").alias("name")
    )
    unread_keys = unread_parts.select(
        F.concat_ws(" ", "bookie_id", F.col("log_id").cast("string")).alias("unread")
    )
    # The key of a directory that could not be listed is its bookie's.
    is_same_log = (F.col("key") == F.col("unread")) | (F.col("name") == F.col("unread"))
    rows = held_logs.join(F.broadcast(unread_keys), is_same_log, "left_semi").collect()
    return frozenset(name for row in rows for name in (row["key"], row["name"]))


_ON_ANSWERS = "index-incomplete"
"""Check for entries that a bookie serves but its index lacks.

Only answers of the bookie show such entries.
"""


def doubted_by_answers(tables: Tables, earlier: DataFrame) -> frozenset[tuple[str, str | None]]:
    """Return pairs of the check `_ON_ANSWERS` and each bookie with a copy that may be present or missing.

    Earlier holds of these pairs stay, because an answer of the bookie might show the copy. The result is
    empty if the earlier run has no hold of this check.
    """
    if earlier.where(F.col("reason") == _ON_ANSWERS).isEmpty():
        return frozenset()
    names = tables.judged.select(F.explode("unknown.bookie_id").alias("bookie_id")).distinct().collect()
    return frozenset((_ON_ANSWERS, row["bookie_id"]) for row in names)


def doubted_by_foresight(
    tables: Tables, unread_records: Collection[str]
) -> frozenset[tuple[str, str | None]]:
    """Return gc-would-delete-live paired with each bookie whose garbage collection may delete a needed copy.

    ``unread_records`` are bookies with copies of ledgers whose metadata records could not be decoded. Such a
    record says neither whether an ensemble names the bookie, nor how many other copies there should be.
    """
    names = {
        *unread_records,
        *_bookies_of(_doubted_deletions, tables),
        *_bookies_of(_doubted_foreign_copies, tables),
    }
    return frozenset(("gc-would-delete-live", name) for name in names)


@asks_tables("gc_foresight")
def _doubted_deletions(tables: Tables) -> DataFrame:
    is_doubt = (F.col("action") == GcAction.DELETE) & (F.col("verdict") == GcVerdict.UNKNOWN)
    return tables.gc_foresight.where(is_doubt)


@asks_tables("over_replicated")
def _doubted_foreign_copies(tables: Tables) -> DataFrame:
    # A copy that no ensemble names may be the last one while another copy is unknown.
    return tables.over_replicated.join(undecided_ledgers(tables), [*LEDGER], "left_semi")


def _bookies_of(query: TableQuery[Tables], tables: Tables) -> frozenset[str]:
    bookies = TableQuery[Tables](
        query.asks, lambda asked_tables: query(asked_tables).select("bookie_id").distinct()
    )
    return frozenset(row["bookie_id"] for row in collect_query(bookies, tables))


def holders_of_unread_records(tables: Tables) -> frozenset[str] | None:
    """Return bookies with copies of ledgers whose metadata records could not be decoded.

    Any of these copies may be the last one. Returns None if all records could be decoded.
    """
    unread_parts = ledgers_with_unread_record(tables)
    if unread_parts.isEmpty():
        return None
    rows = tables.availability.where(F.col("ledger_id").isNotNull()).join(
        unread_parts, [*LEDGER], "left_semi"
    )
    return frozenset(row["bookie_id"] for row in rows.select("bookie_id").distinct().collect())
