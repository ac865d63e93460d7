"""Copies on bookies that no ensemble names: may they be deleted?

They may where every entry of theirs has a copy on a member. A copy is the ledger's last one of an entry that
all members miss; it is the bookie's own where the ensembles name it by another of its ids; and it may become
one where somebody is copying the ledger, which its metadata learns last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from auditor.codecs.availability import coverage
from auditor.errors import CoverageLimitError
from auditor.model.columns import LEDGER, REPLICA
from auditor.model.finding import Confidence
from auditor.model.states import GcReason, GcVerdict, LedgerClass
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame, map_batches
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables.judge_replicas import groups_of

ALIASES = pa.schema([("bookie_id", pa.string()), ("other", pa.string())])

_LAST = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("scope_id", pa.int64()),
        ("ledger_id", pa.int64()),
        ("last", pa.bool_()),
    ]
)


def deletion_verdicts(
    over_replicated: DataFrame,
    ledgers: DataFrame,
    judged: DataFrame,
    verdicts: DataFrame,
    unequal: DataFrame,
    aliases: frozenset[tuple[str, str]],
) -> DataFrame:
    """Copies on bookies that no ensemble names, with the ``verdict`` on their deletion and its ``reason``."""
    classes = verdicts.select(
        *LEDGER,
        (F.col("class") == LedgerClass.ENTRY_LOST.value).alias("lost"),
        (F.col("potential_class") == LedgerClass.ENTRY_LOST.value).alias("endangered"),
        (F.col("confidence") == Confidence.CONFIRMED.value).alias("sure"),
        F.size("unread_bookies").alias("unread"),
    )
    pairs = over_replicated.join(classes, [*LEDGER], "left")
    rows = pairs.join(_last_copies(over_replicated, judged, verdicts, unequal), [*REPLICA], "left")
    rows = rows.join(_under_another_id(over_replicated, ledgers, aliases), [*REPLICA], "left")
    last = F.coalesce("last", F.lit(False))
    may_be_last = (F.col("lost") & F.col("last").isNull()) | (F.col("endangered") & (F.col("unread") > 0))
    reason = (
        F.when(F.col("other_id"), GcReason.OTHER_ID.value)
        .when(last & F.col("sure"), GcReason.LAST_COPY.value)
        .when(F.col("marked") | F.col("exposed"), GcReason.COPY_IN_FLIGHT.value)
        .when(last | may_be_last, GcReason.MEMBERS_UNKNOWN.value)
        .otherwise(GcReason.COPIES_ELSEWHERE.value)
    )
    wrong = F.col("reason").isin(GcReason.OTHER_ID.value, GcReason.LAST_COPY.value)
    right = F.col("reason") == GcReason.COPIES_ELSEWHERE.value
    return rows.withColumn("reason", reason).withColumn(
        "verdict",
        F.when(wrong, GcVerdict.WRONG.value)
        .when(right, GcVerdict.RIGHT.value)
        .otherwise(GcVerdict.UNKNOWN.value),
    )


def _under_another_id(
    over_replicated: DataFrame, ledgers: DataFrame, aliases: frozenset[tuple[str, str]]
) -> DataFrame:
    """Copies whose ledger names the bookie by another of its ids."""
    same = other_ids(over_replicated.sparkSession, aliases)
    members = (
        over_replicated.select(*REPLICA)
        .join(F.broadcast(same), "bookie_id")
        .join(ledgers.select(*LEDGER, F.col("replicas.bookie_id").alias("members")), [*LEDGER])
    )
    named = members.where(F.array_contains("members", F.col("other")))
    return named.select(*REPLICA, F.lit(True).alias("other_id")).distinct()


def other_ids(spark: SparkSession, aliases: frozenset[tuple[str, str]]) -> DataFrame:
    """Each bookie that has two ids, by the one, with the ``other``: rows of `ALIASES`."""
    pairs = [dict(zip(ALIASES.names, pair, strict=True)) for pair in sorted(aliases)]
    return arrow_frame(spark, pa.Table.from_pylist(pairs, ALIASES))


def _last_copies(
    over_replicated: DataFrame, judged: DataFrame, verdicts: DataFrame, unequal: DataFrame
) -> DataFrame:
    """Of copies of ledgers that lost an entry: whether such an entry is among them (``last``)."""
    from pyspark.sql.pandas.types import from_arrow_schema

    lost = verdicts.where(F.col("class") == LedgerClass.ENTRY_LOST.value).select(*LEDGER)
    pairs = over_replicated.select(*REPLICA).join(lost, [*LEDGER], "left_semi")
    missing = judged.select(*LEDGER, "write_quorum", F.col("missing.groups").alias("missing"))
    rows = pairs.join(unequal.select(*REPLICA, "held"), [*REPLICA]).join(missing, [*LEDGER])

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [{**row, "last": _is_last(row)} for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(found, schema=_LAST)

    return map_batches(rows, work, from_arrow_schema(_LAST))


def _is_last(row: dict[str, Any]) -> bool | None:
    """Whether what is held has an entry that all members miss; None where that takes too long to tell."""
    missing = [groups_of(groups) for groups in row["missing"]]
    try:
        gone = coverage.at_least(missing, row["write_quorum"])
        return len(coverage.intersection(groups_of(row["held"]), gone)) > 0
    except CoverageLimitError:
        return None
