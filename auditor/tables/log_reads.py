"""Which entry logs were not read to their end: what was not found there may be there."""

from auditor.model.states import LOGS_NOT_WHOLE, SpaceClass
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables


def unread_logs(tables: Tables) -> DataFrame | None:
    """Return bookie_id and log_id of logs that were not read to their end; None if no log was read.

    The log_id of a directory that could not be listed is null: it stands for all logs of the bookie.
    """
    if "entry_logs" not in tables.frames:
        return None
    is_unread = F.col("ledger_id").isNull() & F.col("state").isin(*LOGS_NOT_WHOLE)
    rows = tables.entry_logs.where(is_unread & F.col("bookie_id").isNotNull())
    return rows.select("bookie_id", "log_id").distinct()


def logs_with_unknown_bytes(tables: Tables) -> DataFrame | None:
    """Return what `unread_logs` does, and the logs with bytes of which nobody knows whose they are."""
    unread = unread_logs(tables)
    if unread is None or "space" not in tables.frames or "space" in tables.known_empty:
        return unread
    is_unknown = (F.col("class") == SpaceClass.OWNER_UNKNOWN) & F.col("bookie_id").isNotNull()
    return unread.unionByName(tables.space.where(is_unknown).select("bookie_id", "log_id")).distinct()
