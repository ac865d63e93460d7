"""Bookie data that a run could not read. Earlier bans on actions (holds) that depend on such data remain."""

from collections.abc import Collection

from auditor.actions.memory import ledgers_with_unread_record, undecided_ledgers
from auditor.model.columns import LEDGER
from auditor.model.holds import HoldObject
from auditor.model.states import DELETED_REASON, PARTIAL_LOGS, GcAction, GcVerdict, IndexState, SpaceClass
from auditor.spark import functions as F
from auditor.spark.table_queries import TableQuery, asks_tables, collect_query
from auditor.spark.types import DataFrame
from auditor.tables import Tables

_UNREAD_INDEX_STATES = (IndexState.CUT, IndexState.UNREADABLE, IndexState.GAP, IndexState.DAMAGED)
"""States in which the content of an index, or of a part of it, is not completely known."""


def bookies_with_unread_index(tables: Tables) -> frozenset[str]:
    """Return the bookies with an index that was not read, or not read completely."""
    return _collect_bookies(_unread_index_rows, tables)


@asks_tables("unreadable_indexes")
def _unread_index_rows(tables: Tables) -> DataFrame:
    is_unread = F.col("state").isin(*_UNREAD_INDEX_STATES) & ~F.col("reason").eqNullSafe(DELETED_REASON)
    return tables.availability.where(is_unread)


def query_unread_logs(tables: Tables) -> DataFrame | None:
    """Return bookie_id and log_id of logs that were not read to their end, or None without --entry-logs.

    If a directory of a bookie could not be listed, the bookie has a row with a null log_id. It means that any
    log of the bookie may be unread.
    """
    if "entry_logs" not in tables.frames:
        return None
    is_unread = F.col("ledger_id").isNull() & F.col("state").isin(*PARTIAL_LOGS)
    log_rows = tables.entry_logs.where(is_unread & F.col("bookie_id").isNotNull())
    return log_rows.select("bookie_id", "log_id").distinct()


def query_logs_with_unknown_bytes(tables: Tables) -> DataFrame | None:
    """Return rows of `query_unread_logs`, and logs with bytes of class ``owner-unknown`` (table ``space``).

    Returns None if `query_unread_logs` returns None.
    """
    unread_rows = query_unread_logs(tables)
    if unread_rows is None or "space" not in tables.frames:
        return unread_rows
    is_unknown = (F.col("class") == SpaceClass.OWNER_UNKNOWN) & F.col("bookie_id").isNotNull()
    return unread_rows.unionByName(tables.space.where(is_unknown).select("bookie_id", "log_id")).distinct()


def bookies_with_unread_logs(tables: Tables) -> frozenset[str]:
    """Return the bookies with a log that was not read to its end, or a directory that was not listed."""
    unread_rows = query_unread_logs(tables)
    rows = [] if unread_rows is None else unread_rows.select("bookie_id").distinct().collect()
    return frozenset(row["bookie_id"] for row in rows)


def keys_of_unread_log_holds(tables: Tables, earlier_holds: DataFrame) -> frozenset[str]:
    """Return the keys of earlier holds (rules that forbid actions) on entry logs that now have unread bytes.

    The result also has the keys of the bookies of these logs.
    """
    unread_rows = query_logs_with_unknown_bytes(tables)
    if unread_rows is None:
        return frozenset()
    log_holds = earlier_holds.where(F.col("object") == HoldObject.ENTRY_LOG).select(
        "key", F.regexp_replace("key", " [0-9]+$", "").alias("name")
    )
    unread_log_keys = unread_rows.select(
        F.concat_ws(" ", "bookie_id", F.col("log_id").cast("string")).alias("unread")
    )
    # For a directory that could not be listed, the log is unknown, and the key is the id of the bookie.
    is_same_log = (F.col("key") == F.col("unread")) | (F.col("name") == F.col("unread"))
    rows = log_holds.join(F.broadcast(unread_log_keys), is_same_log, "left_semi").collect()
    return frozenset(hold_key for row in rows for hold_key in (row["key"], row["name"]))


_ANSWER_CHECK = "index-incomplete"
"""Check for entries that a bookie serves but its index lacks. Answers of the bookie show these entries."""


def unchecked_answer_pairs(tables: Tables, earlier_holds: DataFrame) -> frozenset[tuple[str, str | None]]:
    """Return ("index-incomplete", bookie id) for each bookie that has an unknown copy of an entry.

    A hold forbids actions. If the check index-incomplete of an earlier run placed a hold on such a bookie,
    the hold stays in force, because an answer of the bookie might show the copy. The result is empty if the
    earlier run has no hold of this check.
    """
    if earlier_holds.where(F.col("reason") == _ANSWER_CHECK).isEmpty():
        return frozenset()
    unknown_copy_rows = (
        tables.judged.select(F.explode("unknown.bookie_id").alias("bookie_id")).distinct().collect()
    )
    return frozenset((_ANSWER_CHECK, row["bookie_id"]) for row in unknown_copy_rows)


def unchecked_forecast_pairs(
    tables: Tables, unread_records: Collection[str]
) -> frozenset[tuple[str, str | None]]:
    """Return ("gc-would-delete-live", bookie id) for each bookie that may delete a needed copy.

    A hold forbids actions. If the check gc-would-delete-live of an earlier run placed a hold on such a
    bookie, the hold stays in force. A bookie deletes copies during garbage collection. ``unread_records``
    are bookies with copies of ledgers whose metadata records could not be decoded. The ensembles of such a
    ledger are unknown, and so is the number of copies that it should have.
    """
    bookies_in_doubt = {
        *unread_records,
        *_collect_bookies(_unknown_deletion_rows, tables),
        *_collect_bookies(_unknown_foreign_copy_rows, tables),
    }
    return frozenset(("gc-would-delete-live", hold_key) for hold_key in bookies_in_doubt)


@asks_tables("gc_foresight")
def _unknown_deletion_rows(tables: Tables) -> DataFrame:
    is_undecided = (F.col("action") == GcAction.DELETE) & (F.col("verdict") == GcVerdict.UNKNOWN)
    return tables.gc_foresight.where(is_undecided)


@asks_tables("over_replicated")
def _unknown_foreign_copy_rows(tables: Tables) -> DataFrame:
    # While another copy is unknown, a copy on a bookie outside the ensembles may be the last one.
    return tables.over_replicated.join(undecided_ledgers(tables), [*LEDGER], "left_semi")


def _collect_bookies(query: TableQuery[Tables], tables: Tables) -> frozenset[str]:
    bookie_query = TableQuery[Tables](
        query.asks, lambda asked_tables: query(asked_tables).select("bookie_id").distinct()
    )
    return frozenset(row["bookie_id"] for row in collect_query(bookie_query, tables))


def holders_of_unread_records(tables: Tables) -> frozenset[str] | None:
    """Return bookies with copies of ledgers whose metadata records could not be decoded.

    Each of these copies may be the last one of its ledger. Returns None if all records could be decoded.
    """
    unread_rows = ledgers_with_unread_record(tables)
    if unread_rows.isEmpty():
        return None
    copy_rows = tables.availability.where(F.col("ledger_id").isNotNull()).join(
        unread_rows, [*LEDGER], "left_semi"
    )
    return frozenset(row["bookie_id"] for row in copy_rows.select("bookie_id").distinct().collect())
