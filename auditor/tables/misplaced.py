"""misplaced: what an index points at in an entry log, and is not there, one row a ledger and log.

Of a ledger that is gone from index or metadata nothing is said: its locations linger until RocksDB has
dropped them, while its log may be deleted already.
"""

from __future__ import annotations

import pyarrow as pa

from auditor.model.columns import LEDGER, REPLICA, schema_of
from auditor.model.states import IndexState, NotChecked, Probe
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

MISPLACED = schema_of(
    ("bookie_id", pa.string(), "the bookie"),
    ("logger", pa.int32(), "as in entry_logs"),
    ("log_id", pa.int64(), "the log that its index names"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("entries", pa.int64(), "entries that the index has there"),
    ("probe", pa.string(), "missing: no such log; past-end: it ends before; other: another entry, or none"),
    ("probe_entry", pa.int64(), "the entry that was looked up"),
    ("probe_offset", pa.int64(), "where the index has it"),
    ("there_ledger_id", pa.int64(), "other: the ledger of the entry that lies there; null: none does"),
    ("there_entry_id", pa.int64(), "that entry"),
    ("since", pa.int64(), "scan time of the first in a row of runs that saw the same of it, ms"),
)
"""The table ``misplaced``."""


_LOG_AND_LEDGER = ("bookie_id", "logger", "log_id", *LEDGER)
_LOCATED = (*_LOG_AND_LEDGER, *MISPLACED.names[5:-1])
_HAD = [IndexState.OK.value, IndexState.CUT.value, IndexState.LIMBO.value]


def misplaced_locations(
    locations: DataFrame,
    availability: DataFrame,
    orphans: DataFrame,
    digests: DataFrame | None,
    scan_time: int,
    earlier: DataFrame | None,
) -> DataFrame:
    """Rows of `MISPLACED`; arguments are the tables of these names, ``earlier`` this one of a run before."""
    wrong = locations.where(F.col("probe") != Probe.OK.value).select(*_LOCATED, F.lit(False).alias("deep"))
    if digests is not None:
        wrong = wrong.unionByName(_other_entries(digests))
    had = availability.where(F.col("state").isin(*_HAD)).select(*REPLICA).distinct()
    kept = wrong.join(had, [*REPLICA], "left_semi").join(orphans.select(*REPLICA), [*REPLICA], "left_anti")
    one = F.min(F.struct("probe", "probe_entry", "probe_offset", "there_ledger_id", "there_entry_id"))
    # An entry that was looked at whole may be one of those that its ledger has in the log.
    entries = F.greatest(
        F.sum(F.when(F.col("deep"), F.col("entries"))), F.sum(F.when(~F.col("deep"), F.col("entries")))
    )
    rows = kept.groupBy(*_LOG_AND_LEDGER).agg(entries.alias("entries"), one.alias("one"))
    return _with_since(rows.select(*_LOG_AND_LEDGER, "entries", "one.*"), scan_time, earlier)


def _other_entries(digests: DataFrame) -> DataFrame:
    """Entries that were looked at whole, and are others than the index says."""
    other = digests.where(F.col("reason") == NotChecked.OTHER.value).withColumns(
        {
            "probe": F.lit(Probe.OTHER.value),
            "probe_entry": F.col("entry_id"),
            "probe_offset": F.col("entry_offset"),
            "deep": F.lit(True),
        }
    )
    return other.select(*_LOCATED, "deep")


def _with_since(rows: DataFrame, scan_time: int, earlier: DataFrame | None) -> DataFrame:
    now = F.lit(scan_time).cast("long")
    if earlier is None or "since" not in earlier.columns:  # as of runs before it was a column
        return rows.withColumn("since", now).select(*MISPLACED.names)
    same = [*_LOG_AND_LEDGER, "probe", "probe_entry", "probe_offset"]
    known = earlier.select(*same, F.col("since").alias("was"))
    return rows.join(known, same, "left").withColumn("since", F.coalesce("was", now)).select(*MISPLACED.names)
