"""misplaced: what an index points at in an entry log, and is not there, one row a ledger and log.

Of a ledger that is gone from index or metadata nothing is said: its locations linger until RocksDB has
dropped them, while its log may be deleted already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from auditor.model.columns import LEDGER, REPLICA, schema_of
from auditor.model.states import IndexState, Probe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
)
"""The table ``misplaced``."""


_HAD = [IndexState.OK.value, IndexState.CUT.value, IndexState.LIMBO.value]


def misplaced_locations(locations: DataFrame, availability: DataFrame, orphans: DataFrame) -> DataFrame:
    """Rows of `MISPLACED`; the arguments are the tables of these names."""
    from pyspark.sql import functions as F

    wrong = locations.where(F.col("probe") != Probe.OK.value)
    had = availability.where(F.col("state").isin(*_HAD)).select(*REPLICA).distinct()
    kept = wrong.join(had, [*REPLICA], "left_semi").join(orphans.select(*REPLICA), [*REPLICA], "left_anti")
    one = F.min(F.struct("probe", "probe_entry", "probe_offset")).alias("one")
    rows = kept.groupBy("bookie_id", "logger", "log_id", *LEDGER).agg(F.sum("entries").alias("entries"), one)
    return rows.select("bookie_id", "logger", "log_id", "scope_id", "ledger_id", "entries", "one.*").select(
        *MISPLACED.names
    )
