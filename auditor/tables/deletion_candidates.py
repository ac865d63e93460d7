"""deletion_candidates: the entry logs that collection deletes next, each read entry by entry.

What is deleted does not come back, and the collector goes by ledgers maps. So the map of every log that the
next pass deletes is held to the log's entries, not of a sample alone. Logs in collections are not here to be
read, and logs that were read by their entries already are not read again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from auditor.model.columns import schema_of
from auditor.model.states import EntryLogState, GcAction
from auditor.sources.bookies.collections.places import IN_COLLECTION
from auditor.sources.bookies.entry_logs.reader import MAP, read_contents
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

DELETION_CANDIDATES = schema_of(
    ("bookie_id", pa.string(), "the bookie"),
    ("path", pa.string(), "a log that its next collection deletes, as far as its ledgers map tells"),
    ("bytes", pa.int64(), "its length"),
    (
        "state",
        pa.string(),
        "ok; map-wrong: its entries say otherwise; unreadable: not read to its end",
    ),
    ("reason", pa.string(), "why the state is not ok"),
)
"""The table ``deletion_candidates``."""


def deletion_candidates(entry_logs: DataFrame, log_foresight: DataFrame) -> DataFrame:
    """Rows of `DELETION_CANDIDATES`; the arguments are the tables of these names."""
    from pyspark.sql.pandas.types import from_arrow_schema

    by_map = entry_logs.where(F.col("ledger_id").isNull() & (F.col("counted") == MAP)).select("path")
    here = ~F.col("path").contains(IN_COLLECTION)
    going = log_foresight.where((F.col("action") == GcAction.DELETE.value) & here)
    logs = going.join(by_map, "path", "left_semi")
    tasks = logs.sparkSession.sparkContext.defaultParallelism
    schema = from_arrow_schema(DELETION_CANDIDATES)
    return logs.select("bookie_id", "path", "bytes").repartition(tasks).mapInArrow(_read, schema)


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield pa.RecordBatch.from_pylist([row | hold_map(row["path"])], schema=DELETION_CANDIDATES)


def hold_map(path: str) -> dict[str, str | None]:
    """State and reason of one log, its map held to all of its entries.

    >>> hold_map("/no/such/log")
    {'state': 'unreadable', 'reason': 'No such file or directory'}
    """
    try:
        found = read_contents(path, verify=True)
    except OSError as error:
        # A running bookie may have deleted it by now, as was forecast.
        return {"state": EntryLogState.UNREADABLE.value, "reason": error.strerror or str(error)}
    if found.map_damage is not None and not found.map_unreadable:
        return {"state": EntryLogState.MAP_WRONG.value, "reason": found.map_damage.reason}
    if found.damage is not None:
        return {"state": EntryLogState.UNREADABLE.value, "reason": str(found.damage)}
    return {"state": EntryLogState.OK.value, "reason": None}
