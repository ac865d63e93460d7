"""Sampled entries of an audit (``--deep``): held to their digests, and to each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.model.amounts import first_names, plural
from auditor.model.options import AuditOptions
from auditor.model.states import DigestState, NotChecked
from auditor.reports.blind_spots import ENTRIES_WHOLE
from auditor.sources.bookies import parts as index_parts
from auditor.sources.bookies.entry_logs.sample import EntrySample
from auditor.sources.bookies.entry_logs.whole_entries_source import WholeEntrySource, sample_json
from auditor.sources.bookies.parts import IndexPart
from auditor.sources.metadata.credentials import credentials_file
from auditor.spark import functions as F
from auditor.spark.batches import source_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = 5
"""So many bookies a note names."""

_WHY = {
    NotChecked.BUDGET: "beyond the budget of bytes (--digest-budget)",
    NotChecked.LOG: "in a log that could not be read there",
    NotChecked.OTHER: "whose location has something else (entry-log-missing)",
    NotChecked.METADATA: "of ledgers whose metadata is gone or cannot be read",
    NotChecked.TYPE: "of ledgers whose metadata says no digest type",
    NotChecked.DUMMY: "of ledgers without digests",
    NotChecked.NO_PASSWORD: "with HMAC and no password (--credentials)",
    NotChecked.OTHER_PASSWORD: "with HMAC under another password",
}


def whole_entries(
    spark: SparkSession,
    indexes: Sequence[IndexPart],
    ledger_directories: Mapping[str, Sequence[str]],
    options: AuditOptions,
) -> DataFrame:
    """The sampled entries of these parts of indexes, read when the frame is."""
    named = {
        "parts": index_parts.to_json(indexes),
        "ledger_directories": json.dumps(ledger_directories),
        "sample": sample_json(
            EntrySample(options.digest_entries, options.digest_percent, options.digest_budget * 1_000_000)
        ),
    }
    credentials = credentials_file(options.credentials)
    return source_rows(spark, WholeEntrySource(named | ({"credentials": credentials} if credentials else {})))


def entries_whole(digests: DataFrame | None) -> dict[str, int]:
    """How many entries were read whole, as an operation of the run; none where it did not look deep."""
    if digests is None:
        return {}
    return {ENTRIES_WHOLE: digests.where(F.col("ledger_id").isNotNull()).count()}


def digest_notes(digests: DataFrame, collected: Sequence[str] = ()) -> list[str]:
    """How many entries were checked, and how many were not, with the reasons.

    ``collected`` are bookies that a collection shows, which has no entries.
    """
    counts = {
        (row["state"], row["reason"]): row["entries"]
        for row in digests.groupBy("state", "reason").agg(F.sum("entries").alias("entries")).collect()
    }
    checked = sum(count for (state, _), count in counts.items() if state != DigestState.NOT_CHECKED)
    notes = [f"digests: {plural(checked, 'copy')} of entries in the sample held to their digests"]
    left = [
        f"{counts[DigestState.NOT_CHECKED, reason]:,} {why}"
        for reason, why in _WHY.items()
        if counts.get((DigestState.NOT_CHECKED, reason))
    ]
    if left:
        notes.append(f"digests: not checked: {', '.join(left)}")
    if collected:
        names = first_names(collected, NAMED)
        notes.append(f"digests: not checked: entries of {names}, for a collection has no entries")
    return notes
